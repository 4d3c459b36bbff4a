package cni

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// SetMTU changes the MTU, in bytes, of both ends of an interface that Attach created. It changes the host's end last,
// so that the MTU that List returns applies to both ends. It uses only ContainerID, IfName, NetNS, MTU and Addresses.
// If the namespace or the link is gone, SetMTU returns nil and leaves the rest to DEL.
func SetMTU(want PodInterface) error {
	err := setMTU(want)
	if err == nil || hasVanished(err) {
		return nil
	}
	return fmt.Errorf("interface %s of container %s: MTU %d: %w", want.IfName, want.ContainerID, want.MTU, err)
}

func setMTU(want PodInterface) error {
	if want.MTU < minIPv6MTU && want.hasIPv6() { // the kernel would disable IPv6 on the link and remove its addresses
		return fmt.Errorf("the MTU is below the %d that IPv6 needs", minIPv6MTU)
	}
	host, err := netlink.LinkByName(HostName(want.ContainerID, want.IfName))
	if err != nil || host.Attrs().MTU == want.MTU {
		return err
	}
	ns, err := openNetNS(want.NetNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	err = inNetNS(ns, func() error {
		pod, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer pod.Close()
		link, err := pod.LinkByName(want.IfName)
		if err != nil {
			return err
		}
		return pod.LinkSetMTU(link, want.MTU)
	})
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(host, want.MTU)
}

func hasVanished(err error) bool {
	var absent netlink.LinkNotFoundError
	var badNetNS *cniwire.Error
	return errors.As(err, &absent) || errors.Is(err, unix.ENODEV) ||
		errors.As(err, &badNetNS) && badNetNS.Code == cniwire.CodeInvalidNetNS
}
