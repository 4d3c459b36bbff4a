package launch

import "github.com/vishvananda/netlink"

// Datapath is "system" where the kernel has Open vSwitch's own, and else "netdev". Asking makes the kernel load its module.
func Datapath() string {
	if _, err := netlink.GenlFamilyGet("ovs_datapath"); err != nil {
		return "netdev"
	}
	return "system"
}
