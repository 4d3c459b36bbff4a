package histories

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	invariants "github.com/weft-network/weft/controllers/invariant"
	"github.com/weft-network/weft/pkg/invariant"
)

// checkInvariants asks the operator's own invariants, on the rows that its leader reads. They must hold, but for what the history
// did on purpose.
func (w *world) checkInvariants(ctx context.Context) error {
	reader := &invariants.Reader{Client: w.api, Database: w.lead.engine, ClusterPolicies: w.readClusterPolicies}
	present, err := reader.World(ctx)
	if err != nil {
		return err
	}
	var excused []string
	if w.foreign.hasNamesake() {
		excused = append(excused, "UniqueName")
	}
	if w.lostSwitch() { // it has the name of one of ours, or the key that a later node's has
		excused = append(excused, "UniqueName", "Singletons", "UniqueTunnelKey")
	}
	if len(w.unpinned) > 0 { // pods outlived their node or the database, and still report what they had there
		excused = append(excused, "PodReportsAddress")
	}
	if len(w.muted) > 0 { // until its agent reports again, a node's ports keep the last chassis, and what somebody took from its gateway stays away
		excused = append(excused, "PortOnItsChassis", "PeersExist")
	}
	var wrong []error
	for _, v := range invariant.Check(present) {
		if !slices.Contains(excused, v.Invariant) {
			wrong = append(wrong, errors.New("invariant "+v.String()))
		}
	}
	return errors.Join(wrong...)
}

func (w *world) readClusterPolicies(ctx context.Context) (all []metav1.Object, err error) {
	var list policyv1alpha2.ClusterNetworkPolicyList
	err = w.api.List(ctx, &list)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}

// lostSwitch reports whether a switch that was disowned is still there and nobody's, since it was a copy, or its node went, before
// anybody saw it: rows of nobody stay.
func (w *world) lostSwitch() bool {
	rows, _ := w.mirror.snapshot()
	for id := range w.disowned {
		if r, ok := rows["Logical_Switch"][id]; ok && ownerOf(r) == "" {
			return true
		}
	}
	return false
}
