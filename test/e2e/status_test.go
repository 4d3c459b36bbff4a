//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestStatusReportsReadyNetwork(t *testing.T) {
	nodes, err := bed.Nodes()
	must(t, err)
	for _, n := range nodes {
		bed.run(t, bed.peerPod("status-"+n.Name, n.Name))
		eventually(t, convergence, func() error { return nodeReady(t, n.Name) })
	}
	eventually(t, convergence, func() error { return clusterReady(t, len(nodes)) })
	bed.awaitConsistent(t) // this includes the counts
}

func nodeReady(t *testing.T, name string) error {
	var node corev1.Node
	var nn networkv1alpha1.NodeNetwork
	key := types.NamespacedName{Name: name}
	if err := errors.Join(bed.api.Get(t.Context(), key, &node), bed.api.Get(t.Context(), key, &nn)); err != nil {
		return err
	}
	want := map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeNetworkUnavailable: corev1.ConditionFalse,
	}
	for _, c := range node.Status.Conditions {
		if want[c.Type] == c.Status {
			delete(want, c.Type)
		}
	}
	switch {
	case len(want) > 0:
		return fmt.Errorf("node %s lacks conditions %v", name, want)
	case node.Spec.PodCIDR != "" || len(node.Spec.PodCIDRs) > 0:
		return fmt.Errorf("node %s has podCIDR %s, which Weft must not set", name, node.Spec.PodCIDR)
	case len(nn.Spec.PodSubnets) != 2 || len(nn.Spec.Gateways) != 2:
		return fmt.Errorf("NodeNetwork %s has subnets %v and gateways %v", name, nn.Spec.PodSubnets, nn.Spec.Gateways)
	case nn.Status.ObservedGeneration != nn.Generation:
		return fmt.Errorf("NodeNetwork %s reports generation %d, want %d", name, nn.Status.ObservedGeneration, nn.Generation)
	}
	for _, condition := range []string{networkv1alpha1.ConditionReady, networkv1alpha1.ConditionTopologyReady,
		networkv1alpha1.ConditionOVSReady, networkv1alpha1.ConditionControllerReady,
		networkv1alpha1.ConditionManagementPortReady, networkv1alpha1.ConditionCNIReady} {
		if !meta.IsStatusConditionTrue(nn.Status.Conditions, condition) {
			return fmt.Errorf("NodeNetwork %s is not %s: %+v", name, condition, nn.Status.Conditions)
		}
	}
	return nil
}

func clusterReady(t *testing.T, nodes int) error {
	var cn networkv1alpha1.ClusterNetwork
	if err := bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return err
	}
	s := cn.Status
	want := networkv1alpha1.NodeCounts{Total: int32(nodes), Ready: int32(nodes)}
	switch {
	case s.Nodes != want || s.NodesReady != fmt.Sprintf("%d/%d", nodes, nodes):
		return fmt.Errorf("ClusterNetwork counts nodes as %+v (%s), want %d", s.Nodes, s.NodesReady, nodes)
	case !meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionReady),
		!meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionAvailable),
		!meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionUpgradeable),
		!meta.IsStatusConditionFalse(s.Conditions, networkv1alpha1.ConditionProgressing),
		len(s.Problems) > 0, len(s.Areas) != 6,
		!meta.IsStatusConditionFalse(s.Conditions, networkv1alpha1.ConditionDegraded):
		return fmt.Errorf("ClusterNetwork: %+v, problems %+v", s.Conditions, s.Problems)
	case s.Computed == nil || len(s.Computed.ClusterNetwork) == 0 || s.Computed.ClusterNetwork[0].HostPrefix == 0 ||
		s.Computed.MTU != s.MTU:
		return fmt.Errorf("ClusterNetwork computes %+v", s.Computed)
	case s.ObservedGeneration != cn.Generation:
		return fmt.Errorf("ClusterNetwork reports generation %d, want %d", s.ObservedGeneration, cn.Generation)
	}
	return versionsReported(s.Versions)
}

// versionsReported returns nil if the status has the version of each component of the product on the nodes, and of
// ovn-northd if the product brings the databases.
func versionsReported(reported []networkv1alpha1.ComponentVersion) error {
	want, have := []string{"operator", "agent", "openvswitch", "ovn-controller"}, []string{}
	if bed.bare {
		want = append(want, "ovn-northd")
	}
	for _, c := range reported {
		if have = append(have, c.Name); c.Version == "" {
			return fmt.Errorf("ClusterNetwork has versions %+v", reported)
		}
	}
	return same("components with a version", want, have)
}
