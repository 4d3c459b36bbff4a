package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
)

// namedNodes bounds the nodes that a condition's message names.
const namedNodes = 5

// facts are what the status is computed from.
type facts struct {
	plan      topology.Plan
	invalid   error // the spec cannot be applied
	applied   error // the database refused it
	connected bool
	nodes     []corev1.Node
	networks  []networkv1alpha1.NodeNetwork
	used      func(network netip.Prefix) (used int64, ok bool)
	drift     *networkv1alpha1.DriftStatus // nil: nothing was ever found
	mtu       string                       // what is wrong with the links' MTU; empty: nothing
	services  string                       // how the API server's service networks differ; empty: they do not
	// violations are invariants that do not hold.
	violations []invariant.Violation
	refused    error                 // why the database that answers is not ours to write
	silent     string                // what ovn-northd does not answer; empty: it did when it was asked last
	agents     map[string]agentState // node -> its agent's pod; empty: agents do not run in pods that we know
	version    string                // the operator's; empty: it does not say
	rollout    *networkv1alpha1.RolloutStatus
	databases  *networkv1alpha1.DatabasesStatus // nil: they have one member, or are somebody else's
	egress     []networkv1alpha1.EgressIP
	unreached  []string // nodes that do not answer the operator through the network
}

// status computes the ClusterNetwork's status.
func status(cn *networkv1alpha1.ClusterNetwork, f facts) networkv1alpha1.ClusterNetworkStatus {
	want := *cn.Status.DeepCopy()
	want.ObservedGeneration = cn.Generation
	want.MTU = effectiveMTU(cn.Spec.MTU, f.networks)
	ready, waiting := countReady(f.nodes, f.networks)
	want.Nodes = networkv1alpha1.NodeCounts{Total: int32(len(f.nodes)), Ready: int32(ready)}
	want.NodesReady = fmt.Sprintf("%d/%d", ready, len(f.nodes))
	if counts, free, ok := addresses(f); ok {
		want.Addresses, want.AddressesFree = counts, free
	}
	want.Drift = f.drift
	problems := problemsOf(cn.Name, f)
	want.Areas, want.Problems = health.Areas(problems, well(want)), problems[:min(len(problems), networkv1alpha1.MaxProblems)]
	want.Computed, want.Versions = computed(cn.Spec, want.MTU), versions(cn.Status.Versions, f)
	degraded := health.Degraded(problems)
	for _, condition := range []metav1.Condition{readyCondition(f, waiting), availableCondition(problems, ready, waiting),
		health.Progressing(problems), degraded, health.Upgradeable(problems)} {
		condition.ObservedGeneration = cn.Generation
		meta.SetStatusCondition(&want.Conditions, condition)
	}
	return want
}

func readyCondition(f facts, waiting []string) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case f.invalid != nil:
		c.Reason, c.Message = networkv1alpha1.ReasonInvalidSpec, f.invalid.Error()
	case f.applied != nil:
		c.Reason, c.Message = databaseReason(f.applied), f.applied.Error()
	case !f.connected:
		c.Reason, c.Message = networkv1alpha1.ReasonDatabaseUnavailable, "the OVN northbound database is not connected; existing pods keep their network"
	case len(waiting) > 0:
		c.Reason, c.Message = networkv1alpha1.ReasonNodesNotReady, "not ready: "+nameSome(waiting)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected, "the network of every node is ready"
	}
	return c
}

// rolledBack says which nodes moved their link and had to take it back, and who waits behind them.
func rolledBack(networks []networkv1alpha1.NodeNetwork) string {
	var failed []string
	for i := range networks {
		if text := topology.RolledBack(&networks[i]); text != "" {
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
	if waiting := topology.Asking(networks); len(waiting) > 0 {
		text += "; until that is settled these do not move theirs: " + nameSome(waiting)
	}
	return text
}

// databaseReason sorts what the database has against us.
func databaseReason(err error) string {
	var old *ovndb.SchemaError
	if errors.As(err, &old) {
		return networkv1alpha1.ReasonDatabaseSchemaTooOld
	}
	return networkv1alpha1.ReasonDatabaseError
}

// standingDrift says what is different now, by its latest example.
func standingDrift(drift *networkv1alpha1.DriftStatus) string {
	for _, item := range drift.Items {
		switch item.State {
		case networkv1alpha1.DriftCollision:
			return fmt.Sprintf("the OVN northbound database has %d differences; row %s of %s is not Weft's and has the name of a row of %s", drift.Standing, item.Row, item.Table, item.Owner)
		case networkv1alpha1.DriftStanding:
			return fmt.Sprintf("the OVN northbound database has %d differences, which drift.mode leaves as they are; the latest is row %s of %s, of %s", drift.Standing, item.Row, item.Table, item.Owner)
		}
	}
	return fmt.Sprintf("the OVN northbound database has %d differences", drift.Standing)
}

// exhaustedNetworks names the nodes that have no pod subnet because none is left.
func exhaustedNetworks(f facts) []string {
	known := make(map[string]bool, len(f.networks))
	for i := range f.networks {
		known[f.networks[i].Name] = len(f.networks[i].Spec.PodSubnets) > 0
	}
	var without []string
	for i := range f.nodes {
		if !known[f.nodes[i].Name] {
			without = append(without, f.nodes[i].Name)
		}
	}
	if len(without) == 0 {
		return nil
	}
	var used []netip.Prefix
	for i := range f.networks {
		for _, cidr := range f.networks[i].Spec.PodSubnets {
			if prefix, err := cidr.Prefix(); err == nil {
				used = append(used, prefix)
			}
		}
	}
	var exhausted []string
	for _, err := range f.plan.Exhausted(used) {
		exhausted = append(exhausted, fmt.Sprintf("%v; nodes without a subnet: %s", err, nameSome(without)))
	}
	return exhausted
}

// countReady returns how many nodes are ready and the names of the others, sorted.
func countReady(nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) (ready int, waiting []string) {
	byName := make(map[string]bool, len(networks)) // node -> its network is ready
	for i := range networks {
		byName[networks[i].Name] = isReady(networks[i].Status.Conditions)
	}
	for i := range nodes {
		switch name := nodes[i].Name; {
		case isLost(&nodes[i]):
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

// isLost reports whether Kubernetes hears nothing of a node: what its agent said last may not be true any more.
func isLost(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
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

// addresses counts the addresses of each cluster network, and says how many are free in words; ok is false while that is
// not known.
func addresses(f facts) (counts []networkv1alpha1.NetworkAddresses, free string, ok bool) {
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

// freeText abbreviates what nobody counts.
func freeText(free int64, network ipam.Network) string {
	if network.CIDR.Addr().Is6() && free > 1<<32 {
		return "plenty"
	}
	return fmt.Sprint(free)
}
