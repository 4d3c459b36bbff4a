package lbpool

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// speakers are nodes n1 to n<count> that can answer.
func speakers(count int, change ...func(*Node)) (nodes []Node) {
	for i := range count {
		n := Node{Name: fmt.Sprintf("n%d", i+1), Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}, Router: true, Healthy: true}
		for _, c := range change {
			c(&n)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestSpeaker(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.200")
	first, _, _ := Speaker(address, speakers(2), nil, "")
	second := map[string]string{"n1": "n2", "n2": "n1"}[first]
	but := func(name string, change func(*Node)) []Node {
		return speakers(2, func(n *Node) {
			if n.Name == name {
				change(n)
			}
		})
	}
	sick := func(n *Node) { n.Healthy = false }
	for name, c := range map[string]struct {
		nodes   []Node
		local   map[string]bool
		current string
		want    string // the node or the reason
	}{
		"its node is not ready":           {nodes: but(first, sick), want: second},
		"its node is cordoned":            {nodes: but(first, func(n *Node) { n.Cordoned = true }), want: second},
		"all nodes are cordoned":          {nodes: speakers(2, func(n *Node) { n.Cordoned = true }), want: first},
		"its node has no router":          {nodes: but(first, func(n *Node) { n.Router = false }), want: second},
		"its node is elsewhere":           {nodes: but(first, func(n *Node) { n.Networks = nil }), want: second},
		"endpoints on one node":           {nodes: speakers(2), local: map[string]bool{second: true}, want: second},
		"no endpoints":                    {nodes: speakers(2), local: map[string]bool{}, want: "NoLocalEndpoints"},
		"no node responds":                {nodes: speakers(2, sick), current: second, want: second},
		"no node responds, without one":   {nodes: speakers(2, sick), want: first},
		"no node with endpoints responds": {nodes: but(second, sick), local: map[string]bool{second: true}, want: second},
		"no node":                         {want: "NoEligibleNode"},
		"on no segment":                   {nodes: speakers(1, func(n *Node) { n.Networks = nil }), want: "NotOnNodeNetwork"},
		"by their hosts":                  {nodes: speakers(2, func(n *Node) { n.Router, n.ByHost = false, true }), want: first},
		"its node's host cannot answer":   {nodes: but(first, func(n *Node) { n.Router, n.ByHost = false, false }), want: second},
		"no router yet":                   {nodes: speakers(2, func(n *Node) { n.Router = false }), want: "NoEligibleNode"},
	} {
		t.Run(name, func(t *testing.T) {
			node, reason, message := Speaker(address, c.nodes, c.local, c.current)
			if node+reason != c.want || (reason == "") != (message == "") {
				t.Errorf("node %q, %s: %s; want %s", node, reason, message, c.want)
			}
		})
	}
}

// The loss of a node moves its addresses alone, and each node has its share.
func TestSpeakersMoveLittle(t *testing.T) {
	nodes := speakers(5)
	count := map[string]int{}
	for i := range 1000 {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		if i > 255 {
			a = netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})
		}
		for j := range nodes {
			nodes[j].Networks = []netip.Prefix{netip.PrefixFrom(a, 24)}
		}
		all, _, _ := Speaker(a, nodes, nil, "")
		count[all]++
		fewer, _, _ := Speaker(a, slices.Clone(nodes[:4]), nil, "")
		if all != "n5" && fewer != all {
			t.Errorf("%s moved from %s to %s without need", a, all, fewer)
		}
	}
	for _, n := range nodes {
		if count[n.Name] < 120 || count[n.Name] > 280 {
			t.Errorf("node %s has %d of 1000 addresses", n.Name, count[n.Name])
		}
	}
}
