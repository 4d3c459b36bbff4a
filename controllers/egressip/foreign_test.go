package egressip

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/kindtest"
)

// An address that a foreign host has is not assigned until the host has released it. An address that it replaces stays in use.
func TestForeignHosts(t *testing.T) {
	const (
		foreign  = "02:aa:00:00:00:01"
		waits    = "192.0.2.78: a node probes its segment for a host that has it"
		full     = "192.0.2.78: n1, n2 carry another IPv4 address of this EgressIP each"
		answered = "192.0.2.78: a host of the nodes' segment that is no node has it, with MAC " + foreign
	)
	type step struct {
		name, mac string // of the result; "-": no result yet
		status    string // items, addresses that are probed, and the condition
		events    []string
	}
	for name, c := range map[string]struct {
		change func(*networkv1alpha1.EgressIP)
		old    bool // the agents cannot probe
		steps  []step
	}{
		"a new address": {change: func(*networkv1alpha1.EgressIP) {}, steps: []step{
			{"created", "-", "[] [192.0.2.78] Probing " + waits, nil},
			{"a foreign host answers", foreign, "[] [192.0.2.78] AddressInUse " + answered,
				[]string{"Warning AddressInUse EgressIP out: " + answered}},
			{"the host is gone", "", "[192.0.2.78] [] AsExpected nodes carry all addresses",
				[]string{"Normal EgressIPAssigned EgressIP out: node n1 carries 192.0.2.78"}},
			{"a foreign host takes it later", foreign, "[192.0.2.78] [] AsExpected nodes carry all addresses", nil},
		}},
		"a node answers": {change: func(*networkv1alpha1.EgressIP) {}, steps: []step{
			{"a result", "02:00:00:00:00:02", "[192.0.2.78] [] AsExpected nodes carry all addresses",
				[]string{"Normal EgressIPAssigned EgressIP out: node n1 carries 192.0.2.78"}},
		}},
		"an assigned address": {change: func(e *networkv1alpha1.EgressIP) {
			e.Status.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: "192.0.2.78", Node: "n2"}}
		}, steps: []step{
			{"no request", "-", "[192.0.2.78] [] AsExpected nodes carry all addresses", nil},
			{"a foreign host answers", foreign, "[192.0.2.78] [] AsExpected nodes carry all addresses", nil},
		}},
		"an address that moves": {change: func(e *networkv1alpha1.EgressIP) {
			e.Status.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: "192.0.2.78", Node: "gone"}}
		}, steps: []step{
			{"no request", "-", "[192.0.2.78] [] AsExpected nodes carry all addresses",
				[]string{"Warning EgressIPMoved EgressIP out: 192.0.2.78 moved from node gone to n1"}},
		}},
		"an address that replaces another one": {change: keeping("n1"), steps: []step{
			{"created", "-", "[192.0.2.77] [192.0.2.78] Probing " + waits + "; spec.egressIPs had 192.0.2.77, which stays in use", nil},
			{"no host answers", "", "[192.0.2.78] [] AsExpected nodes carry all addresses",
				[]string{"Normal EgressIPAssigned EgressIP out: node n1 carries 192.0.2.78",
					"Warning EgressIPUnassigned EgressIP out: node n1 does not carry 192.0.2.77 any more: it is not in the spec any more"}},
		}},
		"no node may carry it": {change: func(e *networkv1alpha1.EgressIP) {
			e.Status.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: "192.0.2.79", Node: "n1"}, {EgressIP: "192.0.2.80", Node: "n2"}}
			e.Spec.EgressIPs = ips("192.0.2.78", "192.0.2.79", "192.0.2.80")
		}, steps: []step{
			{"a result", "", "[192.0.2.79 192.0.2.80] [192.0.2.78] NoAssignableNode " + full,
				[]string{"Warning NoAssignableNode EgressIP out: " + full}},
		}},
		"old agents": {change: func(*networkv1alpha1.EgressIP) {}, old: true, steps: []step{
			{"created", "-", "[192.0.2.78] [] AsExpected nodes carry all addresses",
				[]string{"Normal EgressIPAssigned EgressIP out: node n1 carries 192.0.2.78"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil, append(carriersOf(t, 1, 2), anEgressIP(ips("192.0.2.78"), c.change))...)
			for _, s := range c.steps {
				_, nn := kindtest.Node(t, 1, "46")
				nn.Status.Gateway.ProbesAddresses = !c.old
				if s.mac != "-" {
					nn.Spec.ProbeAddresses = []networkv1alpha1.AddressProbe{{Address: "192.0.2.78", RequestedAt: metav1.Unix(100, 0)}}
					nn.Status.Probed = []networkv1alpha1.ProbedAddress{{Address: "192.0.2.78", RequestedAt: metav1.Unix(100, 0),
						MACAddress: networkv1alpha1.MACAddress(s.mac)}}
				}
				b.Update(nn)
				have := b.Reconcile("", "out")
				if text := probeState(b); text != s.status || !slices.Equal(have.Events, s.events) {
					t.Errorf("%s: status %q, want %q; events %q, want %q", s.name, text, s.status, have.Events, s.events)
				}
				if again := b.Reconcile("", "out"); len(again.Writes)+len(again.Events) > 0 {
					t.Errorf("%s: again: %+v", s.name, again)
				}
			}
		})
	}
}

// probeState is the status of an EgressIP: the addresses that nodes carry, the addresses that are probed, and the condition.
func probeState(b *kindtest.Bed) string {
	e := kindtest.Get(b, anEgressIP(nil))
	var items, probing []string
	for _, item := range e.Status.Items {
		items = append(items, string(item.EgressIP))
	}
	for _, a := range e.Status.Probing {
		probing = append(probing, string(a))
	}
	c := e.Status.Conditions[0]
	return "[" + strings.Join(items, " ") + "] [" + strings.Join(probing, " ") + "] " + c.Reason + " " + c.Message
}
