package facts_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func carrier(node string, change ...func(*facts.Carrier)) facts.Carrier {
	c := facts.Carrier{Node: node, Router: true, Families: []bool{true, false},
		Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}}
	for _, do := range change {
		do(&c)
	}
	return c
}

func carrying(n int) func(*facts.Carrier) {
	return func(c *facts.Carrier) { c.Carries = n }
}

func unreachable(c *facts.Carrier) { c.Unreachable = true }

func routerless(c *facts.Carrier) { c.Router = false }

// TestAssign uses "192.0.2.7 n1" for an address on a node, and "192.0.2.7 ?Reason" for an address without a node.
func TestAssign(t *testing.T) {
	for name, test := range map[string]struct {
		addresses, current string // a current address that is not in addresses is a former one
		carriers           []facts.Carrier
		want               string
	}{
		"the node with the fewest": {"192.0.2.7", "",
			[]facts.Carrier{carrier("n1", carrying(2)), carrier("n2", carrying(1))}, "192.0.2.7 n2"},
		"each of a family on another": {"192.0.2.7 192.0.2.8", "",
			[]facts.Carrier{carrier("n1"), carrier("n2", carrying(9))}, "192.0.2.7 n1, 192.0.2.8 n2"},
		"both families on one": {"192.0.2.7 2001:db8::7", "",
			[]facts.Carrier{carrier("n1"), carrier("n2", carrying(9))}, "192.0.2.7 n1, 2001:db8::7 n1"},
		"it stays where it is": {"192.0.2.7", "192.0.2.7 n1",
			[]facts.Carrier{carrier("n1", carrying(5)), carrier("n2")}, "192.0.2.7 n1"},
		"it does not go back": {"192.0.2.7", "192.0.2.7 n2",
			[]facts.Carrier{carrier("n1"), carrier("n2", carrying(1))}, "192.0.2.7 n2"},
		"its node is gone": {"192.0.2.7", "192.0.2.7 n3",
			[]facts.Carrier{carrier("n1"), carrier("n2")}, "192.0.2.7 n1"},
		"its node does not answer": {"192.0.2.7 192.0.2.8", "192.0.2.7 n1, 192.0.2.8 n2",
			[]facts.Carrier{carrier("n1", unreachable), carrier("n2"), carrier("n3")}, "192.0.2.7 n3, 192.0.2.8 n2"},
		"the order of the spec is not the choice": {"192.0.2.8 192.0.2.7", "192.0.2.7 n1",
			[]facts.Carrier{carrier("n1"), carrier("n2")}, "192.0.2.8 n2, 192.0.2.7 n1"},
		"no carrier":      {"192.0.2.7", "", nil, "192.0.2.7 ?NoAssignableNode"},
		"another network": {"203.0.113.7", "", []facts.Carrier{carrier("n1")}, "203.0.113.7 ?NotOnNodeNetwork"},
		"no router yet": {"192.0.2.7", "192.0.2.7 n1", []facts.Carrier{carrier("n1", routerless)},
			"192.0.2.7 ?NoAssignableNode"},
		"only silent ones are left": {"192.0.2.7 192.0.2.8", "",
			[]facts.Carrier{carrier("n1"), carrier("n2", unreachable)}, "192.0.2.7 n1, 192.0.2.8 ?NodesUnreachable"},
		"more addresses than nodes": {"192.0.2.7 192.0.2.8", "", []facts.Carrier{carrier("n1")},
			"192.0.2.7 n1, 192.0.2.8 ?NoAssignableNode"},
		"in use": {"192.0.2.99", "192.0.2.99 n1", []facts.Carrier{carrier("n1")}, "192.0.2.99 ?AddressInUse"},
		"a family that pods lack": {"2001:db8::7", "",
			[]facts.Carrier{carrier("n1", func(c *facts.Carrier) { c.Families = []bool{true} })},
			"2001:db8::7 ?NoAssignableNode"},
		"another address": {"192.0.2.8", "192.0.2.7 n1", []facts.Carrier{carrier("n1")}, "192.0.2.8 n1"},
		"a removed address": {"192.0.2.7", "192.0.2.7 n1, 192.0.2.8 n2",
			[]facts.Carrier{carrier("n1"), carrier("n2")}, "192.0.2.7 n1"},
		"an address in use instead": {"192.0.2.99", "192.0.2.7 n2", []facts.Carrier{carrier("n1"), carrier("n2")},
			"192.0.2.99 ?AddressInUse, 192.0.2.7 n2"},
		"an address of another network instead": {"203.0.113.7 2001:db8::7", "192.0.2.7 n2, 2001:db8::7 n1",
			[]facts.Carrier{carrier("n1"), carrier("n2")}, "203.0.113.7 ?NotOnNodeNetwork, 2001:db8::7 n1, 192.0.2.7 n2"},
		"a family that pods lack instead": {"2001:db8::7", "192.0.2.7 n1",
			[]facts.Carrier{carrier("n1", func(c *facts.Carrier) { c.Families = []bool{true} })},
			"2001:db8::7 ?NoAssignableNode, 192.0.2.7 n1"},
		"one of two families, the other is good": {"192.0.2.8 2001:db9::7", "192.0.2.7 n1, 2001:db8::7 n1",
			[]facts.Carrier{carrier("n1"), carrier("n2")}, "192.0.2.8 n1, 2001:db9::7 ?NotOnNodeNetwork, 2001:db8::7 n1"},
		"of two former the one that stays": {"203.0.113.7 192.0.2.9", "192.0.2.7 n1, 192.0.2.8 n2",
			[]facts.Carrier{carrier("n1"), carrier("n2")}, "203.0.113.7 ?NotOnNodeNetwork, 192.0.2.9 n1, 192.0.2.8 n2"},
		"a former address moves": {"203.0.113.7", "192.0.2.7 n1", []facts.Carrier{carrier("n1", unreachable), carrier("n2")},
			"203.0.113.7 ?NotOnNodeNetwork, 192.0.2.7 n2"},
		"a former address waits for a node": {"203.0.113.7", "192.0.2.7 n1", []facts.Carrier{carrier("n1", routerless)},
			"203.0.113.7 ?NotOnNodeNetwork, 192.0.2.7 ?NoAssignableNode"},
		"an address that waits for a node of its own replaces none": {"192.0.2.8 192.0.2.9", "192.0.2.7 n1", []facts.Carrier{carrier("n1")},
			"192.0.2.8 n1, 192.0.2.9 ?NoAssignableNode"},
		"a former address is in use": {"203.0.113.7", "192.0.2.99 n1", []facts.Carrier{carrier("n1")}, "203.0.113.7 ?NotOnNodeNetwork"},
	} {
		t.Run(name, func(t *testing.T) {
			addresses, current := parseAll(strings.Fields(test.addresses)), parseAssignments(test.current)
			var former []netip.Addr
			for _, c := range current {
				if !slices.Contains(addresses, c.Address) {
					former = append(former, c.Address)
				}
			}
			taken := func(a netip.Addr) string { return map[string]string{"192.0.2.99": "it is taken"}[a.String()] }
			assigned, unassigned, kept := facts.AssignEgressIPs(addresses, former, current, test.carriers, taken)
			var got []string
			for _, a := range slices.Concat(addresses, kept) {
				for _, x := range assigned {
					if x.Address == a {
						got = append(got, fmt.Sprint(a, " ", x.Node))
					}
				}
				for _, x := range unassigned {
					if x.Address == a {
						got = append(got, fmt.Sprint(a, " ?", x.Reason))
						if x.Message == "" {
							t.Errorf("%s has no reason in words", a)
						}
					}
				}
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("assigned are %s, want %s", text, test.want)
			}
			again, _, _ := facts.AssignEgressIPs(addresses, kept, assigned, test.carriers, taken)
			for _, a := range assigned {
				if !slices.Contains(again, a) {
					t.Errorf("%v does not stay: %v", a, again)
				}
			}
		})
	}
}

func parseAll(texts []string) (addresses []netip.Addr) {
	for _, text := range texts {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	return addresses
}

func parseAssignments(text string) (found []facts.Assignment) {
	for one := range strings.SplitSeq(text, ", ") {
		if address, node, ok := strings.Cut(one, " "); ok {
			found = append(found, facts.Assignment{Address: netip.MustParseAddr(address), Node: node})
		}
	}
	return found
}

// TestTheOldestEgressIPHasThePod also covers an EgressIP with an unreadable selector, which has no pods.
func TestTheOldestEgressIPHasThePod(t *testing.T) {
	var all []networkv1alpha1.EgressIP
	for _, name := range []string{"b", "a"} {
		e := networkv1alpha1.EgressIP{}
		e.Name, e.Spec.PodSelector.MatchLabels = name, map[string]string{"out": "yes"}
		all = append(all, e)
	}
	pod := map[string]string{"out": "yes"}
	if got := facts.SelectEgressIP(all, nil, pod); got != "a" {
		t.Errorf("of two of one age the pod has %q", got)
	}
	all[1].CreationTimestamp.Time = all[0].CreationTimestamp.Add(1)
	if got := facts.SelectEgressIP(all, nil, pod); got != "b" {
		t.Errorf("the pod has %q, want the older", got)
	}
	if got := facts.SelectEgressIP(all, nil, nil); got != "" {
		t.Errorf("an unselected pod has %q", got)
	}
}

func TestIsOfAll(t *testing.T) {
	for _, test := range []struct {
		own, address string
		want         bool
	}{
		{"192.0.2.11/24", "192.0.2.0", true}, {"192.0.2.11/24", "192.0.2.255", true}, {"192.0.2.11/24", "192.0.2.254", false},
		{"192.0.2.11/24", "192.0.3.0", false}, {"192.0.2.11/31", "192.0.2.10", false}, {"192.0.2.11/32", "192.0.2.11", false},
		{"255.255.255.1/24", "255.255.255.255", true},
		{"2001:db8::b/64", "2001:db8::", true}, {"2001:db8::b/64", "2001:db8::ffff:ffff:ffff:ffff", false},
		{"2001:db8::b/127", "2001:db8::a", false},
	} {
		if got := facts.IsOfAll(netip.MustParsePrefix(test.own), netip.MustParseAddr(test.address)); got != test.want {
			t.Errorf("%s is of all hosts of %s: %t", test.address, test.own, got)
		}
	}
}
