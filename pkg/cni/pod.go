package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// configurePod configures the pod's end in the pod's namespace. IPv6 is configured before the link comes up, because
// the kernel's autoconfiguration would start then.
func configurePod(want PodInterface) (index int, err error) {
	pod, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, fmt.Errorf("netlink in the pod: %w", err)
	}
	defer pod.Close()
	link, err := pod.LinkByName(want.IfName)
	if err != nil {
		return 0, fmt.Errorf("the pod's end: %w", err)
	}
	for _, step := range []func(*netlink.Handle, netlink.Link, PodInterface) error{
		prepareIPv6, disableTxOffload, setUp, addAddresses, addRoutes,
	} {
		if err := step(pod, link, want); err != nil {
			return 0, err
		}
	}
	return link.Attrs().Index, nil
}

func setUp(pod *netlink.Handle, link netlink.Link, _ PodInterface) error {
	if err := pod.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return nil
}

// addAddresses adds the addresses, and for IPv6 also the link-local address, which neighbour discovery needs.
func addAddresses(pod *netlink.Handle, link netlink.Link, want PodInterface) error {
	if want.hasIPv6() {
		if err := addAddress(pod, link, linkLocal(want.MAC)); err != nil {
			return err
		}
	}
	for _, address := range want.Addresses {
		if err := addAddress(pod, link, address); err != nil {
			return err
		}
	}
	return nil
}

func addAddress(pod *netlink.Handle, link netlink.Link, address netip.Prefix) error {
	entry := &netlink.Addr{IPNet: ipNet(address)}
	if address.Addr().Is6() {
		entry.Flags = unix.IFA_F_NODAD
	}
	if address.Addr().IsLinkLocalUnicast() {
		entry.Scope = unix.RT_SCOPE_LINK
	}
	err := pod.AddrAdd(link, entry)
	// The pod's own address may equal the link-local address.
	if errors.Is(err, unix.EEXIST) && address.Addr().IsLinkLocalUnicast() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add address %s: %w", address, err)
	}
	return nil
}

func addRoutes(pod *netlink.Handle, link netlink.Link, want PodInterface) error {
	for _, route := range want.routes() {
		if err := pod.RouteAdd(kernelRoute(link, route, want)); err != nil {
			return fmt.Errorf("add route %s via %s: %w", route.Dst, route.Gateway, err)
		}
	}
	return nil
}

// kernelRoute returns the route in netlink form. A gateway outside the interface's subnets is declared to be on the
// link.
func kernelRoute(link netlink.Link, route Route, want PodInterface) *netlink.Route {
	kernel := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(route.Dst.Masked())}
	if !route.Gateway.IsValid() {
		if route.Dst.Addr().Is4() {
			kernel.Scope = unix.RT_SCOPE_LINK
		}
		return kernel
	}
	kernel.Gw = route.Gateway.AsSlice()
	if !want.reaches(route.Gateway) {
		kernel.SetFlag(netlink.FLAG_ONLINK)
	}
	return kernel
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}
