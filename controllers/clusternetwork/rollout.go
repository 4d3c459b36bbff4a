package clusternetwork

import (
	"fmt"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
)

// upgrades maps the state of an incomplete rollout to its problem.
var upgrades = map[networkv1alpha1.RolloutState]struct {
	state  networkv1alpha1.AreaState
	reason string
}{
	networkv1alpha1.RolloutProgressing: {networkv1alpha1.StateProgressing, networkv1alpha1.ReasonUpgrading},
	networkv1alpha1.RolloutBlocked:     {networkv1alpha1.StateDegraded, networkv1alpha1.ReasonUpgradeBlocked},
	networkv1alpha1.RolloutStopped:     {networkv1alpha1.StateDegraded, networkv1alpha1.ReasonUpgradeStopped},
}

// upgrade returns the problem of a rollout. of is false without a rollout. While a rollout continues, differing
// versions are not a problem of their own.
func upgrade(r *networkv1alpha1.RolloutStatus) (p networkv1alpha1.Problem, of bool) {
	if r == nil {
		return p, false
	}
	u, of := upgrades[r.State]
	if !of {
		return p, false
	}
	return health.New(networkv1alpha1.AreaControlPlane, u.state, u.reason, r.Object, r.Text()), true
}

// rollout lists the agents of another version than the operator's. Both versions work together, but only for a
// transition.
func rollout(f statusInput) []networkv1alpha1.Problem {
	if p, of := upgrade(f.rollout); of {
		return []networkv1alpha1.Problem{p}
	}
	if f.version == "" {
		return nil
	}
	byName := f.byName()
	var others []string
	for i := range f.nodes {
		nn := byName[f.nodes[i].Name]
		if nn == nil || nn.Status.Chassis == "" || facts.IsSilent(&f.nodes[i]) || nn.Status.AgentVersion == f.version {
			continue
		}
		others = append(others, fmt.Sprintf("%s (%s)", nn.Name, orUnknown(nn.Status.AgentVersion)))
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return []networkv1alpha1.Problem{health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateProgressing,
		networkv1alpha1.ReasonVersionsDiffer, "DaemonSet/weft-agent",
		fmt.Sprintf("%d of %d agents do not have the operator's version %s: %s", len(others), len(f.nodes), f.version, nameSome(others)))}
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}
