package cni

import (
	"fmt"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// disableTxOffload does what ethtool -K tx off does on a veth. The kernel drops
// with these features those that build on them, such as segmentation.
func disableTxOffload(_ *netlink.Handle, _ netlink.Link, want PodInterface) error {
	if !want.DisableTxOffload {
		return nil
	}
	device, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer device.Close()
	off := map[string]bool{"tx-checksum-ip-generic": false, "tx-checksum-sctp": false}
	if err := device.Change(want.IfName, off); err != nil {
		return fmt.Errorf("disable transmit checksum offload: %w", err)
	}
	return nil
}
