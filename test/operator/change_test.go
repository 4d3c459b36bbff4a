package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// podRows returns the rows of pods' ports as the server has them.
func (w *world) podRows(pods []*corev1.Pod) (rows []string) {
	w.Helper()
	for _, line := range w.dump() {
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return strings.Contains(line, p.Namespace+"_"+p.Name) }) &&
			strings.HasPrefix(line, "Logical_Switch_Port: ") {
			rows = append(rows, line)
		}
	}
	return rows
}

// subnets waits until a node has the subnets, and the leaving subnets among them.
func (w *world) subnets(node string, want, leaving []networkv1alpha1.CIDR) {
	w.Helper()
	w.until(func() error {
		spec := w.nodeNetwork(node).Spec
		if !slices.Equal(spec.PodSubnets, want) || !slices.Equal(spec.LeavingSubnets, leaving) {
			return fmt.Errorf("node %s has %v, leaving %v; want %v, leaving %v", node, spec.PodSubnets, spec.LeavingSubnets, want, leaving)
		}
		return nil
	})
}

// routes waits until a node routes to these networks of pods: a change of networks ends with it.
func (w *world) routes(node string, want ...networkv1alpha1.CIDR) {
	w.Helper()
	w.until(func() error {
		if have := w.nodeNetwork(node).Spec.ClusterSubnets; !slices.Equal(have, want) {
			return fmt.Errorf("node %s routes to %v, want %v", node, have, want)
		}
		return nil
	})
}

// becomesDualStack waits until a node has a subnet of IPv6 besides that of IPv4, and returns both.
func (w *world) becomesDualStack(node string, ipv4 networkv1alpha1.CIDR) []networkv1alpha1.CIDR {
	w.Helper()
	var subnets []networkv1alpha1.CIDR
	w.until(func() error {
		subnets = w.nodeNetwork(node).Spec.PodSubnets
		if len(subnets) != 2 || subnets[0] != ipv4 || !strings.HasPrefix(string(subnets[1]), "fd00:10:244:") {
			return fmt.Errorf("node %s has %v, want %s and a subnet of IPv6", node, subnets, ipv4)
		}
		return nil
	})
	return subnets
}

// outdated waits until the status names the pods whose addresses differ from a new pod's, and a condition agrees.
func (w *world) outdated(want ...string) {
	w.Helper()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		var have []string
		if s.OutdatedPods != nil {
			for _, pod := range s.OutdatedPods.First {
				have = append(have, pod.Pod)
			}
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("outdated pods are %v, want %v", have, want)
		}
		reason, status := networkv1alpha1.ReasonAsExpected, metav1.ConditionFalse
		if len(want) > 0 {
			reason, status = networkv1alpha1.ReasonPodsOutdated, metav1.ConditionTrue
		}
		if len(facts.LeavingNetworks(s.Networks)) > 0 {
			reason = networkv1alpha1.ReasonNetworkLeaving
		}
		if c := meta.FindStatusCondition(s.Conditions, networkv1alpha1.ConditionUpgradeable); c != nil &&
			c.Reason == networkv1alpha1.ReasonPodsOutdated {
			return fmt.Errorf("outdated pods hinder an upgrade: %s", c.Message)
		}
		return condition(s.Conditions, networkv1alpha1.ConditionProgressing, reason, status)
	})
}

// quietRestart starts the operator again. It must write nothing except a new pod and its count.
func (w *world) quietRestart(o *operator, name string, used int) (*operator, *corev1.Pod) {
	w.Helper()
	o.settle()
	o.stop()
	before := w.dump()
	o = w.start()
	extra := w.create("n1", name)[0]
	port := w.port(extra)
	w.counted(used)
	o.settle()
	if got := o.transactions(); got != 1 {
		w.Errorf("the restart wrote %d transactions besides the new pod's", got-1)
	}
	if after := without(w.dump(), port); !slices.Equal(before, after) {
		w.Errorf("rows differ:\n%s", difference(before, after))
	}
	for _, write := range o.writes("") {
		if !strings.Contains(write, "/clusternetworks/default/status ") {
			w.Errorf("API write: %s", write)
		}
	}
	return o, extra
}

// TestClusterBecomesDualStack adds IPv6 to a running cluster and removes it again. Rows of running pods do not change,
// pods that lack an address are named until they are gone, and a restart in each stage writes nothing.
func TestClusterBecomesDualStack(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(entry("10.244.0.0/16", 26))
	w.join("n1", "n2")
	pods := append(w.create("n1", "a1", "b1"), w.create("n2", "a2")...)
	for _, p := range pods {
		w.phase(p, corev1.PodRunning, w.addresses(w.port(p))...)
	}
	w.ready("n1", "n2")
	w.counted(3)
	rows, router := w.podRows(pods), w.nodeNetwork("n1").Spec.ManagementPort.MACAddress
	first, second := w.nodeNetwork("n1").Spec.PodSubnets[0], w.nodeNetwork("n2").Spec.PodSubnets[0]

	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork, entry("fd00:10:244::/48", 64))
		s.ServiceNetwork = append(s.ServiceNetwork, "fd00:10:96::/112")
	})
	both, _ := w.becomesDualStack("n1", first), w.becomesDualStack("n2", second)
	w.outdated("default/a1", "default/a2", "default/b1")
	w.says(w.event("a1", networkv1alpha1.ReasonPodsOutdated), "it has no IPv6 address", "until it is recreated")
	fresh := w.create("n1", "fresh")[0]
	if got := w.addresses(w.port(fresh)); len(got) != 2 {
		t.Errorf("a new pod has %v", got)
	}
	w.counted(4)
	if after := w.podRows(pods); !slices.Equal(rows, after) {
		t.Errorf("rows of running pods differ:\n%s", difference(rows, after))
	}
	if mac := w.nodeNetwork("n1").Spec.ManagementPort.MACAddress; mac != router {
		t.Errorf("the management port has the MAC %s, had %s", mac, router)
	}
	w.awaitTopologyReady()
	o, extra := w.quietRestart(o, "extra", 5)
	w.outdated("default/a1", "default/a2", "default/b1")
	w.delete(pods[0])
	w.outdated("default/a2", "default/b1")

	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork, s.ServiceNetwork = s.ClusterNetwork[:1], s.ServiceNetwork[:1]
	})
	w.subnets("n2", []networkv1alpha1.CIDR{second}, nil) // no pod of n2 has an IPv6 address
	w.subnets("n1", both, both[1:])
	w.outdated("default/extra", "default/fresh")
	w.states(networkv1alpha1.NetworkLeaving, "fd00:10:244::/48", "fd00:10:96::/112", "fd98::/64")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, p := range s.Problems {
			if p.Reason == networkv1alpha1.ReasonNetworkLeaving && strings.Contains(p.Message, "node n1") {
				return nil
			}
		}
		return fmt.Errorf("problems are %+v", s.Problems)
	})
	last := w.create("n1", "last")[0]
	if got := w.addresses(w.port(last)); len(got) != 1 {
		t.Errorf("a new pod has %v", got)
	}
	w.awaitTopologyReady()
	w.counted(5)
	o, _ = w.quietRestart(o, "more", 6)
	w.delete(fresh, extra)
	w.subnets("n1", both[:1], nil)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if len(s.Networks) != 3 {
			return fmt.Errorf("networks are %+v", s.Networks)
		}
		return nil
	})
	w.routes("n1", "10.244.0.0/16")
	w.routes("n2", "10.244.0.0/16")
	w.outdated()
	w.counted(4)
	w.awaitTopologyReady()
	w.quietRestart(o, "end", 5)
}

// TestFullNodeGetsAnotherSubnet fills a node, appends an entry, and removes the first entry again.
func TestFullNodeGetsAnotherSubnet(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(entry("10.244.0.0/24", 29))
	w.join("n1")
	w.ready("n1")
	pods := w.create("n1", names("p", 4)...)
	for _, p := range pods {
		w.port(p)
	}
	late := w.create("n1", "late")[0]
	w.says(w.event("late", "FailedAddressAllocation"), "10.244.0.0/29")
	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork, entry("10.245.0.0/24", 29))
	})
	if got := w.addresses(w.port(late)); len(got) != 1 || got[0].String() != "10.245.0.3" {
		t.Errorf("the late pod has %v", got)
	}
	former, further := networkv1alpha1.CIDR("10.244.0.0/29"), networkv1alpha1.CIDR("10.245.0.0/29")
	w.subnets("n1", []networkv1alpha1.CIDR{former, further}, nil)
	w.awaitTopologyReady()
	w.counted(4)
	o, extra := w.quietRestart(o, "extra", 4)
	if got := w.addresses(w.port(extra)); got[0].String() != "10.245.0.4" {
		t.Errorf("another pod has %v", got)
	}
	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) { s.ClusterNetwork = s.ClusterNetwork[1:] })
	w.subnets("n1", []networkv1alpha1.CIDR{former, further}, []networkv1alpha1.CIDR{former})
	for _, p := range pods {
		w.delete(p)
	}
	w.subnets("n1", []networkv1alpha1.CIDR{further}, nil)
	w.routes("n1", "10.245.0.0/24")
	w.outdated()
	w.awaitTopologyReady()
	w.quietRestart(o, "end", 3)
}
