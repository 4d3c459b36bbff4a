package clusternetwork

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovndb"
)

// namedNodes bounds the nodes that a condition's message names.
const namedNodes = 5

// statusInput is what the status is computed from.
type statusInput struct {
	plan      facts.Plan
	invalid   error // the spec cannot be applied
	applied   error // the database refused it
	connected bool
	nodes     []corev1.Node
	networks  []networkv1alpha1.NodeNetwork
	used      func(network netip.Prefix) (used int64, ok bool)
	drift     *networkv1alpha1.DriftStatus // nil if there was never any
	mtu       string                       // mismatch of the links' MTU, or empty
	services  string                       // difference to the API server's service networks, or empty
	// violations are the violated invariants.
	violations []invariant.Violation
	refused    error     // why this process must not write the connected database
	unwritable bool      // its server cannot write its file
	silent     string    // request to which ovn-northd does not respond, or empty
	late       time.Time // since when not every chassis has acknowledged the changes, or zero
	// node -> its agent's pod; empty if agents do not run in pods of this installation
	agents      map[string]agentState
	version     string // of the operator; may be empty
	rollout     *networkv1alpha1.RolloutStatus
	databases   *networkv1alpha1.DatabasesStatus // nil with one member, or for databases outside Weft
	relays      []networkv1alpha1.RelayStatus
	wanted      int32 // the number of relays
	wantedZones []networkv1alpha1.Zone
	zones       []networkv1alpha1.ZoneStatus
	objects     []health.Object // with conditions of Weft, sorted; of pods and services only those with a problem
	unreached   []string        // nodes that do not respond to the operator through the network
	held        string          // why networks of the spec are held, or empty
	apiServers  []discoveryv1.EndpointSlice
	leaving     []string                      // networks that were removed from the spec and are in use
	outdated    *networkv1alpha1.OutdatedPods // pods whose addresses differ from a new pod's; may be nil
	// what the removal of the network waits for; nil if the ClusterNetwork is not being deleted
	removing *metav1.Condition
	gateway  networkv1alpha1.Gateway // of the spec
}

// status computes the ClusterNetwork's status.
func status(cn *networkv1alpha1.ClusterNetwork, f statusInput) networkv1alpha1.ClusterNetworkStatus {
	want := *cn.Status.DeepCopy()
	want.ObservedGeneration = cn.Generation
	want.MTU = facts.ClusterMTU(cn, facts.CarriedMTUs(cn.Spec.Encapsulation.Encryption, f.networks))
	ready, waiting := countReady(f.nodes, f.networks)
	want.Nodes = networkv1alpha1.NodeCounts{Total: int32(len(f.nodes)), Ready: int32(ready)}
	want.NodesReady = fmt.Sprintf("%d/%d", ready, len(f.nodes))
	if counts, free, ok := addresses(f); ok {
		want.Addresses, want.AddressesFree = counts, free
	}
	want.Drift, want.Refused, want.OutdatedPods = f.drift, refusals(f.objects), f.outdated
	f.removing, f.gateway = health.RemovalOf(cn), cn.Spec.Gateway
	problems := problemsOf(cn.Name, f)
	want.Areas, want.Problems = health.Areas(problems, well(want)), problems[:min(len(problems), networkv1alpha1.MaxProblems)]
	want.Computed, want.Versions = computed(cn.Spec, want.MTU), versions(cn.Status.Versions, f)
	degraded := health.Degraded(problems)
	for _, condition := range []metav1.Condition{readyCondition(f, waiting), availableCondition(problems, ready, waiting),
		health.Progressing(problems), degraded, health.Upgradeable(problems)} {
		if f.removing != nil {
			condition = health.WhileRemoving(condition, *f.removing)
		}
		condition.ObservedGeneration = cn.Generation
		meta.SetStatusCondition(&want.Conditions, condition)
	}
	setRemoving(&want.Conditions, f.removing, cn.Generation)
	return want
}

// setRemoving sets or removes the condition Removing. It copies the condition that weft-operands wrote.
func setRemoving(conditions *[]metav1.Condition, removing *metav1.Condition, generation int64) {
	if removing == nil {
		meta.RemoveStatusCondition(conditions, networkv1alpha1.ConditionRemoving)
		return
	}
	c := *removing
	if c.ObservedGeneration == 0 {
		c.ObservedGeneration = generation
	}
	meta.SetStatusCondition(conditions, c)
}

func readyCondition(f statusInput, waiting []string) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case f.invalid != nil:
		c.Reason, c.Message = invalidReason(f.invalid), f.invalid.Error()
	case f.applied != nil:
		c.Reason, c.Message = databaseReason(f.applied), f.applied.Error()
	case !f.connected:
		c.Reason, c.Message = networkv1alpha1.ReasonDatabaseUnavailable,
			"the OVN northbound database is not connected; existing pods keep their network"
	case len(waiting) > 0:
		c.Reason, c.Message = networkv1alpha1.ReasonNodesNotReady, "not ready: "+nameSome(waiting)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected, "the network of every node is ready"
	}
	return c
}

// rolledBack names the nodes whose move was rolled back, and the nodes that wait behind them.
func rolledBack(networks []networkv1alpha1.NodeNetwork) string {
	var failed []string
	for i := range networks {
		if text := facts.RolledBack(&networks[i]); text != "" {
			failed = append(failed, text)
		}
	}
	if len(failed) == 0 {
		return ""
	}
	slices.Sort(failed)
	text := failed[0]
	if len(failed) > 1 {
		text += fmt.Sprintf(", and %d more", len(failed)-1)
	}
	if waiting := facts.WaitingToMove(networks); len(waiting) > 0 {
		text += "; until that is settled these nodes do not move their links: " + nameSome(waiting)
	}
	return text
}

// stoppedGateway names the nodes on which a changed gateway does not work, and the nodes that keep their former gateway for that reason.
func stoppedGateway(gateway networkv1alpha1.Gateway, nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) string {
	labelsOf := make(map[string]labels.Set, len(nodes))
	for i := range nodes {
		labelsOf[nodes[i].Name] = nodes[i].Labels
	}
	var failed, waiting, fields []string
	for i := range networks {
		nn := &networks[i]
		if text := facts.FailedGateway(nn); text != "" {
			failed = append(failed, text)
		}
		wanted, err := facts.NodeGateway(gateway, labelsOf[nn.Name])
		if err != nil {
			return "" // all nodes stay unchanged
		}
		if changed := facts.GatewayChange(nn.Spec.Gateway, wanted); len(changed) > 0 && nn.Spec.Gateway.Mode != "" {
			waiting = append(waiting, nn.Name)
			fields = append(fields, changed...)
		}
	}
	if len(failed) == 0 || len(waiting) == 0 {
		return ""
	}
	for _, list := range [][]string{failed, waiting, fields} {
		slices.Sort(list)
	}
	return fmt.Sprintf("the changed %s of spec.gateway: %s; until that is settled these nodes keep their former gateway: %s",
		strings.Join(slices.Compact(fields), ", "), nameSome(failed), nameSome(waiting))
}

// databaseReason returns the reason for a refusal of the database.
func databaseReason(err error) string {
	var old *ovndb.SchemaError
	if errors.As(err, &old) {
		return networkv1alpha1.ReasonDatabaseSchemaTooOld
	}
	return networkv1alpha1.ReasonDatabaseError
}

// standingDrift describes the standing drift by its latest example.
func standingDrift(drift *networkv1alpha1.DriftStatus) string {
	for _, item := range drift.Items {
		switch item.State {
		case networkv1alpha1.DriftCollision:
			return fmt.Sprintf(
				"the OVN northbound database has %d differences; row %s of %s is not Weft's and has the name of a row of %s",
				drift.Standing, item.Row, item.Table, item.Owner)
		case networkv1alpha1.DriftStanding:
			return fmt.Sprintf(
				"the OVN northbound database has %d differences, which drift.mode leaves as they are; the latest "+
					"is row %s of %s, of %s", drift.Standing, item.Row, item.Table, item.Owner)
		}
	}
	return fmt.Sprintf("the OVN northbound database has %d differences", drift.Standing)
}

// countReady returns how many nodes are ready and the names of the others, sorted.
func countReady(nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) (ready int, waiting []string) {
	byName := make(map[string]bool, len(networks)) // node -> its network is ready
	for i := range networks {
		byName[networks[i].Name] = isReady(networks[i].Status.Conditions)
	}
	for i := range nodes {
		switch name := nodes[i].Name; {
		case facts.IsSilent(&nodes[i]):
			waiting = append(waiting, name+" (kubelet is silent)")
		case byName[name]:
			ready++
		default:
			waiting = append(waiting, name)
		}
	}
	slices.Sort(waiting)
	return ready, waiting
}

func isReady(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, networkv1alpha1.ConditionReady)
}

func nameSome(names []string) string {
	if len(names) <= namedNodes {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedNodes], ", "), len(names)-namedNodes)
}

// addresses counts the addresses of each cluster network, and describes the free ones in words. ok is false until
// they are known.
func addresses(f statusInput) (counts []networkv1alpha1.NetworkAddresses, free string, ok bool) {
	var texts []string
	for _, cluster := range f.plan.Clusters {
		total := cluster.Total()
		used, ok := f.used(cluster.CIDR)
		if !ok {
			return nil, "", false
		}
		count := networkv1alpha1.AddressCounts{Total: total, Used: used, Free: total - used}
		counts = append(counts, networkv1alpha1.NetworkAddresses{CIDR: networkv1alpha1.CIDR(cluster.CIDR.String()), AddressCounts: count})
		texts = append(texts, cluster.CIDR.String()+": "+freeText(count.Free, cluster))
	}
	return counts, strings.Join(texts, ", "), len(counts) > 0
}

// freeText abbreviates numbers that are too large to matter.
func freeText(free int64, network ipam.Network) string {
	if network.CIDR.Addr().Is6() && free > 1<<32 {
		return "plenty"
	}
	return fmt.Sprint(free)
}
