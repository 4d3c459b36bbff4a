package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Answer makes the host answer ARP and neighbour discovery on a link for addresses that it routes elsewhere. It ends the answers
// for former addresses that are not among these. Without addresses a missing link is not an error.
func Answer(linkName string, addresses, former []netip.Addr) error {
	if len(addresses)+len(former) == 0 {
		return nil
	}
	link, err := netlink.LinkByName(linkName)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) && len(addresses) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", linkName, err)
	}
	for _, address := range former {
		if slices.Contains(addresses, address) {
			continue
		}
		if err := netlink.NeighDel(proxy(link, address)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("link %s: stop answering for %s: %w", linkName, address, err)
		}
	}
	for _, address := range addresses {
		if address.Is6() {
			if _, err := setTo(filepath.Join("ipv6/conf", linkName, "proxy_ndp"), "0", "1"); err != nil {
				return err
			}
		}
		if err := netlink.NeighSet(proxy(link, address)); err != nil {
			return fmt.Errorf("link %s: answer for %s: %w", linkName, address, err)
		}
	}
	return nil
}

func proxy(link netlink.Link, address netip.Addr) *netlink.Neigh {
	family := unix.AF_INET
	if address.Is6() {
		family = unix.AF_INET6
	}
	return &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: family, Flags: netlink.NTF_PROXY, IP: address.AsSlice()}
}
