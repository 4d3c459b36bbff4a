package histories

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/controllers/invariantcheck"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// checkInvariants checks the operator's own invariants on the rows that its leader reads. All must hold, except
// invariants that the history violated on purpose.
func (w *world) checkInvariants(ctx context.Context, frozen bool) error {
	reader := &invariantcheck.Reader{Client: w.api, Zone: w.cluster.zone, Database: w.lead.engine, ClusterPolicies: w.readClusterPolicies,
		MultiNetworkPolicies: w.readMultiPolicies}
	present, err := reader.World(ctx)
	if err != nil {
		return err
	}
	var excused []string
	if w.foreign.hasNamesake() {
		excused = append(excused, "UniqueName")
	}
	if w.lostSwitch() { // it has the name of a Weft switch, or the tunnel key of a later node
		excused = append(excused, "UniqueName", "Singletons", "UniqueTunnelKey")
	}
	if len(w.unpinned) > 0 { // pods survived their node or the database, and still report their previous addresses
		excused = append(excused, "PodReportsAddress")
	}
	// Until its agent reports again, a node's ports keep the last chassis, damage to its gateway remains, and a new process keeps the
	// addresses that pods without a port report.
	if len(w.muted) > 0 {
		excused = append(excused, "PortOnItsChassis", "PeersExist", "CountsAreRight")
	}
	var wrong []error
	for _, v := range invariant.Check(present) {
		// What must stay as it is in the database keeps the damage that was done to it.
		damaged := frozen && w.strangers && concernsNetworks(v) || w.concernsMuted(v)
		if !damaged && !slices.Contains(excused, v.Invariant) {
			wrong = append(wrong, errors.New("invariant "+v.String()))
		}
	}
	return errors.Join(wrong...)
}

// concernsMuted reports whether a violation concerns the gateway of a node whose agent does not report: a copy of one of its rows, or an
// address in its sets, such as that of a pod whose ExternalRoute was deleted. A process that has not applied the gateway leaves both.
func (w *world) concernsMuted(v invariant.Violation) bool {
	for node := range w.muted {
		if slices.Contains([]string{"UniqueName", "RoutedNotTranslated"}, v.Invariant) && strings.Contains(v.Message, "_"+node) {
			return true
		}
	}
	return false
}

// concernsNetworks reports whether a violation concerns a Network or a pod's ports on Networks.
func concernsNetworks(v invariant.Violation) bool {
	return slices.ContainsFunc(v.Owners, func(owner unit.Key) bool {
		return slices.Contains([]string{topology.KindPodNetwork, topology.KindPodNetworkNode, topology.KindPodPorts}, owner.Kind())
	})
}

func (w *world) readClusterPolicies(ctx context.Context) (all []metav1.Object, err error) {
	var list policyv1alpha2.ClusterNetworkPolicyList
	err = w.api.List(ctx, &list)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}

// lostSwitch reports whether a disowned switch still exists without an owner. That happens if it was a copy, or if
// its node was deleted before the operator reverted the change: rows without an owner are never deleted.
func (w *world) lostSwitch() bool {
	rows, _ := w.mirror.snapshot()
	for id := range w.disowned {
		if r, ok := rows["Logical_Switch"][id]; ok && ownerOf(r) == "" {
			return true
		}
	}
	return false
}
