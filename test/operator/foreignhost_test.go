package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
)

// setStatus changes the status of a NodeNetwork as its agent does.
func (w *world) setStatus(name string, change func(*networkv1alpha1.NodeNetwork)) {
	w.Helper()
	w.until(func() error {
		nn := w.nodeNetwork(name)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		change(nn)
		return api.Status().Patch(w.Context(), nn, patch)
	})
}

// answer waits until a node must probe exactly these addresses, and reports the MACs that answer for them.
func (w *world) answer(name string, macs map[networkv1alpha1.IP]networkv1alpha1.MACAddress) {
	w.Helper()
	w.until(func() error {
		requests := w.nodeNetwork(name).Spec.ProbeAddresses
		for _, r := range requests {
			if _, ok := macs[r.Address]; !ok || len(requests) != len(macs) {
				return fmt.Errorf("the node must probe %+v", requests)
			}
		}
		if len(requests) != len(macs) {
			return fmt.Errorf("the node must probe %+v, want %v", requests, macs)
		}
		return nil
	})
	w.setStatus(name, func(nn *networkv1alpha1.NodeNetwork) {
		nn.Status.Probed = nil
		for _, r := range nn.Spec.ProbeAddresses {
			nn.Status.Probed = append(nn.Status.Probed,
				networkv1alpha1.ProbedAddress{Address: r.Address, RequestedAt: r.RequestedAt, MACAddress: macs[r.Address]})
		}
	})
}

// balanced waits until a Service has exactly these addresses, and returns the reason of its condition.
func (w *world) balanced(s *corev1.Service, reason string, want ...string) {
	w.Helper()
	w.until(func() error {
		if err := view.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		var have []string
		for _, a := range lbpool.AddressesOf(s) {
			have = append(have, a.String())
		}
		c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
		if c == nil || c.Reason != reason || !slices.Equal(have, want) {
			return fmt.Errorf("the Service has %v, want %v; condition %+v", have, want, c)
		}
		return nil
	})
}

// Neither an EgressIP nor a Service gets an address that a foreign host of the nodes' segment has, until the host is gone. What they have
// stays, also when the operator is replaced.
func TestForeignHostsKeepTheirAddresses(t *testing.T) {
	const foreign = networkv1alpha1.MACAddress("0a:00:00:00:00:77")
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1")
	w.mayCarry(true, "n1")
	before := w.egressIP("before", "192.0.2.90")
	w.carried(before, "192.0.2.90 n1") // its agent cannot probe
	w.setStatus("n1", func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Gateway.ProbesAddresses = true })

	e := w.egressIP("a", "192.0.2.100")
	w.assigned(e, networkv1alpha1.ReasonProbing)
	w.answer("n1", map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.100": foreign})
	w.says(w.assigned(e, networkv1alpha1.ReasonAddressInUse), "192.0.2.100", string(foreign))

	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.200-192.0.2.203"}
	w.must(api.Create(t.Context(), pool))
	w.Cleanup(func() { _ = api.Delete(context.Background(), pool) })
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"}}
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(networkv1alpha1.DefaultLoadBalancerClass)
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	w.must(api.Create(t.Context(), s))
	w.Cleanup(func() { _ = api.Delete(context.Background(), s) })
	w.balanced(s, networkv1alpha1.ReasonProbing)
	w.answer("n1", map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.100": foreign, "192.0.2.200": foreign})
	w.answer("n1", map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.100": foreign, "192.0.2.200": foreign, "192.0.2.201": ""})
	w.balanced(s, networkv1alpha1.ReasonAsExpected, "192.0.2.201")

	w.answer("n1", map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.100": "", "192.0.2.200": foreign})
	w.carried(e, "192.0.2.100 n1")
	w.answer("n1", map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.200": foreign})
	w.until(func() error {
		if err := view.Get(context.Background(), client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady); c == nil ||
			c.Reason != networkv1alpha1.ReasonAddressInUse {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	w.until(func() error {
		if probed := w.nodeNetwork("n1").Spec.ProbeAddresses; len(probed) != 1 {
			return fmt.Errorf("n1 still probes %v", probed)
		}
		return nil
	})
	w.awaitTopologyReady() // of the generation that probes one address
	w.quietRestart(o, "extra", 1)
	w.carried(before, "192.0.2.90 n1")
	w.carried(e, "192.0.2.100 n1")
	w.balanced(s, networkv1alpha1.ReasonAsExpected, "192.0.2.201")
}

// foreign reports hosts on VLAN 100 of the physical network dc that answer for addresses, as a node's agent does.
func (w *world) foreign(node string, addresses ...networkv1alpha1.IP) {
	w.Helper()
	w.setStatus(node, func(nn *networkv1alpha1.NodeNetwork) {
		nn.Status.ForeignHosts = nil
		for _, a := range addresses {
			nn.Status.ForeignHosts = append(nn.Status.ForeignHosts, networkv1alpha1.ForeignHost{PhysicalNetwork: "dc", VLAN: 100,
				Address: a, MACAddress: "02:00:00:00:00:cc", AnsweredAt: metav1.Now()})
		}
	})
}

// A pod of a Localnet Network that has not started gets another address when a foreign host answers for its own. A running pod, and a pod
// that names its address, keep it, and their condition names the host. Other pods avoid the address while the host is reported.
func TestPodsEvadeForeignHosts(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(dualStack()...)
	w.join("n1", "n2")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.PhysicalNetworks = []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}
	})
	for _, node := range []string{"n1", "n2"} {
		w.wantPhysical(node, "dc eth1")
		w.reportPhysical(node, networkv1alpha1.NodePhysicalNetworkStatus{Name: "dc", Ready: true, Bridge: "breth1"})
	}
	w.podNetwork("segment", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet, PhysicalNetwork: "dc", VLAN: 100,
		Subnets: subnets("10.100.0.0/29")}) // .1 to .6
	w.podNetwork("elsewhere", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet, PhysicalNetwork: "dc", VLAN: 200,
		Subnets: subnets("10.100.0.0/29")})
	want := map[string]string{}
	request := func(name, node, requests, port, address string) *corev1.Pod {
		t.Helper()
		p := w.requesting(name, node, requests)
		want[port] = address
		w.wantPorts(want)
		return p
	}
	w.reportNetworks(request("running", "n1", "segment", "segment_default_running_net1", "10.100.0.1"))
	request("starting", "n1", "segment", "segment_default_starting_net1", "10.100.0.2")
	request("naming", "n1", `[{"name":"segment","ips":["10.100.0.3"]}]`, "segment_default_naming_net1", "10.100.0.3")
	request("other", "n1", "elsewhere", "elsewhere_default_other_net1", "10.100.0.1")

	w.foreign("n1", "10.100.0.1", "10.100.0.2", "10.100.0.3", "10.100.0.4")
	want["segment_default_starting_net1"] = "10.100.0.5"
	w.wantPorts(want)
	w.allocated("naming", corev1.ConditionFalse, "default/segment", "10.100.0.3 is used already", "02:00:00:00:00:cc", "node n1")
	w.allocated("running", corev1.ConditionFalse, "10.100.0.1 is used already")
	request("elsewhere", "n2", "segment", "segment_default_elsewhere_net1", "10.100.0.6")
	w.requesting("late", "n2", "segment")
	w.allocated("late", corev1.ConditionFalse, "no free address in 10.100.0.0/29", "hosts of the segment answer for them (4)")

	o.stop()
	o = w.start()
	o.settle()
	w.wantPorts(want)
	w.allocated("late", corev1.ConditionFalse, "hosts of the segment answer for them (4)")

	w.foreign("n1", "10.100.0.2") // the others have gone
	w.allocated("naming", corev1.ConditionTrue)
	w.allocated("running", corev1.ConditionTrue)
	want["segment_default_late_net1"] = "10.100.0.4"
	w.wantPorts(want)
	w.allocated("late", corev1.ConditionTrue)
}
