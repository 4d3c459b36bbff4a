package ipsec

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/pki"
)

// The kernel lacks a part of a tunnel if a policy was deleted or no longer demands ESP, or if keys that charon has are absent.
func TestWhatTheKernelLacks(t *testing.T) {
	peer := Peer{"n2", far, own}
	installed := []keys{{"out", state{own, 1}, state{far, 2}, false}, {"in", state{own, 3}, state{far, 4}, false}}
	whole := func() kernel {
		k := kernel{policies: map[selector]bool{}, states: map[state]bool{{far, 9}: true}}
		for _, c := range installed {
			k.states[c.in], k.states[c.out] = true, true
		}
		for _, s := range peer.selectors() {
			k.policies[s] = true
		}
		return k
	}
	second := keys{"in", state{own, 5}, state{far, 6}, false}
	double, renewed := append(slices.Clone(installed), second), append(slices.Clone(installed), second)
	renewed[1].renewed = true
	if k := whole(); k.lacks(peer, true, installed) || k.lacks(peer, true, nil) || k.lacks(peer, true, renewed) {
		t.Error("nothing is deleted, and something is missing")
	}
	if k := whole(); !k.lacks(peer, true, double) {
		t.Error("keys are missing beside others of their child, and are not noticed")
	}
	for _, s := range peer.selectors() {
		k := whole()
		delete(k.policies, s)
		if !k.lacks(peer, true, installed) || k.lacks(peer, false, installed) {
			t.Errorf("%+v is deleted: it must be missing where encryption is required, and only there", s)
		}
	}
	for _, c := range installed {
		for _, s := range []state{c.in, c.out} {
			k := whole()
			delete(k.states, s)
			if !k.lacks(peer, true, installed) || !k.lacks(peer, false, installed) || k.lacks(peer, true, nil) {
				t.Errorf("%+v is deleted: it must be missing while charon has it, and only then", s)
			}
		}
	}
	esp := netlink.XfrmPolicyTmpl{Proto: netlink.XFRM_PROTO_ESP}
	for name, c := range map[string]struct {
		policy netlink.XfrmPolicy
		want   bool
	}{
		"ESP":          {netlink.XfrmPolicy{Tmpls: []netlink.XfrmPolicyTmpl{esp}}, true},
		"in the clear": {netlink.XfrmPolicy{}, false},
		"optional":     {netlink.XfrmPolicy{Tmpls: []netlink.XfrmPolicyTmpl{{Proto: esp.Proto, Optional: 1}}}, false},
		"block":        {netlink.XfrmPolicy{Action: netlink.XFRM_POLICY_BLOCK, Tmpls: []netlink.XfrmPolicyTmpl{esp}}, false},
	} {
		if demandsESP(c.policy) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// A part that is missing for a moment is charon's own doing. A repair follows after that, and no second one soon.
func TestWhenARepairIsDue(t *testing.T) {
	var waits []time.Duration
	tunnels := New(Options{After: func(d time.Duration) { waits = append(waits, d) }})
	start, damaged := time.Unix(100, 0), []Peer{{"n2", far, own}}
	for _, step := range []struct {
		at      time.Duration
		damaged []Peer
		repairs bool
		says    bool          // that the peer is damaged
		wait    time.Duration // 0: none
	}{
		{0, damaged, false, false, settle},
		{settle / 2, nil, false, false, 0},
		{settle, nil, false, false, 0},
		{time.Second, damaged, false, false, settle},
		{time.Second + settle/2, damaged, false, false, settle / 2},
		{time.Second + settle, damaged, true, true, pause},
		{time.Second + 2*settle, damaged, false, true, pause - settle},
		{2 * time.Second, nil, false, false, 0},
		{3 * time.Second, damaged, false, true, 3*time.Second + settle},
		{time.Second + settle + pause, damaged, true, true, pause},
		{time.Minute, nil, false, false, 0},
		{time.Minute, damaged, false, false, settle},
	} {
		waits = nil
		if got := tunnels.confirm(step.damaged, start.Add(step.at)); len(got.Repaired) > 0 != step.repairs || len(got.Damaged) > 0 != step.says {
			t.Errorf("after %s: %d repairs, %d damaged", step.at, len(got.Repaired), len(got.Damaged))
		}
		if step.wait > 0 != (len(waits) > 0) || len(waits) > 0 && waits[0] != step.wait {
			t.Errorf("after %s: waits %v, want %v", step.at, waits, step.wait)
		}
	}
}

// A deleted policy is compared at once, other changes later with more peers, and nothing without encryption.
func TestWhenTheKernelIsCompared(t *testing.T) {
	var waits []time.Duration
	deleted := 0
	tunnels := New(Options{Deleted: func() { deleted++ }, After: func(d time.Duration) { waits = append(waits, d) }})
	for _, peers := range []int64{1, 100, 500} {
		tunnels.peers.Store(peers)
		tunnels.notify(nl.XFRM_MSG_NEWSA)
	}
	if want := []time.Duration{time.Second, time.Second, 5 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("compares after %v, want %v", waits, want)
	}
	tunnels.notify(nl.XFRM_MSG_DELPOLICY)
	tunnels.notify(nl.XFRM_MSG_FLUSHPOLICY)
	if deleted != 2 {
		t.Errorf("compares %d times at once", deleted)
	}
	must(t, tunnels.end(t.Context()))
	tunnels.notify(nl.XFRM_MSG_DELPOLICY)
	tunnels.notify(nl.XFRM_MSG_NEWSA)
	if deleted != 2 || len(waits) != 3 {
		t.Error("compares without encryption")
	}
}

// What another program deletes or changes of the policies is noticed by itself, restored, and counted once. Nothing is repaired when
// nothing differs.
func TestPoliciesAreRestored(t *testing.T) {
	authority, err := pki.NewAuthority("weft-sb", time.Now())
	must(t, err)
	nodes := newNodes(t, strongSwan(t), authority)
	a, b := nodes[0], nodes[1]
	a.start()
	a.apply(b, networkv1alpha1.ProtectionRequired, 2)
	if a.repaired > 0 {
		t.Errorf("%d repairs of what nobody has changed", a.repaired)
	}
	// read returns the policies that demand ESP.
	read := func() (found []netlink.XfrmPolicy) {
		a.in(func() {
			all, err := tunnelPolicies()
			must(t, err)
			found = slices.DeleteFunc(all, func(p netlink.XfrmPolicy) bool { return !demandsESP(p) })
		})
		return found
	}
	whole := read()
	if len(whole) != 4*len(a.address) {
		t.Fatalf("%d policies", len(whole))
	}
	for _, c := range []struct {
		name    string
		deletes bool
		do      func() error
		want    int
	}{
		{"one policy is deleted", true, func() error { return netlink.XfrmPolicyDel(&whole[0]) }, 1},
		{"all are flushed", true, netlink.XfrmPolicyFlush, len(a.address)},
		{"a policy lets packets pass in the clear", false, func() error {
			open := whole[1]
			open.Tmpls = nil
			return netlink.XfrmPolicyUpdate(&open)
		}, 1},
	} {
		a.tunnels.suspects, a.repaired = map[string]suspect{}, 0 // as long after the former repair
		changes := a.changes.Load()
		a.in(func() { must(t, c.do()) })
		a.eventually(func() error {
			if c.deletes && a.changes.Load() == changes {
				return fmt.Errorf("%s: not noticed", c.name)
			}
			return nil
		})
		for deadline := time.After(time.Minute); a.repaired < c.want; {
			select {
			case <-a.wake:
			case <-deadline:
				t.Fatalf("%s: %d repairs, want %d", c.name, a.repaired, c.want)
			}
			_, err := a.once(b, networkv1alpha1.ProtectionRequired)
			must(t, err)
		}
		a.apply(b, networkv1alpha1.ProtectionRequired, 2)
		if a.repaired != c.want {
			t.Errorf("%s: %d repairs, want %d", c.name, a.repaired, c.want)
		}
		if got := read(); len(got) != len(whole) {
			t.Errorf("%s: %d policies, want %d", c.name, len(got), len(whole))
		}
	}
}
