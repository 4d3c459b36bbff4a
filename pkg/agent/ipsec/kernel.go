package ipsec

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/ports"
)

// ClearKernel removes the kernel's policies and states for tunnels. The tunnels' packets are in the clear then.
func ClearKernel() error {
	policies, err := tunnelPolicies()
	if err != nil {
		return err
	}
	if err := clearStates(policies); err != nil {
		return err
	}
	for i := range policies {
		if err := netlink.XfrmPolicyDel(&policies[i]); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove IPsec policy %s: %w", policies[i], err)
		}
	}
	return nil
}

// clearStaleStates removes the states of a daemon that is gone. The policies stay, so that packets wait for new keys. Without this, a
// node would send with keys that its peers have given up.
func clearStaleStates() error {
	policies, err := tunnelPolicies()
	if err != nil {
		return err
	}
	return clearStates(policies)
}

// tunnelPolicies lists the policies for packets from or to Geneve's port.
func tunnelPolicies() (found []netlink.XfrmPolicy, err error) {
	all, err := netlink.XfrmPolicyList(netlink.FAMILY_ALL)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil // the kernel has no IPsec
	}
	if err != nil {
		return nil, fmt.Errorf("list IPsec policies: %w", err)
	}
	for _, p := range all {
		if p.Proto == unix.IPPROTO_UDP && p.Src != nil && p.Dst != nil && (p.SrcPort == ports.Geneve || p.DstPort == ports.Geneve) {
			found = append(found, p)
		}
	}
	return found, nil
}

// clearStates removes the states that policies use.
func clearStates(policies []netlink.XfrmPolicy) error {
	used := map[string]bool{}
	for _, p := range policies {
		used[pair(p.Src.IP, p.Dst.IP)] = true
	}
	if len(used) == 0 {
		return nil
	}
	states, err := netlink.XfrmStateList(netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list IPsec states: %w", err)
	}
	for i := range states {
		s := &states[i]
		if s.Mode != netlink.XFRM_MODE_TRANSPORT || !used[pair(s.Src, s.Dst)] {
			continue
		}
		if err := netlink.XfrmStateDel(s); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove IPsec state %s to %s: %w", s.Src, s.Dst, err)
		}
	}
	return nil
}

func pair(src, dst net.IP) string { return src.String() + " " + dst.String() }
