package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// PodInterface is an interface that a pod shall have.
type PodInterface struct {
	ContainerID string // the sandbox
	NetNS       string // path of its network namespace
	IfName      string // name in the pod, usually eth0
	HostName    string // name of the host's end; empty: HostName(ContainerID, IfName), which Detach removes

	MAC       net.HardwareAddr
	Addresses []netip.Prefix // each with the prefix length of its subnet
	Gateways  []netip.Addr   // of default routes, at most one per family
	Routes    []Route
	MTU       int // bytes; 0: the kernel's default

	// DisableTxOffload makes the pod's kernel write checksums itself. The
	// userspace datapath of Open vSwitch needs it: it does not complete them.
	DisableTxOffload bool
	// IngressGuard hides the frames of the host's end from the host's own
	// stack. The userspace datapath needs it: it reads copies of the frames.
	// Never with the kernel datapath, which would not see them either.
	IngressGuard bool
}

// Route is a further route of the pod. Without a gateway it is on the link.
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr
}

// Attachment is a PodInterface as it was made.
type Attachment struct {
	HostName  string
	HostIndex int
	HostMAC   net.HardwareAddr
	PodIndex  int
	MAC       net.HardwareAddr // of the pod's end
}

// HostLink is the host's end of a pod's interface, as List finds it.
type HostLink struct {
	Name        string
	Index       int
	ContainerID string // empty for a link that was left half made
	IfName      string
}

// minIPv6MTU is the least MTU with which Linux lets an interface have IPv6 (RFC 8200 §5).
const minIPv6MTU = 1280

// validate says why the interface cannot be made as it is wanted.
func (p PodInterface) validate() error {
	switch {
	case p.ContainerID == "":
		return errors.New("no container ID")
	case p.IfName == "":
		return errors.New("no interface name")
	case len(p.MAC) != ethernetLength:
		return fmt.Errorf("MAC %q is not an Ethernet address", p.MAC)
	case p.MTU != 0 && p.MTU < minIPv6MTU && p.hasIPv6():
		return fmt.Errorf("MTU %d is below the %d that IPv6 needs", p.MTU, minIPv6MTU)
	}
	for _, address := range p.Addresses {
		if !address.IsValid() {
			return errors.New("invalid address")
		}
	}
	for _, gateway := range p.Gateways {
		if !gateway.IsValid() {
			return errors.New("invalid gateway")
		}
	}
	for _, route := range p.Routes {
		if !route.Dst.IsValid() {
			return errors.New("invalid destination of a route")
		}
	}
	return nil
}

func (p PodInterface) hasIPv6() bool {
	for _, address := range p.Addresses {
		if address.Addr().Is6() {
			return true
		}
	}
	return false
}

// routes are the default routes and the further ones.
func (p PodInterface) routes() []Route {
	var routes []Route
	for _, gateway := range p.Gateways {
		routes = append(routes, Route{Dst: defaultOf(gateway), Gateway: gateway})
	}
	return append(routes, p.Routes...)
}

func defaultOf(gateway netip.Addr) netip.Prefix {
	if gateway.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// reaches tells whether a subnet of the interface holds the gateway. IPv6
// reaches link-local ones always.
func (p PodInterface) reaches(gateway netip.Addr) bool {
	if gateway.Is6() && gateway.IsLinkLocalUnicast() {
		return true
	}
	for _, address := range p.Addresses {
		if address.Contains(gateway) {
			return true
		}
	}
	return false
}
