package ipsec

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

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

// selector identifies a policy of the kernel for UDP packets. Port 0 is any.
type selector struct {
	direction        netlink.Dir
	src, dst         netip.Addr
	srcPort, dstPort int
}

// selectors returns the selectors of charon's policies for the tunnel to a peer: two for each child of newConnection.
func (p Peer) selectors() []selector {
	return []selector{
		{netlink.XFRM_DIR_OUT, p.Local, p.Address, 0, ports.Geneve}, {netlink.XFRM_DIR_IN, p.Address, p.Local, ports.Geneve, 0},
		{netlink.XFRM_DIR_OUT, p.Local, p.Address, ports.Geneve, 0}, {netlink.XFRM_DIR_IN, p.Address, p.Local, 0, ports.Geneve},
	}
}

// state identifies keys of the kernel.
type state struct {
	destination netip.Addr
	spi         uint32
}

// keys are a pair of states that charon negotiated for a child of a connection.
type keys struct {
	child   string
	in, out state
	renewed bool // charon replaces them
}

// kernel is what the kernel has for tunnels. Policies that let other packets than ESP pass are absent.
type kernel struct {
	policies map[selector]bool
	states   map[state]bool
}

// readKernel reads the kernel's policies for tunnels, and all states.
func readKernel() (kernel, error) {
	k := kernel{policies: map[selector]bool{}, states: map[state]bool{}}
	policies, err := tunnelPolicies()
	if err != nil {
		return k, err
	}
	for _, p := range policies {
		if demandsESP(p) && isHost(p.Src) && isHost(p.Dst) {
			k.policies[selector{p.Dir, addrOf(p.Src.IP), addrOf(p.Dst.IP), p.SrcPort, p.DstPort}] = true
		}
	}
	states, err := netlink.XfrmStateList(netlink.FAMILY_ALL)
	if err != nil {
		return k, fmt.Errorf("list IPsec states: %w", err)
	}
	for _, s := range states {
		k.states[state{addrOf(s.Dst), uint32(s.Spi)}] = true
	}
	return k, nil
}

func isHost(network *net.IPNet) bool {
	ones, bits := network.Mask.Size()
	return ones == bits
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// demandsESP reports whether a policy lets only packets in ESP pass.
func demandsESP(p netlink.XfrmPolicy) bool {
	return p.Action == netlink.XFRM_POLICY_ALLOW && slices.ContainsFunc(p.Tmpls, func(t netlink.XfrmPolicyTmpl) bool {
		return t.Proto == netlink.XFRM_PROTO_ESP && t.Optional == 0
	})
}

// lacks reports whether the kernel lacks something for the tunnel to a peer: keys that charon has for a child or, if encryption is
// required, a policy. While charon renews the keys of a child, one whole pair is enough.
func (k kernel) lacks(peer Peer, required bool, installed []keys) bool {
	whole, lacking, renewed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range installed {
		if k.states[c.in] && k.states[c.out] {
			whole[c.child] = true
		} else {
			lacking[c.child] = true
		}
		renewed[c.child] = renewed[c.child] || c.renewed
	}
	maps.DeleteFunc(lacking, func(child string, _ bool) bool { return whole[child] && renewed[child] })
	return len(lacking) > 0 ||
		required && slices.ContainsFunc(peer.selectors(), func(s selector) bool { return !k.policies[s] })
}

func pair(src, dst net.IP) string { return src.String() + " " + dst.String() }
