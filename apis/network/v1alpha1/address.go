package v1alpha1

import (
	"fmt"
	"net/netip"
)

// CIDR is an IPv4 or IPv6 unicast network without host bits, "10.244.0.0/16".
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="not a CIDR",messageExpression="'\"' + self + '\" is not an IPv4 or IPv6 CIDR such as 10.244.0.0/16 or fd00:10:244::/48'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="a CIDR must have no host bits",messageExpression="self + ' has host bits set: a CIDR is the first address of its network and the prefix length'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).masked().ip().isGlobalUnicast()",message="a CIDR must be unicast",messageExpression="self + ' is not a unicast network: unspecified, loopback, link-local and multicast ranges cannot be used'",reason=FieldValueInvalid
type CIDR string

// Prefix parses the CIDR. The API server validates CIDRs, so an error means that the object was not read from an API
// server.
func (c CIDR) Prefix() (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(string(c))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("CIDR %q: %w", string(c), err)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("CIDR %q has host bits, write %s", string(c), prefix.Masked())
	}
	return prefix, nil
}

// InterfaceAddress is an address with the prefix length of its subnet, "10.244.1.2/24".
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="not an address with a prefix length",messageExpression="'\"' + self + '\" is not an address with a prefix length such as 10.244.1.2/24'",reason=FieldValueInvalid
type InterfaceAddress string

// Prefix parses the address. The result keeps the host bits.
func (a InterfaceAddress) Prefix() (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(string(a))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("address %q: %w", string(a), err)
	}
	return prefix, nil
}

// NodePortAddress is a network of nodes' addresses at which node ports are served, or "primary".
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="self == 'primary' || isCIDR(self)",message="not a CIDR",messageExpression="'nodePortAddresses: \"' + self + '\" is neither primary nor an IPv4 or IPv6 CIDR such as 192.0.2.0/24 or 2001:db8::/64'",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="a CIDR must have no host bits",messageExpression="'nodePortAddresses: ' + self + ' has host bits set: a CIDR is the first address of its network and the prefix length'",reason=FieldValueInvalid
type NodePortAddress string

// PrimaryNodePortAddress stands for the first InternalIP of each family of a Node.
const PrimaryNodePortAddress NodePortAddress = "primary"

// IP is an IPv4 or IPv6 address, "10.244.1.1".
//
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="not an IP address",messageExpression="'\"' + self + '\" is not an IPv4 or IPv6 address'",reason=FieldValueInvalid
type IP string

// Addr parses the address.
func (i IP) Addr() (netip.Addr, error) {
	addr, err := netip.ParseAddr(string(i))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("IP %q: %w", string(i), err)
	}
	return addr, nil
}

// MACAddress is an Ethernet address in lower case, "0a:58:0a:f4:01:02".
//
// +kubebuilder:validation:Pattern=`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`
type MACAddress string
