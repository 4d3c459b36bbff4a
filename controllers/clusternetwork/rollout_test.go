package clusternetwork

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A continuing rollout is progress. A stopped rollout is a failure, which names the object. Agents of another version
// are reported only if no rollout explains them.
func TestRolloutInConditions(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	nn.Status.Chassis, nn.Status.AgentVersion = "n1", "v1"
	nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: yes}}
	for state, want := range map[networkv1alpha1.RolloutState]struct {
		progressing, degraded, upgradeable metav1.ConditionStatus
		reason                             string
	}{
		networkv1alpha1.RolloutProgressing: {yes, no, no, networkv1alpha1.ReasonUpgrading},
		networkv1alpha1.RolloutStopped:     {no, yes, no, networkv1alpha1.ReasonUpgradeStopped},
		networkv1alpha1.RolloutBlocked:     {no, yes, no, networkv1alpha1.ReasonUpgradeBlocked},
		networkv1alpha1.RolloutComplete:    {yes, no, no, networkv1alpha1.ReasonVersionsDiffer},
	} {
		r := &networkv1alpha1.RolloutStatus{State: state, Version: "v2", Stage: networkv1alpha1.StageCanary,
			Object: "Node/n1", Message: "10.1.2.3 does not answer", Nodes: 3, Northd: "25.03.0"}
		s := status(&networkv1alpha1.ClusterNetwork{},
			statusInput{connected: true, version: "v2", rollout: r,
				nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}, networks: []networkv1alpha1.NodeNetwork{nn}})
		for kind, want := range map[string]metav1.ConditionStatus{networkv1alpha1.ConditionProgressing: want.progressing,
			networkv1alpha1.ConditionDegraded: want.degraded, networkv1alpha1.ConditionUpgradeable: want.upgradeable} {
			if c := meta.FindStatusCondition(s.Conditions, kind); c == nil || c.Status != want {
				t.Errorf("%s: %s is %+v, want %s", state, kind, c, want)
			}
		}
		if len(s.Problems) != 1 || s.Problems[0].Reason != want.reason || s.Problems[0].NextStep == "" {
			t.Errorf("%s: problems %+v, want %s", state, s.Problems, want.reason)
		} else if reported := strings.Contains(s.Problems[0].Message,
			"0 of 3 nodes done: Node/n1: 10.1.2.3 does not answer"); reported != (state != networkv1alpha1.RolloutComplete) {
			t.Errorf("%s: %s", state, s.Problems[0].Message)
		}
		if got := s.Versions[len(s.Versions)-1]; got.Name != "ovn-northd" || got.Version != "25.03.0" {
			t.Errorf("versions %v", s.Versions)
		}
	}
}
