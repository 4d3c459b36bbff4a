package operator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

func TestNodesGetDistinctNetworks(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	nodes := []string{"n1", "n2", "n3"}
	w.register(nodes...)

	seen := map[string]string{} // ID or subnet -> node
	for _, name := range nodes {
		nn := w.nodeNetwork(name)
		if len(nn.Spec.PodSubnets) != 2 {
			t.Fatalf("node %s has subnets %v, want one of each family", name, nn.Spec.PodSubnets)
		}
		for _, id := range []string{fmt.Sprint(nn.Spec.NodeID), string(nn.Spec.PodSubnets[0]),
			string(nn.Spec.PodSubnets[1]), string(nn.Spec.ManagementPort.MACAddress)} {
			if other, taken := seen[id]; taken {
				t.Errorf("nodes %s and %s both have %s", other, name, id)
			}
			seen[id] = name
		}
		w.until(func() error { return unavailable(name, corev1.ConditionTrue) })
	}
	for _, name := range nodes {
		w.report(name)
		w.until(func() error { return unavailable(name, corev1.ConditionFalse) })
	}

	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		want := networkv1alpha1.AddressCounts{Total: 1024 * 60, Used: 0, Free: 1024 * 60}
		if s.Nodes != (networkv1alpha1.NodeCounts{Total: 3, Ready: 3}) || s.NodesReady != "3/3" || s.MTU != 1500-58 ||
			len(s.Addresses) != 2 || s.Addresses[0].AddressCounts != want {
			return fmt.Errorf("status is %+v", s)
		}
		return errors.Join(
			condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue),
			condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonAsExpected, metav1.ConditionFalse))
	})
	// router and join switch, a switch per node; each link has two ends, and the join switch has a port for refused packets
	w.until(func() error {
		switches, ports := len(ovndb.List(w.rows, every[nbdb.LogicalSwitch])), len(ovndb.List(w.rows, every[nbdb.LogicalSwitchPort]))
		routerPorts := len(ovndb.List(w.rows, every[nbdb.LogicalRouterPort]))
		if switches != 4 || ports != 1+1+3*2 || routerPorts != 1+3 {
			return fmt.Errorf("%d switches, %d switch ports and %d router ports", switches, ports, routerPorts)
		}
		return nil
	})
	for _, name := range nodes {
		w.until(func() error { // the agents' MTU has reached every node
			if nn := w.nodeNetwork(name); nn.Spec.MTU != 1500-58 {
				return fmt.Errorf("NodeNetwork %s has MTU %d", name, nn.Spec.MTU)
			}
			return nil
		})
	}
}

// TestStatusIsRepaired checks that a status that differs from the operator's is rewritten, whatever wrote it. The
// operator itself does that when its cache lacks its last write.
func TestStatusIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(dualStack()...)
	w.join("n1")
	w.counted(0)
	w.must(api.Get(t.Context(), keyOf(cn), cn))
	before := client.MergeFrom(cn.DeepCopy())
	cn.Status.NodesReady, cn.Status.Addresses[0].Used = "9/9", 7
	w.must(api.Status().Patch(t.Context(), cn, before))
	w.until(func() error {
		var now networkv1alpha1.ClusterNetwork
		w.must(api.Get(t.Context(), keyOf(cn), &now))
		if s := now.Status; s.NodesReady != "1/1" || s.Addresses[0].Used != 0 {
			return fmt.Errorf("status is %+v", s)
		}
		return nil
	})
}

// TestNodeNetworkDeletedByHand checks that a deleted NodeNetwork is recreated with the subnets from which its pods
// have addresses.
func TestNodeNetworkDeletedByHand(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1", "n2"}, 2)
	w.delete(w.node("n1")) // frees the first ID and subnet
	w.until(func() error { return isGone(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) })
	o.stop()
	o = w.start() // reads n2 only from the API server
	w.inUse(2)
	before := w.dump()
	old := w.nodeNetwork("n2")
	w.delete(old)
	w.until(func() error {
		if nn := w.nodeNetwork("n2"); nn.UID == old.UID {
			return errors.New("the NodeNetwork is still the old one")
		}
		return nil
	})
	if nn := w.report("n2"); nn.Spec.NodeID != old.Spec.NodeID || nn.Spec.PodSubnets[0] != old.Spec.PodSubnets[0] {
		t.Errorf("n2 has ID %d and %s, had %d and %s", nn.Spec.NodeID, nn.Spec.PodSubnets[0], old.Spec.NodeID, old.Spec.PodSubnets[0])
	}
	w.until(func() error { return unavailable("n2", corev1.ConditionFalse) })
	o.settle()
	w.same(before)
}

func every[T any](*T) bool { return true }

func TestSubnetsExhausted(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(entry("10.244.0.0/23", 24), entry("fd00:10:244::/48", 64))
	w.join("n1", "n2")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
	w.register("n3")

	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonSubnetsExhausted, metav1.ConditionTrue)
	})
	w.says(w.event("n3", "FailedSubnetAllocation"), "10.244.0.0/23", "n3")
	w.must(api.Get(t.Context(), keyOf(cn), cn))
	for _, c := range cn.Status.Conditions {
		if c.Type == networkv1alpha1.ConditionDegraded {
			w.says(c.Message, "10.244.0.0/23", "n3")
		}
	}

	w.must(api.Get(t.Context(), keyOf(cn), cn))
	cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, entry("10.245.0.0/16", 24))
	w.must(api.Update(t.Context(), cn))
	nn := w.report("n3")
	if got := nn.Spec.PodSubnets[0]; got != "10.245.0.0/24" {
		t.Errorf("n3 has %s, want the first subnet of the new network", got)
	}
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return errors.Join(
			condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue),
			condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonAsExpected, metav1.ConditionFalse))
	})
}

// TestFreedSubnetGoesToTheNodeThatWaits checks that a node without a subnet gets the subnet of a deleted node.
func TestFreedSubnetGoesToTheNodeThatWaits(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/23", 24))
	w.join("n1", "n2")
	w.ready("n1", "n2")
	freed := w.nodeNetwork("n1").Spec
	w.register("n3")
	w.until(func() error { return unavailable("n3", corev1.ConditionTrue) })
	w.register("n4") // reconciled after the change of n3's condition
	w.until(func() error { return unavailable("n4", corev1.ConditionTrue) })

	w.delete(w.node("n4"), w.node("n1"))
	nn := w.nodeNetwork("n3")
	if nn.Spec.PodSubnets[0] != freed.PodSubnets[0] || nn.Spec.NodeID != freed.NodeID {
		t.Errorf("n3 has subnet %s and ID %d, want %s and %d of n1", nn.Spec.PodSubnets[0], nn.Spec.NodeID,
			freed.PodSubnets[0], freed.NodeID)
	}
}

func TestNodeDeletedAndRecreated(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	w.port(w.create("n2", "p")[0])
	before := w.dump()
	first := w.nodeNetwork("n2").Spec

	node := w.node("n2")
	w.delete(node)
	w.until(func() error { return isGone(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}) })
	w.until(func() error {
		if found := w.nb.Ctl("--bare", "--columns=name", "find", "Logical_Switch", "name=n2"); found != "" {
			return errors.New("switch n2 still exists")
		}
		if routerPort, ok := ovndb.Find(w.rows, &nbdb.LogicalRouterPort{Name: "rtos-n2"}); ok {
			return fmt.Errorf("router port %s still exists", routerPort.UUID)
		}
		return nil
	})

	w.delete(pod("p", ""))
	w.join("n3")
	third := w.nodeNetwork("n3").Spec
	if third.NodeID != first.NodeID || third.PodSubnets[0] != first.PodSubnets[0] {
		t.Errorf("n3 has ID %d and %s, want n2's freed %d and %s", third.NodeID, third.PodSubnets[0], first.NodeID, first.PodSubnets[0])
	}

	w.join("n2")
	again := w.create("n2", "p")[0]
	subnet := netip.MustParsePrefix(string(w.nodeNetwork("n2").Spec.PodSubnets[0]))
	if port := w.port(again); !subnet.Contains(w.addresses(port)[0]) {
		t.Errorf("pod of n2 has %v, which is not in %s", port.Addresses, subnet)
	}
	w.until(func() error {
		// n3's switch, router port, two ports and three rules that mark replies
		if got, want := len(w.dump()), len(before)+7; got != want {
			return fmt.Errorf("%d rows, want %d", got, want)
		}
		return nil
	})
}

// TestNodeNetworkOfAnEarlierNodeIsReplaced deletes and recreates a Node while no operator runs. Its NodeNetwork has
// an owner that no longer exists. No garbage collector runs here, so the operator itself must replace it. The node
// keeps its ID and subnets.
func TestNodeNetworkOfAnEarlierNodeIsReplaced(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	p := w.create("n2", "p")[0]
	before := w.port(p)
	old := w.nodeNetwork("n2")
	o.stop()

	w.delete(w.node("n1"), w.node("n2")) // n1's ID is the first free one
	w.register("n2")
	w.start()
	nn := w.report("n2")
	if nn.UID == old.UID {
		t.Error("the NodeNetwork was not replaced")
	}
	if nn.Spec.NodeID != old.Spec.NodeID || nn.Spec.PodSubnets[0] != old.Spec.PodSubnets[0] {
		t.Errorf("n2 has ID %d and %s, had %d and %s", nn.Spec.NodeID, nn.Spec.PodSubnets[0], old.Spec.NodeID, old.Spec.PodSubnets[0])
	}
	w.until(func() error { return unavailable("n2", corev1.ConditionFalse) })
	w.until(func() error { return isGone(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) })
	if after := w.port(p); after.UUID != before.UUID || after.Addresses[0] != before.Addresses[0] {
		t.Errorf("the pod's port was %v, is now %v", before, after)
	}
}
