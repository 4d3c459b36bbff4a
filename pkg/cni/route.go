package cni

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddDefaultRoutes adds default routes through an interface of a pod that another plugin made. A default route that
// the plugin itself made is replaced.
func AddDefaultRoutes(netNS, ifName string, gateways []netip.Addr) error {
	ns, err := openNetNS(netNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	return inNetNS(ns, func() error {
		pod, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink in the pod: %w", err)
		}
		defer pod.Close()
		link, err := pod.LinkByName(ifName)
		if err != nil {
			return fmt.Errorf("interface %s: %w", ifName, err)
		}
		for _, gateway := range gateways {
			route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(defaultOf(gateway)), Gw: gateway.AsSlice()}
			if err := pod.RouteReplace(route); err != nil {
				return fmt.Errorf("interface %s: default route by %s: %w", ifName, gateway, err)
			}
		}
		return nil
	})
}
