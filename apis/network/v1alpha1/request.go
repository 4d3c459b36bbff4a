package v1alpha1

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// RequestedIPsAnnotation requests a pod's addresses: at most one per family, separated by a comma. It is read only
// when the pod gets its addresses.
const RequestedIPsAnnotation = GroupName + "/requested-ips"

// ParseRequestedIPs parses the value of RequestedIPsAnnotation: one address, or two of different families.
func ParseRequestedIPs(text string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		address, err := netip.ParseAddr(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, fmt.Errorf("annotation %s: %w", RequestedIPsAnnotation, err)
		case address.Zone() != "" || address.Is4In6():
			return nil, fmt.Errorf("annotation %s: %s is not a plain IPv4 or IPv6 address", RequestedIPsAnnotation, address)
		case len(addresses) == 2:
			return nil, fmt.Errorf("annotation %s: more than two addresses", RequestedIPsAnnotation)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 2 && addresses[0].Is4() == addresses[1].Is4() {
		return nil, fmt.Errorf("annotation %s: %w: %s and %s", RequestedIPsAnnotation, errOneFamily, addresses[0], addresses[1])
	}
	return addresses, nil
}

var errOneFamily = errors.New("two addresses of one family")

// RequestedMACAnnotation requests a pod's MAC address. It is read only when the pod gets its addresses.
const RequestedMACAnnotation = GroupName + "/requested-mac"

// ParseRequestedMAC parses the value of RequestedMACAnnotation: an Ethernet address in any common form. Whether the
// pod can have it depends on its node's switch.
func ParseRequestedMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", RequestedMACAnnotation, err)
	}
	if len(mac) != ethernetLength {
		return nil, fmt.Errorf("annotation %s: %s has %d bytes, not %d", RequestedMACAnnotation, mac, len(mac), ethernetLength)
	}
	return mac, nil
}

// ethernetLength is the length of a MAC in bytes.
const ethernetLength = 6
