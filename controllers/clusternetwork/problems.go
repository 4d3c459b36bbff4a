package clusternetwork

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
)

// problemsOf lists the problems, the worst first. Of two equally bad problems, the possible cause of the other is
// first.
func problemsOf(name string, f statusInput) []networkv1alpha1.Problem {
	nodes := nodeProblems(f)
	unready, besides := nodes.unready, nodes.besides
	all := slices.Concat(removalProblems(name, f), databaseProblems(name, f), memberProblems(f.databases, f.zones),
		relayProblems(f), zoneProblems(f.wantedZones, f.zones, f.networks), specProblems(name, f), overlapProblems(name, f),
		unready, lateProblems(name, f, len(unready) > 0), driftProblems(name, f), fitProblems(name, f), tunnelProblems(f), besides,
		objectProblems(f), rollout(f), changeProblems(name, f))
	return health.Sort(health.Together(all))
}

// removalProblems reports that the network is being removed.
func removalProblems(name string, f statusInput) []networkv1alpha1.Problem {
	if f.removing == nil {
		return nil
	}
	return []networkv1alpha1.Problem{health.RemovalProblem("ClusterNetwork/"+name, *f.removing)}
}

// databaseProblems lists the problems of the two databases and of ovn-northd between them.
func databaseProblems(name string, f statusInput) (found []networkv1alpha1.Problem) {
	const state = networkv1alpha1.StateUnavailable
	switch {
	case f.refused != nil:
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state, databaseReason(f.refused),
			"ClusterNetwork/"+name, f.refused.Error()))
	case !f.connected && f.unwritable:
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state,
			networkv1alpha1.ReasonDatabaseUnavailable, "ClusterNetwork/"+name,
			"the server of the OVN northbound database cannot write its file, as on a full disk; existing pods keep their network"))
	case !f.connected:
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state,
			networkv1alpha1.ReasonDatabaseUnavailable, "ClusterNetwork/"+name,
			"the OVN northbound database is not connected; existing pods keep their network"))
	}
	if f.southboundAway() {
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state,
			networkv1alpha1.ReasonDatabaseUnavailable, "ClusterNetwork/"+name,
			"no agent reaches the OVN southbound database; existing pods keep their network"))
	}
	if f.silent != "" {
		found = append(found, health.New(networkv1alpha1.AreaControlPlane, state, networkv1alpha1.ReasonNorthdSilent,
			"ClusterNetwork/"+name, f.silent))
	}
	return found
}

// lateProblems reports that changes do not take effect on every node although all are ready. The chassis of a node that is not ready
// acknowledges nothing either, so explained leaves it out.
func lateProblems(name string, f statusInput, explained bool) []networkv1alpha1.Problem {
	if f.late.IsZero() || explained || !f.connected || f.silent != "" {
		return nil
	}
	message := fmt.Sprintf("not every ovn-controller has installed the changes since %s, although all nodes are ready: "+
		"new pods, policies and endpoints may have no effect yet", f.late.UTC().Format(time.RFC3339))
	return []networkv1alpha1.Problem{health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateDegraded,
		networkv1alpha1.ReasonChangesNotInstalled, "ClusterNetwork/"+name, message)}
}

// specProblems lists why the spec is not in force.
func specProblems(name string, f statusInput) (found []networkv1alpha1.Problem) {
	const state = networkv1alpha1.StateDegraded
	object := "ClusterNetwork/" + name
	if f.invalid != nil {
		found = append(found, health.New(networkv1alpha1.AreaTopology, state, invalidReason(f.invalid), object, f.invalid.Error()))
	}
	if f.applied != nil && f.refused == nil {
		found = append(found, health.New(networkv1alpha1.AreaTopology, state, databaseReason(f.applied), object, f.applied.Error()))
	}
	if exhausted := exhaustedNetworks(f); len(exhausted) > 0 {
		found = append(found, health.New(networkv1alpha1.AreaAddresses, state, networkv1alpha1.ReasonSubnetsExhausted,
			object, strings.Join(exhausted, "; ")))
	}
	return found
}

func driftProblems(name string, f statusInput) []networkv1alpha1.Problem {
	if f.drift == nil || f.drift.Standing == 0 {
		return nil
	}
	return []networkv1alpha1.Problem{health.New(networkv1alpha1.AreaDrift, networkv1alpha1.StateDegraded,
		networkv1alpha1.ReasonDrift, "ClusterNetwork/"+name, standingDrift(f.drift))}
}

// fitProblems lists settings that do not match each other.
func fitProblems(name string, f statusInput) (found []networkv1alpha1.Problem) {
	violated := ""
	if len(f.violations) > 0 {
		violated = describeViolations(f.violations)
	}
	for _, p := range []struct {
		area            networkv1alpha1.AreaName
		reason, message string
	}{
		{networkv1alpha1.AreaNodes, networkv1alpha1.ReasonUplinkRolledBack, rolledBack(f.networks)},
		{networkv1alpha1.AreaNodes, networkv1alpha1.ReasonGatewayStopped, stoppedGateway(f.gateway, f.nodes, f.networks)},
		{networkv1alpha1.AreaTopology, networkv1alpha1.ReasonMTUMismatch, f.mtu},
		{networkv1alpha1.AreaTopology, networkv1alpha1.ReasonServiceNetworkMismatch, f.services},
		{networkv1alpha1.AreaTopology, networkv1alpha1.ReasonInvariantViolated, violated},
	} {
		if p.message != "" {
			found = append(found, health.New(p.area, networkv1alpha1.StateDegraded, p.reason, "ClusterNetwork/"+name, p.message))
		}
	}
	return found
}

// ofNodes are the problems of nodes: those which make a node unready, and the others.
type ofNodes struct{ unready, besides []networkv1alpha1.Problem }

// nodeProblems lists the problems of each node, sorted by the nodes' names.
func nodeProblems(f statusInput) (found ofNodes) {
	byName := f.byName()
	away := f.southboundAway()
	nodes := slices.Clone(f.nodes)
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range nodes {
		name := nodes[i].Name
		if facts.IsSilent(&nodes[i]) {
			found.unready = append(found.unready, health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded,
				networkv1alpha1.ReasonNodeLost, "Node/"+name,
				fmt.Sprintf("Kubernetes receives no heartbeats from the kubelet of node %s", name)))
			continue // its agent's last report may be outdated
		}
		if p, bad := f.agentProblem(name); bad {
			found.unready = append(found.unready, p)
		}
		nn := byName[name]
		if nn == nil && f.invalid == nil && f.plan.OverlapOfNode(&nodes[i]) != "" {
			continue // it gets no network, so that its agent has nothing to report
		}
		if nn == nil || len(nn.Status.Conditions) == 0 || nn.Status.Chassis == "" && !isReady(nn.Status.Conditions) &&
			meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionReady) == nil {
			found.unready = append(found.unready, health.New(networkv1alpha1.AreaNodes,
				networkv1alpha1.StateProgressing, networkv1alpha1.ReasonWaitingForAgent, "Node/"+name,
				fmt.Sprintf("the agent of node %s has not reported yet", name)))
			continue
		}
		for _, p := range health.Node(name, nn.Status.Conditions) {
			if p.Reason == networkv1alpha1.ReasonWaitingForChassis {
				p.Message += f.sharedAddress(nn)
			}
			switch {
			case p.Reason == networkv1alpha1.ReasonUplinkRolledBack, away && p.Reason == networkv1alpha1.ReasonDatabaseUnavailable:
				// reported once for all nodes
			case isReady(nn.Status.Conditions):
				found.besides = append(found.besides, p)
			default:
				found.unready = append(found.unready, p)
			}
		}
	}
	return found
}

// sharedAddress says which other node has a node's tunnel address. The southbound database accepts an address only once, so the younger
// node gets no chassis.
func (f statusInput) sharedAddress(nn *networkv1alpha1.NodeNetwork) string {
	for i := range f.networks {
		if other := &f.networks[i]; other.Name != nn.Name && other.Status.EncapIP != "" && other.Status.EncapIP == nn.Status.EncapIP {
			return fmt.Sprintf("; node %s has the same address %s: if its machine is gone, delete Node %[1]s", other.Name, other.Status.EncapIP)
		}
	}
	return ""
}

func (f statusInput) byName() map[string]*networkv1alpha1.NodeNetwork {
	found := make(map[string]*networkv1alpha1.NodeNetwork, len(f.networks))
	for i := range f.networks {
		found[f.networks[i].Name] = &f.networks[i]
	}
	return found
}

// southboundAway reports whether every reporting node fails to reach the southbound database. Then the database is
// the cause, not the nodes.
func (f statusInput) southboundAway() bool {
	byName, speaking := f.byName(), 0
	for i := range f.nodes {
		nn := byName[f.nodes[i].Name]
		if nn == nil || facts.IsSilent(&f.nodes[i]) {
			continue
		}
		c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionControllerReady)
		if c == nil {
			continue
		}
		if c.Status != metav1.ConditionFalse || c.Reason != networkv1alpha1.ReasonDatabaseUnavailable {
			return false
		}
		speaking++
	}
	return speaking > 0
}

// availableCondition returns the condition Available. A network without a ready node is not available, whatever the
// reason.
func availableCondition(problems []networkv1alpha1.Problem, ready int, waiting []string) metav1.Condition {
	c := health.Available(problems)
	if c.Status == metav1.ConditionTrue && ready == 0 && len(waiting) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, networkv1alpha1.ReasonNodesNotReady, "no node is ready: "+nameSome(waiting)
	}
	return c
}

// well returns the sentence of each area without a problem.
func well(s networkv1alpha1.ClusterNetworkStatus) map[networkv1alpha1.AreaName]string {
	repaired := "no foreign changes of the northbound database"
	if s.Drift != nil {
		repaired = fmt.Sprintf("%d foreign changes were repaired", s.Drift.Total)
	}
	return map[networkv1alpha1.AreaName]string{
		networkv1alpha1.AreaDatabases:    "the northbound database is connected, and agents reach the southbound one",
		networkv1alpha1.AreaControlPlane: "the operator leads",
		networkv1alpha1.AreaNodes:        fmt.Sprintf("%s nodes are ready", s.NodesReady),
		networkv1alpha1.AreaTopology:     "the northbound database has all required rows",
		networkv1alpha1.AreaAddresses:    "free: " + s.AddressesFree,
		networkv1alpha1.AreaDrift:        repaired,
	}
}
