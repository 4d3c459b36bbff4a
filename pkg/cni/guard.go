package cni

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// GuardTable is the table of family netdev that holds a chain for each guarded device, named after the device. The chain
// has no rule; its policy drops all frames. The ingress hook comes after the packet taps, through which the userspace
// datapath reads, and before the host's stack.
const GuardTable = "weft-guard"

// guardPriority comes before all other chains, which need not see the frames.
const guardPriority = -500

// Guard hides a device's frames from the host's stack. It is idempotent.
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

// Unguard reverts Guard for a device that stays. It is idempotent.
func Unguard(device string) error { return unguard(device) }

// unguard removes the chain of a device. Kernels before 6.16 remove the chain with the device; later kernels keep it
// for the next device of that name. It first checks that the chain exists, because even a futile removal waits for an
// RCU grace period.
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

// isGuarded queries only the device's chain, because a dump of all chains may be incomplete while others are created.
// The nftables library has no such query that preserves the error number.
func isGuarded(device string) (bool, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_NETDEV, Version: unix.NFNETLINK_V0})
	request.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_TABLE, nl.ZeroTerminated(GuardTable)))
	request.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_NAME, nl.ZeroTerminated(device)))
	_, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if isNoGuard(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("query guard of %s: %w", device, err)
	}
	return true, nil
}

// isNoGuard reports whether err means that the chain or table does not exist, or that the kernel supports neither.
func isNoGuard(err error) bool {
	for _, absence := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT} {
		if errors.Is(err, absence) {
			return true
		}
	}
	return false
}

// SweepGuards removes the guards of devices that no longer exist.
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

// RemoveGuards removes the table with all guards. A missing table is not an error.
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

// Reguard restores the guards of devices that another program has removed or weakened, and reports whether any was missing. It
// leaves out devices that no longer exist.
func Reguard(devices []string) (changed bool, err error) {
	if len(devices) == 0 {
		return false, nil
	}
	nft, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("restore guards: %w", err)
	}
	nft.AddTable(guardTableRef()) // which may be dormant
	if err := nft.Flush(); err != nil {
		return false, fmt.Errorf("restore guards: %w", err)
	}
	chains, err := nft.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil {
		return false, fmt.Errorf("list guards: %w", err)
	}
	guarded := map[string]bool{}
	for _, c := range chains {
		if c.Table.Name == GuardTable && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
			guarded[c.Name] = true
		}
	}
	for _, device := range devices {
		gone, err := isGone(device)
		if err != nil {
			return changed, err
		}
		if gone || guarded[device] {
			continue
		}
		if err := errors.Join(Guard(device), sweepGuard(device)); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// sweepGuard checks the device again after it removed the chain, because an Attach of the same container may have
// recreated the device in between.
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
		if chain.Table.Name == GuardTable {
			devices = append(devices, chain.Name)
		}
	}
	return devices, nil
}

func guardTableRef() *nftables.Table {
	return &nftables.Table{Name: GuardTable, Family: nftables.TableFamilyNetdev}
}
