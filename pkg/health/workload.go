package health

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// OperandsName and OperandsWorkload, as Workload.Object writes it, name the Deployment that keeps the other workloads.
const (
	OperandsName     = "weft-operands"
	OperandsWorkload = "Deployment/" + OperandsName
)

// Workload is a Deployment, DaemonSet or StatefulSet of Weft.
type Workload struct {
	Kind, Name string
	// Generation is the generation of the spec, and Observed the generation that Kubernetes has seen.
	Generation, Observed int64
	// Wanted is the number of pods of the spec, and Updated how many have the present template. Former have another one.
	Wanted, Updated, Former, Available int32
	// Late means that Kubernetes considers the rollout as failed.
	Late bool
	// Kept means that weft-operands applied it.
	Kept bool
}

// WorkloadOf reads a Deployment, DaemonSet or StatefulSet. known is false for other objects, and without Weft's prefix. With
// OnDelete, weft-operands decides which pods are replaced, and reports it as a rollout.
func WorkloadOf(o any) (w Workload, known bool) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		s := o.Status
		w = Workload{Kind: "Deployment", Name: o.Name, Generation: o.Generation, Observed: s.ObservedGeneration,
			Wanted: replicas(o.Spec.Replicas), Updated: s.UpdatedReplicas, Former: s.Replicas - s.UpdatedReplicas, Available: s.AvailableReplicas}
		w.Late = slices.ContainsFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		})
	case *appsv1.DaemonSet:
		s := o.Status
		w = Workload{Kind: "DaemonSet", Name: o.Name, Generation: o.Generation, Observed: s.ObservedGeneration,
			Wanted: s.DesiredNumberScheduled, Updated: s.UpdatedNumberScheduled, Available: s.NumberAvailable}
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			w.Updated = w.Wanted
		}
	case *appsv1.StatefulSet:
		s := o.Status
		w = Workload{Kind: "StatefulSet", Name: o.Name, Generation: o.Generation, Observed: s.ObservedGeneration,
			Wanted: replicas(o.Spec.Replicas), Updated: s.UpdatedReplicas, Available: s.AvailableReplicas}
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			w.Updated = w.Wanted
		}
	}
	if object, ok := o.(metav1.Object); ok {
		_, w.Kept = object.GetAnnotations()[networkv1alpha1.AppliedAnnotation]
	}
	return w, strings.HasPrefix(w.Name, "weft-")
}

// replicas returns the number of pods of a workload, whose default is 1.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// Object returns "Deployment/weft-operator".
func (w *Workload) Object() string { return w.Kind + "/" + w.Name }

// Lacks returns what a workload lacks of its spec, or "".
func (w *Workload) Lacks() string {
	switch {
	case w.Observed < w.Generation:
		return "Kubernetes has not seen its present spec yet"
	case w.Wanted == 0 && w.Object() == OperandsWorkload:
		return "it is scaled to 0, so that nobody keeps the other workloads"
	case w.Updated < w.Wanted:
		return fmt.Sprintf("%d of %d pods have the present template", w.Updated, w.Wanted)
	case w.Former > 0:
		return fmt.Sprintf("%d pods of a former template still run", w.Former)
	case w.Available < w.Wanted:
		return fmt.Sprintf("%d of %d pods are available", w.Available, w.Wanted)
	}
	return ""
}

// Missing counts the pods that a workload lacks. It is at least 1 while Lacks is not empty.
func (w *Workload) Missing() int32 {
	if w.Lacks() == "" {
		return 0
	}
	return max(1, w.Wanted-min(w.Updated, w.Available))
}
