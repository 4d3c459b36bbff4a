package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// full waits until a NodeNetwork has the condition SubnetsFull with the reason, or lacks the condition if reason is "".
func (w *world) full(node, reason string) {
	w.Helper()
	w.until(func() error {
		have := meta.FindStatusCondition(w.nodeNetwork(node).Status.Conditions, networkv1alpha1.ConditionSubnetsFull)
		if have == nil && reason == "" || have != nil && have.Reason == reason {
			return nil
		}
		return fmt.Errorf("NodeNetwork %s has the condition %+v, want reason %q", node, have, reason)
	})
}

// occupied creates pods on a node, and waits until each has a port.
func (w *world) occupied(node, prefix string, n int) (pods []*corev1.Pod) {
	w.Helper()
	pods = w.create(node, names(prefix, n)...)
	for _, p := range pods {
		w.phase(p, corev1.PodRunning, w.addresses(w.port(p))...)
	}
	return pods
}

// subnetsOf returns a node's subnets of IPv4.
func (w *world) subnetsOf(node string) (found []string) {
	for _, s := range w.nodeNetwork(node).Spec.PodSubnets {
		if !strings.Contains(string(s), ":") {
			found = append(found, string(s))
		}
	}
	return found
}

// A full node in a zone waits for another entry of clusterNetwork, and gets one subnet of it for its waiting pods. A third entry stays
// unused until the node is full again.
func TestAFullNodeInAZoneGetsAnotherSubnet(t *testing.T) {
	w, east := dividedIn(t, (*world).join, entry("10.244.0.0/24", 29), entry("fd00:10:244::/48", 64))
	cn := clusterNetwork()
	first := w.subnetsOf("n2")
	w.occupied("n1", "outside", 4)
	east.occupied("n2", "p", 4)
	w.full("n2", "")
	late := east.create("n2", "late", "later")
	for _, p := range late {
		w.says(w.event(p.Name, "FailedAddressAllocation"), first[0])
		w.until(func() error { // the condition comes with the second attempt
			var pod corev1.Pod
			w.must(view.Get(w.Context(), client.ObjectKeyFromObject(p), &pod))
			for _, c := range pod.Status.Conditions {
				if c.Type == networkv1alpha1.PodRequestsGranted && c.Reason == networkv1alpha1.ReasonAddressesExhausted {
					return nil
				}
			}
			return fmt.Errorf("pod %s has conditions %+v", p.Name, pod.Status.Conditions)
		})
	}
	w.full("n2", networkv1alpha1.ReasonIPv4Exhausted)

	// Operators that start again write nothing and keep the request.
	for _, w := range []*world{w, east} {
		o := w.operators[0]
		o.settle()
		o.stop()
		o = w.start()
		w.until(func() error {
			if !o.engine.Connected() || !o.engine.Wanted("node/n2") || !o.engine.Wanted("node/n1") {
				return errAbsent
			}
			return nil
		})
		o.settle()
		if writes := slices.DeleteFunc(o.writes(""), func(s string) bool { return strings.Contains(s, "/events") }); len(writes) > 0 {
			t.Errorf("zone %q: API writes %q", w.inZone, writes)
		}
	}

	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork, entry("10.245.0.0/24", 29), entry("10.246.0.0/24", 29))
	})
	for _, p := range late {
		if got := w.familiesOf(east, p); !strings.HasPrefix(got[0], "10.245.0.") || len(got) != 2 {
			t.Errorf("pod %s has %v", p.Name, got)
		}
	}
	w.full("n2", "")
	east.occupied("n2", "more", 2)
	if got := w.subnetsOf("n2"); len(got) != 2 || got[0] != first[0] || !strings.HasPrefix(got[1], "10.245.0.") {
		t.Errorf("node n2 has %v", got)
	}
	if got := w.subnetsOf("n1"); len(got) != 1 {
		t.Errorf("node n1, which no pod waits for, has %v", got)
	}
	last := east.create("n2", "last")[0]
	if got := w.familiesOf(east, last); !strings.HasPrefix(got[0], "10.246.0.") {
		t.Errorf("pod last has %v", got)
	}
	w.full("n2", "")

	// A node outside zones reads its own allocator and reports no such condition.
	beyond := w.create("n1", "beyond")[0]
	if got := w.familiesOf(w, beyond); !strings.HasPrefix(got[0], "10.245.0.") {
		t.Errorf("pod beyond has %v", got)
	}
	for _, o := range w.operators {
		for _, write := range o.writes("") {
			if strings.Contains(write, "/nodenetworks/") && strings.Contains(write, networkv1alpha1.ConditionSubnetsFull) {
				t.Errorf("the deciding operator writes %s", write)
			}
		}
	}
}

// familiesOf waits for a pod's port in a zone's database, and returns the pod's addresses, IPv4 first.
func (w *world) familiesOf(zone *world, p *corev1.Pod) (found []string) {
	w.Helper()
	for _, a := range zone.addresses(zone.port(p)) {
		found = append(found, a.String())
	}
	slices.Sort(found) // "1" is before "f"
	return found
}

// The condition SubnetsFull ends when an address is free, when no pod waits any more, and when the node leaves its zone.
func TestARequestForASubnetEnds(t *testing.T) {
	w, east := dividedIn(t, (*world).join, entry("10.244.0.0/24", 29))
	pods := east.occupied("n2", "p", 4)
	waits := func(name string) *corev1.Pod {
		t.Helper()
		p := east.create("n2", name)[0]
		w.full("n2", networkv1alpha1.ReasonIPv4Exhausted)
		return p
	}
	p := waits("gets-a-free-address")
	w.delete(pods[0])
	// The other operator reads the address in the status when the node moves.
	w.phase(p, corev1.PodRunning, east.addresses(east.port(p))...)
	w.full("n2", "")

	p = waits("ends")
	w.delete(p)
	w.full("n2", "")

	p = waits("ends-while-the-operator-is-away")
	east.operators[0].settle()
	east.operators[0].stop()
	w.delete(p)
	east.start()
	w.full("n2", "")

	p = waits("moves-with-its-node")
	w.relabel("n2", "")
	w.inZoneOf("n2", "")
	w.full("n2", "")
	w.noPort(p)
	w.change(clusterNetwork(), func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork, entry("10.245.0.0/24", 29))
	})
	w.phase(p, corev1.PodRunning, w.addresses(w.port(p))...)
	w.full("n2", "")

	// A node that is full when it enters a zone requests its subnet there.
	w.occupied("n2", "q", 3)
	p = w.create("n2", "enters-with-its-node")[0]
	w.says(w.event(p.Name, "FailedAddressAllocation"), "10.245.0.")
	w.relabel("n2", "east")
	w.inZoneOf("n2", "east", "192.0.2.9")
	w.full("n2", networkv1alpha1.ReasonIPv4Exhausted)
	w.change(clusterNetwork(), func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork, entry("10.246.0.0/24", 29))
	})
	east.port(p)
	w.full("n2", "")
}
