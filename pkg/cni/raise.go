package cni

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// Raise brings the host's end up if something took it down after Attach. ovs-vswitchd does when it gives up a port of that name: it writes back
// the flags that it read before, and a link that was made anew under the name may be hit.
func Raise(containerID, ifName string) error {
	name := HostName(containerID, ifName)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if link.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("link %s: set up: %w", name, err)
	}
	return nil
}
