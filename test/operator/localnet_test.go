package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// reportPhysical reports a node's connections with physical networks, as its agent does.
func (w *world) reportPhysical(node string, all ...networkv1alpha1.NodePhysicalNetworkStatus) {
	w.Helper()
	w.until(func() error { // retry if the operator has written its own condition in between
		nn := w.nodeNetwork(node)
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.PhysicalNetworks = all
		err := api.Status().Patch(w.Context(), nn, patch)
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		return err
	})
}

// wantPhysical waits until the node must be connected with these networks: "dc eth1".
func (w *world) wantPhysical(node string, want ...string) {
	w.Helper()
	w.until(func() error {
		var have []string
		for _, p := range w.nodeNetwork(node).Spec.PhysicalNetworks {
			have = append(have, strings.TrimSpace(fmt.Sprint(p.Name, " ", p.Link, p.Bridge)))
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("node %s must be connected with %v, want %v", node, have, want)
		}
		return nil
	})
}

// localnetPorts returns the ports to physical networks: "net_blue_localnet dc 100".
func (w *world) localnetPorts() (found []string) {
	for _, p := range ovndb.List(w.rows, func(p *nbdb.LogicalSwitchPort) bool { return p.Type == "localnet" }) {
		tag := 0
		if p.TagRequest != nil {
			tag = *p.TagRequest
		}
		found = append(found, fmt.Sprint(p.Name, " ", p.Options["network_name"], " ", tag))
	}
	return found
}

func (w *world) wantLocalnetPorts(want ...string) {
	w.Helper()
	w.until(func() error {
		if have := w.localnetPorts(); !slices.Equal(have, want) {
			return fmt.Errorf("localnet ports are %v, want %v", have, want)
		}
		return nil
	})
}

// allocated waits until the pod's condition has a status, and a message with all words.
func (w *world) allocated(name string, status corev1.ConditionStatus, words ...string) {
	w.Helper()
	w.until(func() error {
		p := pod(name, "")
		if err := view.Get(w.Context(), keyOf(p), p); err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			missing := func(word string) bool { return !strings.Contains(c.Message, word) }
			if c.Type == networkv1alpha1.PodNetworksAllocated && c.Status == status && !slices.ContainsFunc(words, missing) {
				return nil
			}
		}
		return fmt.Errorf("pod %s has conditions %+v, want %s with %q", name, p.Status.Conditions, status, words)
	})
}

// A segment of the data centre has ports on the nodes that are connected with it. On other nodes the pod says why it has
// none. A port stays when its node loses the segment.
func TestLocalnet(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(dualStack()...)
	w.join("n1", "n2")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.PhysicalNetworks = []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1",
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}}}
	})
	patch(w, w.node("n1"), func(n *corev1.Node) { n.Labels = map[string]string{"rack": "a"} })
	w.wantPhysical("n1", "dc eth1")
	w.wantPhysical("n2")
	segment := w.podNetwork("segment", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet,
		PhysicalNetwork: "dc", VLAN: 100, Subnets: subnets("10.100.0.0/24", "fd00:100::/64"),
		ExcludeSubnets: []networkv1alpha1.CIDR{"10.100.0.1/32"}})
	w.wantLocalnetPorts("net_segment_localnet dc 100")

	w.requesting("here", "n1", "segment")
	w.requesting("there", "n2", "segment")
	w.says(w.event("there", "FailedNetworkAllocation"), "default/segment@net1", "node n2 has no physical network dc")
	w.allocated("here", corev1.ConditionFalse, "node n1 is not connected with physical network dc", "not reported it yet")
	w.wantPorts(map[string]string{})

	ready := networkv1alpha1.NodePhysicalNetworkStatus{Name: "dc", Ready: true, Bridge: "breth1"}
	w.reportPhysical("n1", ready)
	port := map[string]string{"segment_default_here_net1": "10.100.0.2 fd00:100::1"}
	w.wantPorts(port)
	w.allocated("here", corev1.ConditionTrue)

	t.Run("a node that loses the segment keeps ports and gets no new ones", func(t *testing.T) {
		lost := networkv1alpha1.NodePhysicalNetworkStatus{Name: "dc", Message: "link eth1: the node has no such link"}
		w.reportPhysical("n1", lost)
		w.allocated("here", corev1.ConditionFalse, "node n1", "physical network dc", lost.Message)
		w.requesting("late", "n1", "segment")
		w.allocated("late", corev1.ConditionFalse, lost.Message)
		w.wantPorts(port)
		o.stop()
		o = w.start()
		w.requesting("later", "n1", "segment")
		w.allocated("later", corev1.ConditionFalse, lost.Message)
		w.wantPorts(port)
		w.reportPhysical("n1", ready)
		w.allocated("here", corev1.ConditionTrue)
		w.until(func() error {
			if have := w.networkPorts(); len(have) != 3 || have["segment_default_here_net1"] != port["segment_default_here_net1"] {
				return fmt.Errorf("ports are %v", have)
			}
			return nil
		})
	})
	t.Run("another VLAN, and none", func(t *testing.T) {
		patch(w, segment, func(n *networkv1alpha1.Network) { n.Spec.VLAN = 200 })
		w.wantLocalnetPorts("net_segment_localnet dc 200")
		patch(w, segment, func(n *networkv1alpha1.Network) { n.Spec.VLAN = 0 })
		w.wantLocalnetPorts("net_segment_localnet dc 0")
	})
	t.Run("the gateway's network", func(t *testing.T) {
		w.podNetwork("lan", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet,
			PhysicalNetwork: networkv1alpha1.GatewayPhysicalNetwork, IPAM: networkv1alpha1.IPAMNone})
		w.requesting("shared", "n2", "lan")
		w.allocated("shared", corev1.ConditionFalse, "node n2 has no physical network physnet")
		w.reportPhysical("n2", networkv1alpha1.NodePhysicalNetworkStatus{Name: "physnet", Ready: true, Bridge: "breth0"})
		w.allocated("shared", corev1.ConditionTrue)
	})
	t.Run("the entry goes", func(t *testing.T) {
		patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.PhysicalNetworks = nil })
		w.wantPhysical("n1", "dc eth1")
		w.until(func() error {
			if err := view.Get(w.Context(), keyOf(segment), segment); err != nil {
				return err
			}
			return condition(segment.Status.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonPhysicalNetworkUnknown,
				metav1.ConditionFalse)
		})
	})
}

// A physical network that pods of a node use stays when its entry is removed, selects the node no more or has another link. The
// conditions name the pods and how to force the change. The node gives it up with its last pod, or when the loss is confirmed.
func TestAPhysicalNetworkStaysWhilePodsUseIt(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(dualStack()...)
	w.join("n1", "n2")
	rack := &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	physical := func(all ...networkv1alpha1.PhysicalNetwork) {
		patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.PhysicalNetworks = all })
	}
	label := func(node, rack string) {
		patch(w, w.node(node), func(n *corev1.Node) { n.Labels = map[string]string{"rack": rack} })
	}
	label("n1", "a")
	label("n2", "a")
	dc := networkv1alpha1.PhysicalNetwork{Name: "dc", Link: "eth1", NodeSelector: rack}
	spare := networkv1alpha1.PhysicalNetwork{Name: "spare", Link: "eth2"}
	physical(dc, spare)
	for _, node := range []string{"n1", "n2"} {
		w.wantPhysical(node, "dc eth1", "spare eth2")
		w.reportPhysical(node, networkv1alpha1.NodePhysicalNetworkStatus{Name: "dc", Ready: true, Bridge: "breth1"})
	}
	w.podNetwork("segment", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet,
		PhysicalNetwork: "dc", Subnets: subnets("10.100.0.0/24")})
	web := w.requesting("web", "n1", "segment")
	w.allocatedPorts("segment_default_web_net1")
	held := func(words ...string) {
		w.Helper()
		w.until(func() error {
			c := meta.FindStatusCondition(w.nodeNetwork("n1").Status.Conditions, networkv1alpha1.ConditionPhysicalNetworksCurrent)
			if len(words) == 0 && c == nil {
				return nil
			}
			lacks := func(word string) bool { return c == nil || !strings.Contains(c.Message, word) }
			if len(words) == 0 || slices.ContainsFunc(words, lacks) || c.Status != metav1.ConditionFalse {
				return fmt.Errorf("condition is %+v, want %q", c, words)
			}
			return nil
		})
	}
	names := []string{"dc (eth1)", "default/web@net1", "kubectl annotate clusternetwork default network.weft.dev/remove=default"}

	physical() // the entries are removed: a node without a pod gives both up, a node with a pod keeps one
	w.wantPhysical("n2")
	w.wantPhysical("n1", "dc eth1")
	held(names...)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, p := range s.Problems {
			if p.Reason == networkv1alpha1.ReasonPhysicalNetworksInUse && strings.Contains(p.Message, "default/web@net1") {
				return nil
			}
		}
		return fmt.Errorf("problems are %+v", s.Problems)
	})
	late := w.requesting("late", "n1", "segment")
	w.allocated("late", corev1.ConditionFalse, "node n1", "physical network dc", "no further pod")
	o.stop()
	o = w.start()
	o.settle()
	w.wantPhysical("n1", "dc eth1")
	w.allocatedPorts("segment_default_web_net1")

	physical(networkv1alpha1.PhysicalNetwork{Name: "dc", Link: "eth9"}) // another link
	w.wantPhysical("n2", "dc eth9")
	w.wantPhysical("n1", "dc eth1")
	physical(dc) // back
	held()
	w.allocated("late", corev1.ConditionTrue)
	w.delete(late)
	label("n1", "b") // the entry does not select the node any more
	held(names...)
	w.wantPhysical("n1", "dc eth1")
	w.delete(web)
	w.wantPhysical("n1")
	held()

	label("n1", "a")
	w.wantPhysical("n1", "dc eth1")
	w.requesting("again", "n1", "segment")
	w.allocatedPorts("segment_default_again_net1")
	physical()
	held("default/again@net1")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		metav1.SetMetaDataAnnotation(&cn.ObjectMeta, networkv1alpha1.ConfirmLossAnnotation, "default")
	})
	w.wantPhysical("n1")
	held()
}

// allocatedPorts waits until pods have these ports on Networks, and no others.
func (w *world) allocatedPorts(want ...string) {
	w.Helper()
	w.until(func() error {
		if have := slices.Sorted(maps.Keys(w.networkPorts())); !slices.Equal(have, want) {
			return fmt.Errorf("ports are %v, want %v", have, want)
		}
		return nil
	})
}

// A selector that cannot be read is in the ClusterNetwork's status, and nodes stay as they are.
func TestAnUnreadableSelectorOfAPhysicalNetwork(t *testing.T) {
	w := newWorld(t)
	w.start()
	cn := w.network(dualStack()...)
	w.join("n1")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.PhysicalNetworks = []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}
	})
	w.wantPhysical("n1", "dc eth1")
	patch(w, cn, func(cn *networkv1alpha1.ClusterNetwork) {
		cn.Spec.PhysicalNetworks[0].NodeSelector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Like"}}}
	})
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, p := range s.Problems {
			if p.Reason == networkv1alpha1.ReasonInvalidSpec && strings.Contains(p.Message, "spec.physicalNetworks[0].nodeSelector") {
				return nil
			}
		}
		return fmt.Errorf("problems are %+v", s.Problems)
	})
	w.wantPhysical("n1", "dc eth1")
}
