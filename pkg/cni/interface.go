package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// PodInterface describes a pod's interface.
type PodInterface struct {
	ContainerID string // ID of the sandbox
	NetNS       string // path of its network namespace
	IfName      string // name in the pod, usually eth0
	HostName    string // name of the host's end; if empty, HostName(ContainerID, IfName), which Detach removes

	MAC       net.HardwareAddr
	Addresses []netip.Prefix // each with the prefix length of its subnet
	Gateways  []netip.Addr   // of default routes, at most one per family
	Routes    []Route
	MTU       int // bytes; 0 means the kernel's default

	// DisableTxOffload makes the pod's kernel compute checksums. The userspace datapath of Open vSwitch needs it,
	// because it does not complete them.
	DisableTxOffload bool
	// IngressGuard hides the frames of the host's end from the host's stack. The userspace datapath needs it, because
	// it reads copies of the frames. It must not be set with the kernel datapath, which would not see the frames
	// either.
	IngressGuard bool
}

// Route is an additional route of the pod. Without a gateway its destination is on the link.
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr
}

// Attachment describes the interface that Attach created.
type Attachment struct {
	HostName  string
	HostIndex int
	HostMAC   net.HardwareAddr
	PodIndex  int
	MAC       net.HardwareAddr // MAC of the pod's end
}

// HostLink is the host's end of a pod's interface as List finds it.
type HostLink struct {
	Name        string
	Index       int
	ContainerID string // empty for an unfinished link
	IfName      string
}

// minIPv6MTU is the smallest MTU with which Linux enables IPv6 on an interface (RFC 8200 §5).
const minIPv6MTU = 1280

// validate returns an error if the interface cannot be created.
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

// routes returns the default routes and the additional routes.
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

// reaches reports whether a subnet of the interface contains the gateway. Link-local IPv6 gateways are always
// reachable.
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
