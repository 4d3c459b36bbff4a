package cni

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Verify returns an error if a pod's interface lacks something that Attach gave it; CHECK uses it. It ignores what
// the pod added. Without a network namespace it does not check the pod's end.
func Verify(want PodInterface) error {
	if err := verify(want); err != nil {
		return fmt.Errorf("interface %s of container %s: %w", want.IfName, want.ContainerID, err)
	}
	return nil
}

func verify(want PodInterface) error {
	if want.HostName == "" {
		want.HostName = HostName(want.ContainerID, want.IfName)
	}
	if err := verifyHost(want); err != nil || want.NetNS == "" {
		return err
	}
	ns, err := openNetNS(want.NetNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	return inNetNS(ns, func() error { return verifyPod(want) })
}

func verifyHost(want PodInterface) error {
	link, err := netlink.LinkByName(want.HostName)
	if err != nil {
		return fmt.Errorf("link %s: %w", want.HostName, err)
	}
	if link.Attrs().Alias != aliasOf(want.ContainerID, want.IfName) {
		return fmt.Errorf("link %s has alias %q", want.HostName, link.Attrs().Alias)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("link %s is down", want.HostName)
	}
	if !want.IngressGuard {
		return nil
	}
	guarded, err := isGuarded(want.HostName)
	if err == nil && !guarded {
		err = fmt.Errorf("link %s has no guard", want.HostName)
	}
	return err
}

// verifyPod runs in the pod's namespace.
func verifyPod(want PodInterface) error {
	pod, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in the pod: %w", err)
	}
	defer pod.Close()
	link, err := pod.LinkByName(want.IfName)
	if err != nil {
		return fmt.Errorf("the pod's end: %w", err)
	}
	return errors.Join(
		verifyLink(link.Attrs(), want),
		verifyAddresses(pod, link, want),
		verifyRoutes(pod, link, want))
}

func verifyLink(attrs *netlink.LinkAttrs, want PodInterface) error {
	switch {
	case attrs.HardwareAddr.String() != want.MAC.String():
		return fmt.Errorf("the pod's end has MAC %s, not %s", attrs.HardwareAddr, want.MAC)
	case want.MTU != 0 && attrs.MTU != want.MTU:
		return fmt.Errorf("the pod's end has MTU %d, not %d", attrs.MTU, want.MTU)
	case attrs.Flags&net.FlagUp == 0:
		return errors.New("the pod's end is down")
	}
	return nil
}

func verifyAddresses(pod *netlink.Handle, link netlink.Link, want PodInterface) error {
	entries, err := pod.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	present := map[string]bool{} // prefix -> true
	for _, entry := range entries {
		present[entry.IPNet.String()] = true
	}
	for _, address := range want.Addresses {
		if !present[address.String()] {
			return fmt.Errorf("address %s is missing", address)
		}
	}
	return nil
}

func verifyRoutes(pod *netlink.Handle, link netlink.Link, want PodInterface) error {
	entries, err := pod.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	present := map[string]bool{} // destination and gateway -> true
	for _, entry := range entries {
		present[routeKey(entry)] = true
	}
	for _, route := range want.routes() {
		if !present[routeKey(*kernelRoute(link, route, want))] {
			return fmt.Errorf("route %s via %s is missing", route.Dst, route.Gateway)
		}
	}
	return nil
}

func routeKey(route netlink.Route) string {
	if route.Gw == nil {
		return route.Dst.String()
	}
	return route.Dst.String() + " via " + route.Gw.String()
}
