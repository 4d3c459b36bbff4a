package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// registerAt creates a Node with an InternalIP as its kubelet would.
func (w *world) registerAt(name, address string) {
	w.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	w.must(api.Create(w.Context(), node))
}

// addressOf changes a Node's InternalIP.
func (w *world) addressOf(name, address string) {
	w.Helper()
	node := w.node(name)
	patched := node.DeepCopy()
	patched.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	w.must(api.Status().Patch(w.Context(), patched, client.MergeFrom(node)))
}

// overlapReported waits until the ClusterNetwork names an object's overlap as a problem, and returns the message.
func (w *world) overlapReported(object string) (message string) {
	w.Helper()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, p := range s.Problems {
			if p.Reason == networkv1alpha1.ReasonNetworkOverlapsNodes && p.Object == object {
				message = p.Message
				return nil
			}
		}
		return fmt.Errorf("no overlap of %s is reported: %+v", object, s.Problems)
	})
	return message
}

// states waits until the networks of the ClusterNetwork have a state.
func (w *world) states(state networkv1alpha1.NetworkState, cidrs ...networkv1alpha1.CIDR) {
	w.Helper()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		have := map[networkv1alpha1.CIDR]networkv1alpha1.NetworkState{}
		for _, n := range s.Networks {
			have[n.CIDR] = n.State
		}
		for _, cidr := range cidrs {
			if have[cidr] != state {
				return fmt.Errorf("networks are %v, want %s %s", have, cidr, state)
			}
		}
		return nil
	})
}

// change changes the ClusterNetwork's spec.
func (w *world) change(cn *networkv1alpha1.ClusterNetwork, change func(*networkv1alpha1.ClusterNetworkSpec)) {
	w.Helper()
	w.edit(cn, func() { change(&cn.Spec) })
}

// edit reads an object, changes it and writes it, again if the operator wrote its status meanwhile.
func (w *world) edit(o client.Object, change func()) {
	w.Helper()
	w.until(func() error {
		w.must(api.Get(w.Context(), keyOf(o), o))
		change()
		err := api.Update(w.Context(), o)
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		return err
	})
}

// noNodeNetwork fails the test if a node has a NodeNetwork.
func (w *world) noNodeNetwork(name string) {
	w.Helper()
	err := api.Get(context.Background(), types.NamespacedName{Name: name}, &networkv1alpha1.NodeNetwork{})
	if !apierrors.IsNotFound(err) {
		w.Errorf("node %s has a NodeNetwork, or the read failed: %v", name, err)
	}
}

// unavailableSaying waits until a Node's own condition reports why it has no network.
func (w *world) unavailableSaying(name string, words ...string) {
	w.Helper()
	message := ""
	w.until(func() error {
		message = ""
		for _, c := range w.node(name).Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue {
				message = c.Message
			}
		}
		if message == "" {
			return errors.New("the node is not marked as without network")
		}
		return nil
	})
	w.says(message, words...)
}

// TestNetworkThatOverlapsNodesIsHeld checks that a network with a node's address is held: it has no rows and its
// fields can be changed; then everything continues.
func TestNetworkThatOverlapsNodesIsHeld(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.registerAt("n1", "192.0.2.1")
	w.registerAt("n2", "10.244.3.4")
	cn := w.network(entry("10.244.0.0/16", 24))
	w.says(w.overlapReported("ClusterNetwork/default"), "clusterNetwork 10.244.0.0/16", "10.244.3.4", "node n2")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return errors.Join(
			condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonNetworkOverlapsNodes, metav1.ConditionFalse),
			condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonNetworkOverlapsNodes, metav1.ConditionTrue))
	})
	w.states(networkv1alpha1.NetworkHeld, "10.244.0.0/16", "10.96.0.0/16", "100.64.0.0/16")
	for _, name := range []string{"n1", "n2"} {
		w.unavailableSaying(name, "10.244.3.4", "node n2")
		w.noNodeNetwork(name)
	}
	if rows := w.selectRows().owned("network/default"); len(rows) > 0 {
		t.Errorf("a held network has rows: %v", rows)
	}
	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{entry("10.245.0.0/16", 24)}
		s.JoinSubnet = []networkv1alpha1.CIDR{"100.65.0.0/16"}
	})
	for _, name := range []string{"n1", "n2"} {
		nn := w.report(name)
		if len(nn.Spec.ClusterSubnets) != 1 || nn.Spec.ClusterSubnets[0] != "10.245.0.0/16" {
			t.Errorf("node %s has %+v", name, nn.Spec)
		}
	}
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
	w.states(networkv1alpha1.NetworkInForce, "10.245.0.0/16", "10.96.0.0/16", "100.65.0.0/16")
	w.must(api.Get(t.Context(), keyOf(cn), cn))
	cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.97.0.0/16"}
	if err := api.Update(t.Context(), cn); !apierrors.IsInvalid(err) {
		t.Errorf("a network in force was replaced: %v", err)
	}
}

// TestNodeInANetworkInForce checks that a network in force stays, and the node has the problem: a new node gets no
// network until its address changes, and a node with a network keeps it.
func TestNodeInANetworkInForce(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1")
	p := w.create("n1", "p")[0]
	w.port(p)
	o.settle()
	before, transactions := w.dump(), o.transactions()
	w.registerAt("n2", "10.244.9.9")
	w.says(w.event("n2", networkv1alpha1.ReasonNetworkOverlapsNodes), "clusterNetwork 10.244.0.0/16", "10.244.9.9", "n2")
	w.unavailableSaying("n2", "clusterNetwork 10.244.0.0/16", "10.244.9.9")
	w.says(w.overlapReported("Node/n2"), "10.244.0.0/16", "10.244.9.9")
	w.noNodeNetwork("n2")
	o.settle()
	w.same(before)
	if n := o.transactions() - transactions; n != 0 {
		t.Errorf("a node without a network took %d transactions", n)
	}
	w.addressOf("n2", "192.0.2.2")
	w.report("n2")
	w.until(func() error { return unavailable("n2", corev1.ConditionFalse) })

	w.addressOf("n2", "10.244.9.9")
	w.says(w.overlapReported("Node/n2"), "10.244.9.9")
	w.nodeNetwork("n2")
	w.claims("n2", "10.244.9.9/24")
	w.accepted("n2", networkv1alpha1.ReasonNetworkOverlapsNodes, metav1.ConditionFalse)
	w.says(w.overlapReported("NodeNetwork/n2"), "clusterNetwork 10.244.0.0/16", "10.244.9.9", "link outside of node n2")
}

// TestAppendedEntryThatOverlapsIsHeld checks that only an appended, overlapping entry is held, and that it can be
// removed again.
func TestAppendedEntryThatOverlapsIsHeld(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(entry("10.244.0.0/16", 24))
	w.registerAt("n1", "10.245.0.1")
	w.report("n1")
	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork, entry("10.245.0.0/16", 24))
	})
	w.says(w.overlapReported("ClusterNetwork/default"), "clusterNetwork 10.245.0.0/16", "10.245.0.1", "node n1")
	w.states(networkv1alpha1.NetworkHeld, "10.245.0.0/16")
	w.states(networkv1alpha1.NetworkInForce, "10.244.0.0/16", "10.96.0.0/16", "100.64.0.0/16")
	if nn := w.nodeNetwork("n1"); len(nn.Spec.ClusterSubnets) != 1 {
		t.Errorf("a node routes to %v", nn.Spec.ClusterSubnets)
	}
	w.change(cn, func(s *networkv1alpha1.ClusterNetworkSpec) {
		s.ClusterNetwork = append(s.ClusterNetwork[:1], entry("10.246.0.0/16", 24))
	})
	w.states(networkv1alpha1.NetworkInForce, "10.244.0.0/16", "10.246.0.0/16")
	w.until(func() error {
		if nn := w.nodeNetwork("n1"); len(nn.Spec.ClusterSubnets) != 2 {
			return fmt.Errorf("a node routes to %v", nn.Spec.ClusterSubnets)
		}
		return nil
	})
}

// TestNetworksOfAnEarlierVersionAreInForce starts with a ClusterNetwork of an earlier version, whose status does not
// list networks. The networks that nodes use are in force. A preflight, which cannot write that, changes nothing.
func TestNetworksOfAnEarlierVersionAreInForce(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1", "n2"}, 1)
	w.addressOf("n2", "10.244.9.9")
	w.overlapReported("Node/n2")
	o.stop()
	cn := &networkv1alpha1.ClusterNetwork{}
	w.must(api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn))
	before := client.MergeFrom(cn.DeepCopy())
	cn.Status.Networks = nil
	w.must(api.Status().Patch(t.Context(), cn, before))
	rows := w.dump()
	if changes, _ := w.preflight(); len(changes) > 0 {
		t.Errorf("a preflight would change %+v", changes)
	}
	o = w.start()
	for _, entry := range cn.Spec.ClusterNetwork {
		w.states(networkv1alpha1.NetworkInForce, entry.CIDR)
	}
	o.settle()
	w.same(rows)
}
