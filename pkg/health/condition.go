package health

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// areas is the order of areas in a status.
var areas = []networkv1alpha1.AreaName{networkv1alpha1.AreaDatabases, networkv1alpha1.AreaControlPlane, networkv1alpha1.AreaNodes,
	networkv1alpha1.AreaTopology, networkv1alpha1.AreaAddresses, networkv1alpha1.AreaDrift}

// Areas returns the state of each area. well has the sentences for areas without a problem.
func Areas(problems []networkv1alpha1.Problem, well map[networkv1alpha1.AreaName]string) []networkv1alpha1.AreaStatus {
	found := make([]networkv1alpha1.AreaStatus, 0, len(areas))
	for _, name := range areas {
		status := networkv1alpha1.AreaStatus{Name: name, State: networkv1alpha1.StateOK, Message: Cut(well[name])}
		for _, p := range problems {
			if p.Area == name && Worse(p.State, status.State) {
				status.State, status.Message = p.State, Text(p)
			}
		}
		found = append(found, status)
	}
	return found
}

// Severities returns the states of areas as numbers, from 0 for OK to 3 for Unavailable.
func Severities(areas []networkv1alpha1.AreaStatus) map[string]int {
	found := make(map[string]int, len(areas))
	for _, a := range areas {
		found[string(a.Name)] = severity[a.State]
	}
	return found
}

// Available is true unless a problem blocks all changes of the network.
func Available(problems []networkv1alpha1.Problem) metav1.Condition {
	if worst, bad := Worst(problems, networkv1alpha1.StateUnavailable); bad {
		return of(networkv1alpha1.ConditionAvailable, metav1.ConditionFalse, worst)
	}
	return metav1.Condition{Type: networkv1alpha1.ConditionAvailable, Status: metav1.ConditionTrue,
		Reason:  networkv1alpha1.ReasonAsExpected,
		Message: "the network can be changed, and pods be attached"}
}

// Progressing is true while something is in progress, whatever else is wrong.
func Progressing(problems []networkv1alpha1.Problem) metav1.Condition {
	for _, p := range problems {
		if p.State == networkv1alpha1.StateProgressing {
			return of(networkv1alpha1.ConditionProgressing, metav1.ConditionTrue, p)
		}
	}
	return metav1.Condition{Type: networkv1alpha1.ConditionProgressing, Status: metav1.ConditionFalse,
		Reason:  networkv1alpha1.ReasonAsExpected,
		Message: "nothing is on its way"}
}

// Degraded is true while something is wrong.
func Degraded(problems []networkv1alpha1.Problem) metav1.Condition {
	if worst, bad := Worst(problems, networkv1alpha1.StateDegraded); bad {
		return of(networkv1alpha1.ConditionDegraded, metav1.ConditionTrue, worst)
	}
	return metav1.Condition{Type: networkv1alpha1.ConditionDegraded, Status: metav1.ConditionFalse,
		Reason:  networkv1alpha1.ReasonAsExpected,
		Message: "nothing is wrong"}
}

// Upgradeable is true while there is no problem at all. In a network with a problem, an administrator could not
// distinguish what an upgrade broke. Pods that are older than a change of the networks do not count, because they may
// run for months.
func Upgradeable(problems []networkv1alpha1.Problem) metav1.Condition {
	problems = slices.DeleteFunc(slices.Clone(problems), func(p networkv1alpha1.Problem) bool {
		return p.Reason == networkv1alpha1.ReasonPodsOutdated || p.Reason == networkv1alpha1.ReasonNetworkLeaving ||
			p.Reason == networkv1alpha1.ReasonPhysicalNetworksInUse
	})
	if worst, bad := Worst(problems, networkv1alpha1.StateProgressing); bad {
		return of(networkv1alpha1.ConditionUpgradeable, metav1.ConditionFalse, worst)
	}
	return metav1.Condition{Type: networkv1alpha1.ConditionUpgradeable, Status: metav1.ConditionTrue,
		Reason:  networkv1alpha1.ReasonAsExpected,
		Message: "an upgrade may begin"}
}

func of(kind string, status metav1.ConditionStatus, p networkv1alpha1.Problem) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: p.Reason, Message: Text(p)}
}

// Change is a condition whose status or reason has changed.
type Change struct {
	metav1.Condition
	// Bad means that the change is reported as a warning.
	Bad bool
}

// Changes lists the conditions whose status or reason has changed. A new condition that is good does not count.
func Changes(before, after []metav1.Condition) (found []Change) {
	for _, c := range after {
		old, known := find(before, c.Type)
		bad := isBad(c)
		if old.Status == c.Status && old.Reason == c.Reason || !known && !bad {
			continue
		}
		found = append(found, Change{c, bad})
	}
	return found
}

func find(conditions []metav1.Condition, kind string) (metav1.Condition, bool) {
	for _, c := range conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return metav1.Condition{}, false
}

// isBad reports whether a condition is bad. Most conditions are good when true. Progressing is neither good nor bad,
// and Upgradeable only follows from others.
func isBad(c metav1.Condition) bool {
	switch c.Type {
	case networkv1alpha1.ConditionDegraded:
		return c.Status == metav1.ConditionTrue
	case networkv1alpha1.ConditionProgressing, networkv1alpha1.ConditionUpgradeable:
		return false
	}
	return c.Status == metav1.ConditionFalse && !waits(c.Reason)
}
