// Package claim gives addresses of IPPools to pods: it writes the FloatingIPs that package floating chooses.
package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// Workloads reads the workloads of pods.
type Workloads struct {
	// Cached reads Deployments, StatefulSets, DaemonSets, Jobs and CronJobs. Live reads ReplicaSets and other workloads.
	Cached, Live client.Reader
	// Scale reads how many pods the scale subresource of an object says. If it is nil, as in a plan, no workload has one.
	Scale func(ctx context.Context, object *unstructured.Unstructured) (replicas int64, err error)

	mu sync.Mutex
	// of remembers the workload of a ReplicaSet or Job by its UID, because neither changes its controller.
	of map[types.UID]owner
}

type owner struct {
	floating.Workload
	uid types.UID
}

// Of returns the workload that keeps the addresses of a pod, and its UID: the controller at the top, or the pod.
func (w *Workloads) Of(ctx context.Context, pod *corev1.Pod) (floating.Workload, types.UID, error) {
	by := metav1.GetControllerOf(pod)
	if by == nil {
		return floating.Workload{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, pod.UID, nil
	}
	direct := owner{floating.Workload{APIVersion: by.APIVersion, Kind: by.Kind, Namespace: pod.Namespace, Name: by.Name}, by.UID}
	if by.Kind != "ReplicaSet" && by.Kind != "Job" {
		return direct.Workload, direct.uid, nil
	}
	top, err := w.top(ctx, direct)
	return top.Workload, top.uid, err
}

// top returns the controller of a ReplicaSet or Job, or the object itself.
func (w *Workloads) top(ctx context.Context, direct owner) (owner, error) {
	w.mu.Lock()
	known, ok := w.of[direct.uid]
	w.mu.Unlock()
	if ok {
		return known, nil
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: direct.APIVersion, Kind: direct.Kind}}
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: direct.Namespace, Name: direct.Name}, object)
	if client.IgnoreNotFound(err) != nil {
		return owner{}, fmt.Errorf("read %s: %w", direct.Workload, err)
	}
	found := direct
	if by := metav1.GetControllerOf(object); err == nil && object.UID == direct.uid && by != nil {
		found = owner{floating.Workload{APIVersion: by.APIVersion, Kind: by.Kind, Namespace: direct.Namespace, Name: by.Name}, by.UID}
	}
	w.remember(direct.uid, found)
	return found, nil
}

func (w *Workloads) remember(uid types.UID, top owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil || len(w.of) >= memory {
		w.of = map[types.UID]owner{}
	}
	w.of[uid] = top
}

// recognize remembers the workload of a pod's ReplicaSet or Job from an address that the pod has. Without it, a start
// would read each ReplicaSet from the API server, at the pace of its client's limit.
func (w *Workloads) recognize(pod *corev1.Pod, has []*networkv1alpha1.FloatingIP) {
	by := metav1.GetControllerOf(pod)
	if by == nil {
		return
	}
	top := map[string]string{"ReplicaSet": "apps/v1 Deployment", "Job": "batch/v1 CronJob"}[by.Kind]
	for _, f := range has {
		h := f.Spec.Holder
		// the name shows that a person did not write another workload
		if h.APIVersion+" "+h.Kind == top && h.Namespace == pod.Namespace && h.Pod == pod.Name && strings.HasPrefix(by.Name, h.Name+"-") {
			w.remember(by.UID, owner{floating.WorkloadOf(h), h.UID})
			return
		}
	}
}

// memory is how many ReplicaSets and Jobs are remembered. With more, it forgets all.
const memory = 4096

// State reads what a workload wants now.
func (w *Workloads) State(ctx context.Context, of floating.Workload) (floating.State, error) {
	name := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	switch of.APIVersion + " " + of.Kind {
	case "apps/v1 Deployment":
		var d appsv1.Deployment
		return w.read(ctx, name, &d, func() floating.State { return floating.State{Replicas: orOne(d.Spec.Replicas)} })
	case "apps/v1 StatefulSet":
		var s appsv1.StatefulSet
		return w.read(ctx, name, &s, func() floating.State {
			state := floating.State{Replicas: orOne(s.Spec.Replicas)}
			if s.Spec.Ordinals != nil {
				state.FirstOrdinal = int(s.Spec.Ordinals.Start)
			}
			return state
		})
	case "apps/v1 DaemonSet":
		return w.read(ctx, name, &appsv1.DaemonSet{}, func() floating.State { return floating.State{Replicas: -1} })
	case "batch/v1 Job":
		var j batchv1.Job
		return w.read(ctx, name, &j, func() floating.State {
			if IsFinished(&j) {
				return floating.State{}
			}
			return floating.State{Replicas: orOne(j.Spec.Parallelism)}
		})
	case "batch/v1 CronJob":
		return w.read(ctx, name, &batchv1.CronJob{}, func() floating.State { return floating.State{Replicas: -1} })
	case "v1 Pod":
		return w.read(ctx, name, &corev1.Pod{}, func() floating.State { return floating.State{Replicas: 1} })
	}
	return w.other(ctx, of, name)
}

// IsFinished reports whether a Job has completed or failed, so that it gets no further pods.
func IsFinished(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// read reads a workload. A workload that the cache does not have may be new, so that the API server decides.
func (w *Workloads) read(
	ctx context.Context, name types.NamespacedName, object client.Object, state func() floating.State,
) (floating.State, error) {
	err := w.Cached.Get(ctx, name, object)
	if apierrors.IsNotFound(err) {
		err = w.Live.Get(ctx, name, object)
	}
	if err != nil {
		return floating.State{}, client.IgnoreNotFound(err)
	}
	return stateOf(object, state()), nil
}

func stateOf(object client.Object, s floating.State) floating.State {
	s.Exists, s.UID = object.GetDeletionTimestamp() == nil, object.GetUID()
	return s
}

func orOne(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// other reads a workload of another kind. It wants as many pods as its scale subresource says. Without one, or without
// the right to read it, it wants spec.replicas pods if it has that field.
func (w *Workloads) other(ctx context.Context, of floating.Workload, name types.NamespacedName) (floating.State, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(of.APIVersion)
	object.SetKind(of.Kind)
	err := w.Live.Get(ctx, name, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // with the kind, its objects went
		return floating.State{}, nil
	}
	if err != nil {
		return floating.State{}, fmt.Errorf("read %s: %w", of, err)
	}
	state := floating.State{Replicas: -1}
	if w.Scale != nil {
		replicas, err := w.Scale(ctx, object)
		if err == nil {
			state.Replicas = int(replicas)
			return stateOf(object, state), nil
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsMethodNotSupported(err) {
			return floating.State{}, fmt.Errorf("read the scale of %s: %w", of, err)
		}
	}
	if replicas, ok, err := unstructured.NestedInt64(object.Object, "spec", "replicas"); ok && err == nil {
		state.Replicas = int(replicas)
	}
	return stateOf(object, state), nil
}

// Limit returns how many addresses a workload gets, although it may have more pods during a rolling update. limited is
// false if a pod more gets an address more: when the update must not take a pod away first.
func (w *Workloads) Limit(ctx context.Context, of floating.Workload) (limit int, limited bool, err error) {
	if of.APIVersion != "apps/v1" || of.Kind != "Deployment" {
		return 0, false, nil
	}
	var d appsv1.Deployment
	if err := w.Cached.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, &d); err != nil {
		return 0, false, client.IgnoreNotFound(err)
	}
	limit = orOne(d.Spec.Replicas)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return limit, true, nil
	}
	unavailable := intstr.FromString("25%")
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
		unavailable = *rolling.MaxUnavailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, limit, false)
	return limit, err == nil && n > 0, nil
}
