package health

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// constants returns the strings of the API's constants with a prefix, by name.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../apis/network/v1alpha1/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	found := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					found[spec.Names[0].Name] = text
				}
			}
			return true
		})
	}
	return found
}

// Each reason of the API has a next step. A reason of an object's condition is also judged: a new reason fails here until
// somebody has decided whether the owner of a namespace can cause it.
func TestEveryReasonIsJudged(t *testing.T) {
	good := []string{networkv1alpha1.ReasonAsExpected, networkv1alpha1.ReasonNotRequested,
		networkv1alpha1.ReasonNamespacesInUse, networkv1alpha1.ReasonAddressesKept} // with Ready True
	all := constants(t, "Reason")
	if len(all) < 90 {
		t.Fatalf("found %d reasons", len(all))
	}
	judged := map[string]bool{}
	for _, j := range judgements {
		for reason := range j.causes {
			judged[reason] = true
		}
	}
	for name, reason := range all {
		if _, has := nextSteps[reason]; !has && !slices.Contains(good, reason) {
			t.Errorf("%s has no next step", name)
		}
		if !judged[reason] && !slices.Contains(ofNetwork, reason) && !slices.Contains(good, reason) {
			t.Errorf("%s is in no judgement, and not a reason of ClusterNetwork or NodeNetworks", name)
		}
	}
}

// Each condition type of the API is judged, a stage of a node, or a summary.
func TestEveryConditionIsJudged(t *testing.T) {
	known := map[string]bool{networkv1alpha1.ConditionAvailable: true, networkv1alpha1.ConditionProgressing: true,
		networkv1alpha1.ConditionDegraded: true, networkv1alpha1.ConditionUpgradeable: true, networkv1alpha1.ConditionRemoving: true,
		networkv1alpha1.ConditionSubnetsFull: true}
	for _, stage := range stages {
		known[stage.condition] = true
	}
	for of := range judgements {
		known[of.condition] = true
	}
	for name, kind := range constants(t, "Condition") {
		if !known[kind] {
			t.Errorf("%s is not judged", name)
		}
	}
}

// A condition that is not good is a problem, or a request of a namespace, for each judgement.
func TestEveryJudgementNamesTheObject(t *testing.T) {
	for of, j := range judgements {
		for reason, why := range j.causes {
			o := Object{Kind: of.kind, Namespace: "demo", Name: "a",
				Conditions: []metav1.Condition{{Type: of.condition, Status: metav1.ConditionFalse, Reason: reason, Message: "words"}}}
			problems, requests := o.Problems()
			if len(problems) != count(why == broken || why == underway) || len(requests) != count(why == requested) {
				t.Errorf("%s of %s: problems %v, requests %v", reason, of.kind, problems, requests)
			}
			for _, p := range append(problems, requests...) {
				if p.Object != of.kind+"/demo/a" || p.Message != "words" || p.NextStep == "" || strings.Contains(p.NextStep, "NODE") {
					t.Errorf("%s of %s is reported as %+v", reason, of.kind, p)
				}
			}
		}
	}
}

// Each condition that is a problem or a request waits, since its last transition.
func TestEveryJudgementWaits(t *testing.T) {
	since := metav1.Unix(1_000_000, 0)
	for of, j := range judgements {
		for reason, why := range j.causes {
			o := Object{Kind: of.kind, Conditions: []metav1.Condition{
				{Type: of.condition, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: since},
				{Type: of.condition, Status: metav1.ConditionTrue}, {Type: "Foreign", Status: metav1.ConditionFalse}}}
			want := []Wait{{Kind: of.kind, Type: of.condition, Reason: reason, Since: since, Underway: why == underway}}
			if why == intended {
				want = nil
			}
			if got := Waits([]Object{o}); !slices.Equal(got, want) {
				t.Errorf("%s of %s: %+v", reason, of.kind, got)
			}
		}
	}
}

func count(one bool) int {
	if one {
		return 1
	}
	return 0
}

// ofNetwork are the reasons of the ClusterNetwork and of NodeNetworks.
var ofNetwork = []string{
	networkv1alpha1.ReasonAddressConflict, networkv1alpha1.ReasonAddressesExhausted, networkv1alpha1.ReasonAgentStarting,
	networkv1alpha1.ReasonAgentUnavailable, networkv1alpha1.ReasonCheckFailed, networkv1alpha1.ReasonChangesNotInstalled,
	networkv1alpha1.ReasonControllerUnavailable,
	networkv1alpha1.ReasonDatabaseError, networkv1alpha1.ReasonDatabaseUnavailable, networkv1alpha1.ReasonDrift,
	networkv1alpha1.ReasonFinalizersRemain, networkv1alpha1.ReasonForeignChanges, networkv1alpha1.ReasonForwardingBlocked,
	networkv1alpha1.ReasonHostError, networkv1alpha1.ReasonIPv4Exhausted,
	networkv1alpha1.ReasonIPv6Exhausted, networkv1alpha1.ReasonInvariantViolated, networkv1alpha1.ReasonMTUMismatch,
	networkv1alpha1.ReasonMemberUnavailable, networkv1alpha1.ReasonMembersConflict, networkv1alpha1.ReasonMembersLeaving,
	networkv1alpha1.ReasonMembersStarting, networkv1alpha1.ReasonMembersUnplaced, networkv1alpha1.ReasonNetworkLeaving,
	networkv1alpha1.ReasonNetworkOverlapsNodes, networkv1alpha1.ReasonNoIKEDaemon, networkv1alpha1.ReasonNoIdentity,
	networkv1alpha1.ReasonNoPortAddress, networkv1alpha1.ReasonNoUplink, networkv1alpha1.ReasonNodeLost, networkv1alpha1.ReasonNodesNotReady,
	networkv1alpha1.ReasonNorthdSilent, networkv1alpha1.ReasonNotReady, networkv1alpha1.ReasonOtherConfiguration,
	networkv1alpha1.ReasonPeersNotEncrypted, networkv1alpha1.ReasonPhysicalNetworkMissing,
	networkv1alpha1.ReasonPhysicalNetworksInUse, networkv1alpha1.ReasonPodsOutdated,
	networkv1alpha1.ReasonPodsRemain, networkv1alpha1.ReasonQuorumLost, networkv1alpha1.ReasonRelayUnavailable,
	networkv1alpha1.ReasonRelaysLost, networkv1alpha1.ReasonRelaysStarting, networkv1alpha1.ReasonRelaysUnplaced,
	networkv1alpha1.ReasonRemoving, networkv1alpha1.ReasonRemovingOperands, networkv1alpha1.ReasonServiceNetworkMismatch,
	networkv1alpha1.ReasonSubnetsExhausted, networkv1alpha1.ReasonSwitchUnavailable, networkv1alpha1.ReasonTooManyAddresses,
	networkv1alpha1.ReasonTunnelSilent, networkv1alpha1.ReasonUnsupportedDatapath, networkv1alpha1.ReasonUpgradeBlocked,
	networkv1alpha1.ReasonUpgradeStopped, networkv1alpha1.ReasonUpgrading, networkv1alpha1.ReasonUplinkMoving,
	networkv1alpha1.ReasonGatewayWaiting, networkv1alpha1.ReasonGatewayStopped,
	networkv1alpha1.ReasonUplinkRefused, networkv1alpha1.ReasonUplinkRolledBack, networkv1alpha1.ReasonUplinkWaiting,
	networkv1alpha1.ReasonVersionsDiffer, networkv1alpha1.ReasonWaitingForAgent, networkv1alpha1.ReasonWaitingForChassis,
	networkv1alpha1.ReasonWaitingForConfirmation, networkv1alpha1.ReasonWaitingForSpec,
	networkv1alpha1.ReasonWaitingForTopology, networkv1alpha1.ReasonZoneStarting, networkv1alpha1.ReasonZoneUnavailable,
}
