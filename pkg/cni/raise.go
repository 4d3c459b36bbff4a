package cni

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// Raise brings the host's end up if it was taken down after Attach. ovs-vswitchd may do so when it releases a port:
// it restores the flags that it read earlier, and may hit a recreated link of the same name.
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
