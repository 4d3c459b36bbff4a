package facts_test

import (
	"fmt"
	"slices"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func relays(n int) (all []networkv1alpha1.RelayStatus) {
	for i := range n {
		all = append(all, networkv1alpha1.RelayStatus{Node: fmt.Sprintf("relay-%d", i), State: networkv1alpha1.RelayReady,
			Address: networkv1alpha1.IP(fmt.Sprintf("192.0.2.%d", i+1))})
	}
	return all
}

func TestNodeRelaysUsesOnlyRelaysInUse(t *testing.T) {
	for state, used := range map[networkv1alpha1.RelayState]bool{
		networkv1alpha1.RelayStarting: false, networkv1alpha1.RelayReady: true,
		networkv1alpha1.RelayUnavailable: true, networkv1alpha1.RelayLeaving: false,
	} {
		one := relays(1)
		one[0].State = state
		if have := facts.NodeRelays("n", one); (len(have) == 1) != used {
			t.Errorf("a relay that is %s: %v, used %t", state, have, used)
		}
	}
	if have := facts.NodeRelays("n", nil); have != nil {
		t.Errorf("without relays: %v", have)
	}
}

// Each relay is the first of about the same number of nodes, and so is each pair of a first and a second.
func TestNodeRelaysSpreads(t *testing.T) {
	const nodes, count = 1000, 5
	first, second := map[networkv1alpha1.IP]int{}, map[networkv1alpha1.IP]int{}
	for n := range nodes {
		chosen := facts.NodeRelays(fmt.Sprintf("node-%d", n), relays(count))
		if len(chosen) != networkv1alpha1.RelaysOfNode || chosen[0] == chosen[1] {
			t.Fatalf("node %d has %v", n, chosen)
		}
		first[chosen[0]]++
		second[chosen[1]]++
	}
	for address, n := range first {
		if n < nodes/count*3/4 || n > nodes/count*5/4 || second[address] < nodes/count*3/4 {
			t.Errorf("%s is the first of %d and the second of %d nodes, want about %d", address, n, second[address], nodes/count)
		}
	}
}

// Another relay changes about 2 of n+1 nodes; the order of the list changes none.
func TestNodeRelaysIsStable(t *testing.T) {
	const nodes, count = 1000, 9
	before, changed := relays(count), 0
	more := relays(count + 1)
	slices.Reverse(more)
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		was, is := facts.NodeRelays(name, before), facts.NodeRelays(name, more)
		if slices.Equal(was, is) {
			continue
		}
		changed++
		if !slices.Contains(is, more[0].Address) {
			t.Fatalf("%s had %v and has %v, without the new relay", name, was, is)
		}
	}
	if changed < nodes/10 || changed > nodes/3 {
		t.Errorf("a tenth relay changed %d of %d nodes, want about 200", changed, nodes)
	}
}

func TestRelaysOf(t *testing.T) {
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Status.Relays = relays(1)
	cn.Status.Zones = []networkv1alpha1.ZoneStatus{{Name: "east", Relays: relays(2)}, {Name: "west"}}
	for zone, want := range map[networkv1alpha1.ZoneName]int{"": 1, "east": 2, "west": 0, "gone": -1} {
		if have, ok := facts.RelaysOf(cn, zone); len(have) != max(0, want) || ok != (want >= 0) {
			t.Errorf("zone %q has %d relays, %t; want %d", zone, len(have), ok, want)
		}
	}
}
