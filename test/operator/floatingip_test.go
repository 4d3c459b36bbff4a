package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovndb"
)

// pool creates an IPPool for all namespaces.
func (w *world) pool(name string, location networkv1alpha1.IPPoolLocation, ranges ...string) *networkv1alpha1.IPPool {
	w.Helper()
	return w.poolOn("", name, location, ranges...)
}

// poolOn is pool for addresses on a Network.
func (w *world) poolOn(network, name string, location networkv1alpha1.IPPoolLocation, ranges ...string) *networkv1alpha1.IPPool {
	w.Helper()
	p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Location, p.Spec.Network, p.Spec.Namespaces = location, network, &metav1.LabelSelector{}
	for _, r := range ranges {
		p.Spec.Ranges = append(p.Spec.Ranges, networkv1alpha1.IPPoolRange{Addresses: r})
	}
	w.must(api.Create(w.Context(), p))
	w.Cleanup(func() { w.forget(p) })
	return p
}

// forget deletes a pool and its FloatingIPs.
func (w *world) forget(p *networkv1alpha1.IPPool) {
	ctx := context.Background()
	w.must(client.IgnoreNotFound(api.Delete(ctx, p)))
	var all networkv1alpha1.FloatingIPList
	w.must(api.List(ctx, &all))
	for i := range all.Items {
		w.must(client.IgnoreNotFound(api.Delete(ctx, &all.Items[i])))
	}
}

// inPool creates a pod that requests addresses of a pool; owner may be nil.
func (w *world) inPool(name, node, pool string, policy networkv1alpha1.ReleasePolicy, owner client.Object) *corev1.Pod {
	w.Helper()
	p := pod(name, node)
	p.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: pool, networkv1alpha1.ReleasePolicyAnnotation: string(policy)}
	if owner != nil {
		gvk, err := api.GroupVersionKindFor(owner)
		w.must(err)
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, gvk)}
	}
	w.run(p)
	return p
}

// holders waits until the FloatingIPs in use are as expected: address -> "pod" or "(workload)" if it is kept.
func (w *world) holders(want map[string]string) {
	w.Helper()
	w.until(func() error {
		var all networkv1alpha1.FloatingIPList
		if err := view.List(w.Context(), &all); err != nil {
			return err
		}
		have := map[string]string{}
		for i := range all.Items {
			if h := all.Items[i].Spec.Holder; h != nil && h.PodUID != "" {
				have[string(all.Items[i].Spec.Address)] = h.Pod
			} else if h != nil {
				have[string(all.Items[i].Spec.Address)] = "(" + h.Kind + " " + h.Name + ")"
			}
		}
		if !maps.Equal(have, want) {
			return fmt.Errorf("holders are %v, want %v", have, want)
		}
		return nil
	})
}

// counts waits until a pool's status has the counts.
func (w *world) counts(pool string, used, kept int64) {
	w.Helper()
	w.until(func() error {
		var p networkv1alpha1.IPPool
		if err := view.Get(w.Context(), client.ObjectKey{Name: pool}, &p); err != nil {
			return err
		}
		if p.Status.Used != used || p.Status.Kept != kept {
			return fmt.Errorf("IPPool %s counts %d used and %d kept, want %d and %d", pool, p.Status.Used, p.Status.Kept, used, kept)
		}
		return nil
	})
}

// has waits until a pod's port has the addresses.
func (w *world) has(p *corev1.Pod, addresses string) {
	w.Helper()
	w.until(func() error {
		port, err := w.findPort(p)
		if err != nil {
			return err
		}
		if _, have, _ := strings.Cut(port.Addresses[0], " "); have != addresses {
			return fmt.Errorf("port of %s has %q, want %q", p.Name, have, addresses)
		}
		return nil
	})
}

// natOf returns the translations of pods' addresses, "external logical".
func (w *world) natOf() (found []string) {
	for _, row := range ovndb.List(w.rows, func(n *nbdb.NAT) bool { return n.Type == nbdb.NATTypeDNATAndSNAT }) {
		found = append(found, row.ExternalIP+" "+row.LogicalIP)
	}
	slices.Sort(found)
	return found
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}}}
}

// scale changes the replicas of a StatefulSet.
func (w *world) scale(s *appsv1.StatefulSet, replicas int32) {
	w.Helper()
	patch(w, s, func(s *appsv1.StatefulSet) { s.Spec.Replicas = &replicas })
}

// The addresses of an Overlay pool follow a StatefulSet's pods over nodes and restarts, as the release policy says.
func TestFloatingIPsOfAStatefulSet(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	w.pool("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.2", "fd00:10:244:c8::1-fd00:10:244:c8::2")
	s := statefulSet("db", 2)
	w.must(api.Create(w.Context(), s))
	w.Cleanup(func() { _ = api.Delete(context.Background(), s) })

	zero := w.inPool("db-0", "n1", "web", networkv1alpha1.ReleaseImmutable, s)
	w.has(zero, "10.244.200.1 fd00:10:244:c8::1")
	one := w.inPool("db-1", "n2", "web", networkv1alpha1.ReleaseImmutable, s)
	w.has(one, "10.244.200.2 fd00:10:244:c8::2")
	w.holders(map[string]string{"10.244.200.1": "db-0", "fd00:10:244:c8::1": "db-0", "10.244.200.2": "db-1", "fd00:10:244:c8::2": "db-1"})
	late := w.inPool("late", "n1", "web", "", nil)
	w.says(w.event("late", "FailedAddressAllocation"), "IPPool web", "all its IPv4 addresses are in use")

	w.delete(zero)
	w.holders(map[string]string{"10.244.200.1": "(StatefulSet db)", "fd00:10:244:c8::1": "(StatefulSet db)",
		"10.244.200.2": "db-1", "fd00:10:244:c8::2": "db-1"})
	t.Run("over a restart", func(*testing.T) {
		o.stop()
		o = w.start()
	})
	zero = w.inPool("db-0", "n2", "web", networkv1alpha1.ReleaseImmutable, s)
	w.has(zero, "10.244.200.1 fd00:10:244:c8::1")

	t.Run("a restart writes nothing", func(t *testing.T) {
		w.delete(late)
		w.counts("web", 4, 0)
		o.settle()
		o.stop()
		o = w.start()
		w.port(w.create("n1", "extra")[0]) // the operator works
		o.settle()
		if o.transactions() != 1 || len(o.writes("/floatingips")) > 0 || len(o.writes("/ippools")) > 0 {
			t.Errorf("a restart wrote %d transactions besides the new pod's, and %v", o.transactions()-1, o.writes(""))
		}
	})
	w.scale(s, 1)
	w.delete(one)
	w.holders(map[string]string{"10.244.200.1": "db-0", "fd00:10:244:c8::1": "db-0"})
	other := w.inPool("other", "n1", "web", "", nil)
	w.has(other, "10.244.200.2 fd00:10:244:c8::2")
	w.must(api.Delete(w.Context(), s))
	w.delete(zero)
	w.holders(map[string]string{"10.244.200.2": "other", "fd00:10:244:c8::2": "other"})
	w.delete(other)
	w.holders(map[string]string{})
}

// A pod of a NAT pool has an ordinary address, and its node translates. It costs one transaction and two writes.
func TestFloatingIPsByTranslation(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.pool("edge", networkv1alpha1.LocationNAT, "192.0.2.64/30")
	w.until(func() error {
		var p networkv1alpha1.IPPool
		if err := view.Get(w.Context(), client.ObjectKey{Name: "edge"}, &p); err != nil {
			return err
		}
		return condition(p.Status.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
	w.port(w.create("n1", "ordinary")[0])
	o.settle()
	transactions := o.transactions()
	p := w.inPool("one", "n1", "edge", "", nil)
	w.port(p)
	o.settle()
	if n := o.transactions() - transactions; n != 1 {
		t.Errorf("the pod cost %d transactions, not 1", n)
	}
	w.delete(p)
	w.noPort(p)
	w.holders(map[string]string{})
	if writes := o.writes("/floatingips"); len(writes) != 2 {
		t.Errorf("the pod's life cost %d writes of FloatingIPs, not 2: %v", len(writes), writes)
	}
	if found := w.natOf(); len(found) > 0 {
		t.Errorf("translations are left: %v", found)
	}
}

// The rows by which pods of the same node reach a NAT address come and go with its pod. An ordinary pod has none of
// them, and a restart writes nothing.
func TestTranslationsForPods(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.joinShared("n1")
	w.pool("edge", networkv1alpha1.LocationNAT, "192.0.2.64/30")
	p := w.inPool("one", "n1", "edge", "", nil)
	w.port(p)
	w.port(w.create("n1", "ordinary")[0])
	rows := func() (found []string) {
		for _, row := range ovndb.List(w.rows, func(n *nbdb.NAT) bool { return n.Priority == 300 }) {
			found = append(found, row.Type+" "+row.ExternalIP+" "+row.LogicalIP+" "+row.Match)
		}
		return found
	}
	expect := func(want ...string) {
		t.Helper()
		w.until(func() error {
			if have := rows(); !slices.Equal(have, want) {
				return fmt.Errorf("translations for pods are %q, want %q", have, want)
			}
			return nil
		})
	}
	way := "snat 100.64.0.2 10.244.0.0/16 ip4.dst == " + strings.Fields(w.port(p).Addresses[0])[1]
	expect(way)
	o.settle()
	o.stop()
	o = w.start()
	w.port(w.create("n1", "extra")[0]) // the operator works
	o.settle()
	if n := o.transactions(); n != 1 {
		t.Errorf("a restart wrote %d transactions besides the new pod's", n-1)
	}
	expect(way)
	w.delete(p)
	expect()
}

// Translations exist only while their pool does. The address stays the pod's, so that it returns with the pool.
func TestTranslationsOfADeletedPool(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	pool := w.pool("edge", networkv1alpha1.LocationNAT, "192.0.2.64/30")
	p := w.inPool("one", "n1", "edge", networkv1alpha1.ReleaseImmutable, nil)
	w.port(p)
	translated := func(want string) {
		t.Helper()
		w.until(func() error {
			port, err := w.findPort(p)
			if err == nil && port.ExternalIDs[ovnexpr.TranslatedKey] != want {
				err = fmt.Errorf("the port's mark of translations is %q, want %q", port.ExternalIDs[ovnexpr.TranslatedKey], want)
			}
			return err
		})
	}
	translated("192.0.2.64")
	w.must(api.Delete(w.Context(), pool))
	translated("")
	w.holders(map[string]string{"192.0.2.64": "one"})
	w.pool("edge", networkv1alpha1.LocationNAT, "192.0.2.64/30")
	translated("192.0.2.64")
}

// What a pool cannot be is said in its status with both names.
func TestPoolsThatOverlap(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.pool("first", networkv1alpha1.LocationOverlay, "10.244.200.0/29")
	for name, c := range map[string]struct {
		location networkv1alpha1.IPPoolLocation
		text     string
		want     []string
	}{
		"second":  {networkv1alpha1.LocationOverlay, "10.244.200.4-10.244.200.9", []string{"10.244.200.4-10.244.200.9", "IPPool first"}},
		"node":    {networkv1alpha1.LocationOverlay, "10.244.0.10", []string{"10.244.0.10", "the pod subnet of node n1"}},
		"outside": {networkv1alpha1.LocationOverlay, "10.9.0.0/24", []string{"10.9.0.0-10.9.0.255", "spec.clusterNetwork"}},
		"service": {networkv1alpha1.LocationNAT, "10.96.1.0/24", []string{"10.96.1.0-10.96.1.255", "spec.serviceNetwork"}},
	} {
		w.pool(name, c.location, c.text)
		w.until(func() error {
			var p networkv1alpha1.IPPool
			if err := view.Get(w.Context(), client.ObjectKey{Name: name}, &p); err != nil {
				return err
			}
			for _, ready := range p.Status.Conditions {
				lacks := func(s string) bool { return !strings.Contains(ready.Message, s) }
				if ready.Status == metav1.ConditionFalse && !slices.ContainsFunc(c.want, lacks) {
					return nil
				}
			}
			return fmt.Errorf("IPPool %s has the conditions %+v, want %v", name, p.Status.Conditions, c.want)
		})
	}
	w.register("n2")
	for _, subnet := range w.nodeNetwork("n2").Spec.PodSubnets {
		if strings.HasPrefix(string(subnet), "10.244.200.") {
			t.Errorf("node n2 has a subnet within IPPool first: %s", subnet)
		}
	}
}

// The addresses of an Underlay pool are the addresses of the pod's interface on the pool's Network, and nobody else gets them.
func TestFloatingIPsOnANetwork(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.100.0.0/29", "fd00:100::/64")})
	w.poolOn("blue", "segment", networkv1alpha1.LocationUnderlay, "10.100.0.1-10.100.0.2")
	asking := func(name, node string) *corev1.Pod {
		p := pod(name, node)
		p.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: "segment", "k8s.v1.cni.cncf.io/networks": "blue"}
		w.run(p)
		return p
	}
	one := asking("one", "n1")
	w.wantPorts(map[string]string{"blue_default_one_net1": "10.100.0.1"})
	w.requesting("ordinary", "n1", "blue")
	w.wantPorts(map[string]string{"blue_default_one_net1": "10.100.0.1", "blue_default_ordinary_net1": "10.100.0.3 fd00:100::1"})
	two := asking("two", "n2")
	w.wantPorts(map[string]string{"blue_default_one_net1": "10.100.0.1", "blue_default_ordinary_net1": "10.100.0.3 fd00:100::1",
		"blue_default_two_net1": "10.100.0.2"})
	asking("three", "n2")
	w.says(w.event("three", "FailedNetworkAllocation"), "IPPool segment", "in use")
	w.holders(map[string]string{"10.100.0.1": "one", "10.100.0.2": "two"})
	o.stop()
	w.start()
	w.delete(one)
	w.wantPorts(map[string]string{"blue_default_three_net1": "10.100.0.1", "blue_default_ordinary_net1": "10.100.0.3 fd00:100::1",
		"blue_default_two_net1": "10.100.0.2"})
	w.delete(two)
	w.holders(map[string]string{"10.100.0.1": "three"})
	alone := w.inPool("alone", "n1", "segment", "", nil)
	w.says(w.event("alone", "FailedAddressAllocation"), "IPPool segment", "Network blue", "k8s.v1.cni.cncf.io/networks")
	w.delete(alone)
}

// A pod whose IPPool becomes known after it waits for the pool, and gets no ordinary address of the pool's Network.
func TestAPoolAfterItsPod(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/29")})
	p := pod("early", "n1")
	p.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: "segment", "k8s.v1.cni.cncf.io/networks": "blue"}
	w.run(p)
	w.says(w.event("early", "FailedNetworkAllocation"), "IPPool segment")
	o.settle()
	w.wantPorts(map[string]string{})
	w.poolOn("blue", "segment", networkv1alpha1.LocationUnderlay, "10.100.0.1-10.100.0.2")
	w.wantPorts(map[string]string{"blue_default_early_net1": "10.100.0.1"})
}

// A gated pod has its address before it has a node. What another process gives it beside that is released, also when the
// operator reads of it after the pod has its port.
func TestFloatingIPOfAGatedPod(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	w.pool("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.4", "fd00:10:244:c8::1")
	only := map[string]string{"10.244.200.1": "gated", "fd00:10:244:c8::1": "gated"}
	p := pod("gated", "")
	p.Annotations = map[string]string{networkv1alpha1.IPPoolAnnotation: "web"}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: networkv1alpha1.FloatingGate}}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // no kubelet says that the nodes are ready
	w.run(p)
	w.until(func() error {
		w.must(api.Get(w.Context(), client.ObjectKeyFromObject(p), p))
		if len(p.Spec.SchedulingGates) > 0 {
			return fmt.Errorf("the pod has the gates %v and the conditions %+v", p.Spec.SchedulingGates, p.Status.Conditions)
		}
		return nil
	})
	w.holders(only)
	extra := func(address string) {
		f := &networkv1alpha1.FloatingIP{}
		w.must(api.Get(w.Context(), client.ObjectKey{Name: "10.244.200.1"}, f))
		f.ObjectMeta = metav1.ObjectMeta{Name: address, Labels: f.Labels}
		f.Spec.Address = networkv1alpha1.EgressAddress(address)
		w.must(api.Create(w.Context(), f))
	}
	extra("10.244.200.2")
	w.must(api.SubResource("binding").Create(w.Context(), p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n2"}}))
	w.holders(only)
	w.has(p, "10.244.200.1 fd00:10:244:c8::1")
	extra("10.244.200.3")
	w.holders(only)
	w.has(p, "10.244.200.1 fd00:10:244:c8::1")
	w.delete(p)
	w.holders(map[string]string{})
}

// A pool of no namespace becomes one of all namespaces, and the reverse.
func TestNamespacesOfAPool(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	pool := w.pool("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.9")
	first := w.inPool("first", "n1", "web", networkv1alpha1.ReleaseWithPod, nil)
	w.has(first, "10.244.200.1 fd00:10:244::3")
	patch(w, pool, func(p *networkv1alpha1.IPPool) { p.Spec.Namespaces = nil })
	w.poolReady("web", networkv1alpha1.ReasonAsExpected, "10.244.200.1-10.244.200.9")
	second := w.inPool("second", "n1", "web", networkv1alpha1.ReleaseWithPod, nil)
	w.says(w.event("second", "FailedAddressAllocation"), "does not select namespace default")
	w.has(first, "10.244.200.1 fd00:10:244::3")
	patch(w, pool, func(p *networkv1alpha1.IPPool) { p.Spec.Namespaces = &metav1.LabelSelector{} })
	w.has(second, "10.244.200.2 fd00:10:244::4")
}
