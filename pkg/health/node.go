package health

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// waiting lists the reasons of conditions that wait for another component at work. A condition that keeps waiting
// stays in the list of problems, as progress.
var waiting = []string{
	networkv1alpha1.ReasonWaitingForSpec, networkv1alpha1.ReasonWaitingForAgent, networkv1alpha1.ReasonWaitingForChassis,
	networkv1alpha1.ReasonWaitingForTopology, networkv1alpha1.ReasonUplinkWaiting, networkv1alpha1.ReasonUplinkMoving,
	networkv1alpha1.ReasonGatewayWaiting, networkv1alpha1.ReasonPhysicalNetworksInUse, networkv1alpha1.ReasonNotReady,
}

// nodeNetwork is the prefix of the objects that agents report problems of.
const nodeNetwork = "NodeNetwork/"

func waits(reason string) bool { return slices.Contains(waiting, reason) }

// stages are the conditions of a NodeNetwork that report failures, with their areas. Each may fail because an earlier
// one does.
var stages = []struct {
	condition string
	area      networkv1alpha1.AreaName
}{
	{networkv1alpha1.ConditionOVSReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionControllerReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionTopologyReady, networkv1alpha1.AreaTopology},
	{networkv1alpha1.ConditionManagementPortReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionCNIReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionGatewayAccepted, networkv1alpha1.AreaTopology},
	{networkv1alpha1.ConditionGatewayReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionGatewayCurrent, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionPhysicalNetworksReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionPhysicalNetworksCurrent, networkv1alpha1.AreaTopology},
	{networkv1alpha1.ConditionInterfacesReady, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionRoutesAnnounced, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionWildcardsObserved, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionTunnelsEncrypted, networkv1alpha1.AreaNodes},
	{networkv1alpha1.ConditionAddressesFree, networkv1alpha1.AreaAddresses},
}

// Node lists the problems in the conditions of a NodeNetwork, the worst first.
func Node(name string, conditions []metav1.Condition) []networkv1alpha1.Problem {
	object := nodeNetwork + name
	var found []networkv1alpha1.Problem
	for _, stage := range stages {
		c, ok := find(conditions, stage.condition)
		if !ok || c.Status != metav1.ConditionFalse {
			continue
		}
		if c.Reason == networkv1alpha1.ReasonNotReady && len(found) > 0 {
			continue // it waits for a stage in the list
		}
		state := networkv1alpha1.StateDegraded
		if waits(c.Reason) {
			state = networkv1alpha1.StateProgressing
		}
		found = append(found, New(stage.area, state, c.Reason, object, c.Type+": "+c.Message))
	}
	if c, ok := find(conditions, networkv1alpha1.ConditionSubnetsFull); ok && c.Status == metav1.ConditionTrue {
		found = append(found, New(networkv1alpha1.AreaAddresses, networkv1alpha1.StateProgressing, c.Reason, object, c.Type+": "+c.Message))
	}
	return Sort(found)
}

// NodeConditions returns the conditions of a NodeNetwork that sum up its problems. ready is the condition Ready.
func NodeConditions(problems []networkv1alpha1.Problem, ready metav1.Condition) []metav1.Condition {
	problems = slices.Clone(problems)
	for i := range problems {
		problems[i].Object = "" // the status belongs to this object
	}
	available := ready
	available.Type = networkv1alpha1.ConditionAvailable
	return []metav1.Condition{available, Progressing(problems), Degraded(problems), Upgradeable(problems)}
}
