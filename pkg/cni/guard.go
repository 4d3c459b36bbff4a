package cni

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// guardTable holds a chain per guarded device, of the device's name. The chain
// has no rule: its policy drops. The ingress hook comes after the packet taps
// through which the userspace datapath reads and before the host's stack.
const guardTable = "weft-guard"

// guardPriority comes before chains of others, which need not see the frames.
const guardPriority = -500

// Guard hides a device's frames from the host's stack; twice is as once.
func Guard(device string) error {
	nft, err := nftables.New()
	if err != nil {
		return fmt.Errorf("guard of %s: %w", device, err)
	}
	drop := nftables.ChainPolicyDrop
	nft.AddChain(&nftables.Chain{
		Name:     device,
		Table:    nft.AddTable(guardTableRef()),
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookIngress,
		Priority: nftables.ChainPriorityRef(guardPriority),
		Policy:   &drop,
		Device:   device,
	})
	if err := nft.Flush(); err != nil {
		return fmt.Errorf("guard of %s: %w", device, err)
	}
	return nil
}

// Unguard ends Guard for a device that stays; twice is as once.
func Unguard(device string) error { return unguard(device) }

// unguard removes the chain of a device that is gone. Kernels before 6.16
// removed it with the device; later ones keep it for the next of that name.
// It looks first: an attempt waits for an RCU grace period even to find nothing.
func unguard(device string) error {
	guarded, err := isGuarded(device)
	if err != nil || !guarded {
		return err
	}
	nft, err := nftables.New()
	if err != nil {
		return fmt.Errorf("remove guard of %s: %w", device, err)
	}
	nft.DelChain(&nftables.Chain{Name: device, Table: guardTableRef()})
	if err := nft.Flush(); err != nil && !isNoGuard(err) {
		return fmt.Errorf("remove guard of %s: %w", device, err)
	}
	return nil
}

// isGuarded asks for the one chain: a dump of all may miss some while others are
// made. The nftables library has no such question that keeps the error's number.
func isGuarded(device string) (bool, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_NETDEV, Version: unix.NFNETLINK_V0})
	request.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_TABLE, nl.ZeroTerminated(guardTable)))
	request.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_NAME, nl.ZeroTerminated(device)))
	_, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if isNoGuard(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for guard of %s: %w", device, err)
	}
	return true, nil
}

// isNoGuard tells a chain or table that is not there, or a kernel without any.
func isNoGuard(err error) bool {
	for _, absence := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT} {
		if errors.Is(err, absence) {
			return true
		}
	}
	return false
}

// SweepGuards removes the guards of devices that are gone.
func SweepGuards() error {
	guarded, err := guardedDevices()
	if err != nil {
		return err
	}
	var failures []error
	for _, device := range guarded {
		failures = append(failures, sweepGuard(device))
	}
	return errors.Join(failures...)
}

// RemoveGuards removes the table with all guards; that there is none is no error.
func RemoveGuards() error {
	nft, err := nftables.New()
	if err != nil {
		return fmt.Errorf("remove guards: %w", err)
	}
	nft.DelTable(guardTableRef())
	if err := nft.Flush(); err != nil && !isNoGuard(err) {
		return fmt.Errorf("remove guards: %w", err)
	}
	return nil
}

// sweepGuard looks again after it removed a chain: an Attach of the same
// container may have made the device anew in between.
func sweepGuard(device string) error {
	gone, err := isGone(device)
	if err != nil || !gone {
		return err
	}
	if err := unguard(device); err != nil {
		return err
	}
	if gone, err = isGone(device); err != nil || gone {
		return err
	}
	return Guard(device)
}

func isGone(device string) (bool, error) {
	_, err := netlink.LinkByName(device)
	if isNotFound(err) {
		return true, nil
	}
	return false, err
}

func guardedDevices() ([]string, error) {
	nft, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("list guards: %w", err)
	}
	chains, err := nft.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil && !isNoGuard(err) {
		return nil, fmt.Errorf("list guards: %w", err)
	}
	var devices []string
	for _, chain := range chains {
		if chain.Table.Name == guardTable {
			devices = append(devices, chain.Name)
		}
	}
	return devices, nil
}

func guardTableRef() *nftables.Table {
	return &nftables.Table{Name: guardTable, Family: nftables.TableFamilyNetdev}
}
