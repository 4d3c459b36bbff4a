package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const addrGenModeNone = 1

// prepareIPv6 prepares the pod's end for its IPv6 addresses. It always disables router advertisements, because
// another pod on the network could otherwise give this pod an address and a default route (CVE-2020-10749).
func prepareIPv6(pod *netlink.Handle, link netlink.Link, want PodInterface) error {
	if err := disableIPv6Autoconf(pod, link); err != nil {
		return err
	}
	err := setIPv6(want.IfName, "accept_ra", "0")
	if err == nil && want.hasIPv6() {
		// The runtime or the node's defaults may have disabled IPv6.
		err = setIPv6(want.IfName, "disable_ipv6", "0")
	}
	if errors.Is(err, os.ErrNotExist) {
		if want.hasIPv6() {
			return fmt.Errorf("the pod needs IPv6 but the kernel has none: %w", err)
		}
		return nil
	}
	return err
}

// disableIPv6Autoconf keeps the kernel from creating a link-local address, whose duplicate address detection takes a
// second or more.
func disableIPv6Autoconf(handle *netlink.Handle, link netlink.Link) error {
	err := handle.LinkSetIP6AddrGenMode(link, addrGenModeNone)
	// Either the kernel has no IPv6, or this link has none because its MTU is below minIPv6MTU.
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("disable IPv6 autoconfiguration: %w", err)
	}
	return nil
}

// setIPv6 sets a variable of an interface in the thread's namespace. It does not write a value that is already set,
// because /proc/sys may be read-only.
func setIPv6(ifName, variable, value string) error {
	path := filepath.Join("/proc/sys/net/ipv6/conf", ifName, variable)
	current, err := os.ReadFile(path)
	if err != nil || string(current) == value+"\n" {
		return err
	}
	return os.WriteFile(path, []byte(value), 0)
}
