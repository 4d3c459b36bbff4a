package launch

import "github.com/vishvananda/netlink"

// Datapath returns "system" if the kernel supports Open vSwitch, else "netdev". The query makes the kernel load its
// module.
func Datapath() string {
	if _, err := netlink.GenlFamilyGet("ovs_datapath"); err != nil {
		return "netdev"
	}
	return "system"
}
