package clusternetwork

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
)

// maxDriftText bounds a value in the status.
const maxDriftText = 256

// setDriftMode selects whether the engine repairs foreign changes.
func (r *Reconciler) setDriftMode(cn *networkv1alpha1.ClusterNetwork) {
	r.Database.ReportOnly(cn.Spec.Drift.Mode == networkv1alpha1.DriftReport)
}

// drift returns the drift of the database for the status: the drift of earlier processes, which the status has kept,
// and that of this process.
func (r *Reconciler) drift(cn *networkv1alpha1.ClusterNetwork) (*networkv1alpha1.DriftStatus, ovndb.DriftReport) {
	r.first.Do(func() { r.earlier, r.announced = earlierDrift(cn.Status.Drift), cn.Status.Conditions })
	report := r.Database.Drifts()
	return driftStatus(r.earlier, report), report
}

// earlierDrift returns the drift in the status from before this process. A change that stood then is either found
// again or gone.
func earlierDrift(status *networkv1alpha1.DriftStatus) *networkv1alpha1.DriftStatus {
	if status == nil {
		return nil
	}
	earlier := status.DeepCopy()
	earlier.Standing = 0
	for i := range earlier.Items {
		earlier.Items[i].State = networkv1alpha1.DriftRepaired
	}
	return earlier
}

func driftStatus(earlier *networkv1alpha1.DriftStatus, report ovndb.DriftReport) *networkv1alpha1.DriftStatus {
	if earlier == nil && report.Total == 0 {
		return nil
	}
	status := &networkv1alpha1.DriftStatus{Total: report.Total, Standing: int32(min(report.Standing, 1<<30))}
	known := map[networkv1alpha1.DriftItem]bool{} // this process's items, without counts and times
	for _, d := range report.Latest {
		item := driftItem(d)
		known[subject(item)] = true
		status.Items = append(status.Items, item)
	}
	if earlier != nil {
		status.Total += earlier.Total
		for _, item := range earlier.Items {
			if !known[subject(item)] {
				status.Items = append(status.Items, item)
			}
		}
	}
	status.Items = status.Items[:min(len(status.Items), networkv1alpha1.MaxDriftItems)]
	return status
}

// subject returns the item without its count and times.
func subject(item networkv1alpha1.DriftItem) networkv1alpha1.DriftItem {
	return networkv1alpha1.DriftItem{Table: item.Table, Row: item.Row, Owner: item.Owner, Column: item.Column}
}

func driftItem(d ovndb.Drift) networkv1alpha1.DriftItem {
	return networkv1alpha1.DriftItem{
		Table: d.Table, Row: rowOf(d), Owner: string(d.Owner), Column: d.Column, Want: cut(d.Want), Have: cut(d.Have),
		State: networkv1alpha1.DriftState(d.State), Count: d.Count,
		// The API stores seconds. With fractions, the status would never equal itself.
		Since: metav1.NewTime(d.Since).Rfc3339Copy(), Last: metav1.NewTime(d.Last).Rfc3339Copy(),
	}
}

// rowOf names a row. A colliding row has the name of our row, so only its UUID identifies it.
func rowOf(d ovndb.Drift) string {
	if d.Name == "" || d.State == ovndb.DriftCollision {
		return d.UUID
	}
	return d.Name
}

func cut(text string) string {
	if len(text) <= maxDriftText {
		return text
	}
	return text[:maxDriftText-3] + "..."
}

// recordDrift records an event for each state with a new change.
func (r *Reconciler) recordDrift(cn *networkv1alpha1.ClusterNetwork, report ovndb.DriftReport) {
	fresh := report.Total - r.reportedDrift
	r.reportedDrift = report.Total
	if fresh <= 0 {
		return
	}
	first := map[ovndb.DriftState]ovndb.Drift{} // state -> the newest
	count := map[ovndb.DriftState]int{}
	for _, d := range report.Latest[:min(int(fresh), len(report.Latest))] {
		if count[d.State]++; count[d.State] == 1 {
			first[d.State] = d
		}
	}
	for state, reason := range driftReasons {
		if count[state] == 0 {
			continue
		}
		more := ""
		if fresh > 1 {
			more = fmt.Sprintf("; %d differences since the last event, see status.drift", fresh)
		}
		r.Events.Eventf(cn, nil, corev1.EventTypeWarning, reason, "Compare", "%s%s", describe(first[state]), more)
	}
}

// driftReasons are the reasons of the events.
var driftReasons = map[ovndb.DriftState]string{
	ovndb.DriftRepaired:  "DriftRepaired",
	ovndb.DriftStanding:  "DriftFound",
	ovndb.DriftCollision: "NameCollision",
}

// describe describes a foreign change in one sentence.
func describe(d ovndb.Drift) string {
	switch {
	case d.State == ovndb.DriftCollision:
		return fmt.Sprintf("row %s of %s is not Weft's and has the name %s of a row of %s", d.UUID, d.Table, d.Name, d.Owner)
	case d.Column == "":
		return fmt.Sprintf("row %s of %s, which belongs to %s, was %s and should be %s", rowOf(d), d.Table, d.Owner, d.Have, d.Want)
	default:
		return fmt.Sprintf("row %s of %s, which belongs to %s, had %s %q and should have %q", rowOf(d), d.Table,
			d.Owner, d.Column, cut(d.Have), cut(d.Want))
	}
}
