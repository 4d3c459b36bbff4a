package floatingip

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// unseen is when to read again an object that the API server has and the cache has not. If the watch was interrupted, the cache may never
// have the object, and then nothing says that the object is deleted.
const unseen = 10 * time.Second

// Reconciler reconciles FloatingIPs: it keeps or releases an address whose pod has ended.
type Reconciler struct {
	Client   client.Client
	Floating *claim.Claimer
	Triggers *trigger.Set
	// Freed publishes the pool of an address that a waiting pod may get.
	Freed      *kind.Topic[string]
	CountDelay time.Duration

	watches *watcher
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Floating.Load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	var cached networkv1alpha1.FloatingIP
	if err := r.Client.Get(ctx, req.NamespacedName, &cached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	address, err := netip.ParseAddr(string(cached.Spec.Address))
	if err != nil {
		return ctrl.Result{}, nil // the API server refuses such a FloatingIP
	}
	r.Floating.Book.Observe(&cached)
	r.count(ctx, cached.Spec.Pool)
	f := r.Floating.Book.Get(address) // the cache may be behind what this process wrote
	if f == nil {
		return ctrl.Result{}, nil
	}
	if f.Spec.Holder == nil {
		again, err := r.free(ctx, f)
		return ctrl.Result{RequeueAfter: again}, err
	}
	if f.Spec.Holder.PodUID != "" {
		lives, again, err := r.lives(ctx, f.Spec.Holder)
		if err != nil || lives {
			r.enqueueExtra(f.Spec.Holder)
			r.enqueueSurplus(f)
			return ctrl.Result{RequeueAfter: again}, err
		}
	}
	return r.decide(ctx, f)
}

// enqueueExtra enqueues a pod that has several addresses for one place. Its reconciler releases what the pod does not
// use, once the pod is bound.
func (r *Reconciler) enqueueExtra(h *networkv1alpha1.FloatingIPHolder) {
	if r.Floating.Book.HasExtra(h.PodUID) {
		r.enqueuePod(h)
	}
}

// enqueueSurplus enqueues the address that the workload of f needs least, because the workload may have too many since one of its pods got
// another address than a kept one.
func (r *Reconciler) enqueueSurplus(f *networkv1alpha1.FloatingIP) {
	if last := r.Floating.Book.LastKept(f); last != nil {
		r.Triggers.Enqueue(KindFloatingIP, types.NamespacedName{Name: last.Name})
	}
}

// enqueuePod enqueues the pod of a holder. Which of its units has the address depends on the pool.
func (r *Reconciler) enqueuePod(h *networkv1alpha1.FloatingIPHolder) {
	for _, kind := range []string{topology.KindPod, topology.KindPodPorts} {
		r.Triggers.Enqueue(kind, types.NamespacedName{Namespace: h.Namespace, Name: h.Pod})
	}
}

// count enqueues the pool, whose status counts its addresses: at once with the first and the last address in use,
// because a pool without addresses in use can be deleted.
func (r *Reconciler) count(ctx context.Context, name string) {
	delay := r.CountDelay
	var pool networkv1alpha1.IPPool
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &pool)
	counts := r.Floating.Book.Counts(name)
	if err == nil && (counts.Used+counts.Kept == 0) != (pool.Status.Used+pool.Status.Kept == 0) {
		delay = 0
	}
	r.Triggers.EnqueueAfter(KindIPPool, types.NamespacedName{Name: name}, delay)
}

// lives reports whether a holder's pod may still use the address, and when to read the pod again. A pod that the cache does not have may
// be new, so that the API server decides.
func (r *Reconciler) lives(ctx context.Context, h *networkv1alpha1.FloatingIPHolder) (lives bool, again time.Duration, err error) {
	name := types.NamespacedName{Namespace: h.Namespace, Name: h.Pod}
	for _, from := range []client.Reader{r.Client, r.Floating.Live} {
		var pod corev1.Pod
		err := from.Get(ctx, name, &pod)
		if client.IgnoreNotFound(err) != nil {
			return false, 0, err
		}
		if err == nil && pod.UID == h.PodUID {
			return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed, again, nil
		}
		again = unseen
	}
	return false, 0, nil
}

// decide keeps or releases an address without a pod.
func (r *Reconciler) decide(ctx context.Context, f *networkv1alpha1.FloatingIP) (ctrl.Result, error) {
	h := f.Spec.Holder
	workload := floating.WorkloadOf(h)
	var state floating.State
	if h.ReleasePolicy == networkv1alpha1.ReleaseImmutable {
		// The watch comes first, so that no change after the state is missed.
		err := r.watchWorkload(ctx, workload)
		if err != nil {
			return ctrl.Result{}, err
		}
		if state, err = r.Floating.Workloads.State(ctx, workload); err != nil {
			return ctrl.Result{}, err
		}
	}
	now := r.Floating.Now()
	since := now
	if h.PodUID == "" {
		since = h.Since.Time
	}
	outcome := floating.Decide(f, state, r.Floating.Book.Before, since, now)
	if h.PodUID == "" && !outcome.Released {
		return ctrl.Result{RequeueAfter: outcome.Again}, nil
	}
	after := floating.Ended(f, outcome, metav1.NewTime(now))
	if err := r.Client.Update(ctx, after); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.Floating.Book.Observe(after)
	r.count(ctx, after.Spec.Pool)
	r.Freed.Publish(after.Spec.Pool)
	r.enqueueSurplus(f)
	return ctrl.Result{RequeueAfter: outcome.Again}, nil
}

// free deletes the FloatingIP of a pool that does not exist, unless a person reserved the address, and publishes an address that pods
// can get. again is when to read the pool again.
func (r *Reconciler) free(ctx context.Context, f *networkv1alpha1.FloatingIP) (again time.Duration, err error) {
	var pool networkv1alpha1.IPPool
	name := types.NamespacedName{Name: f.Spec.Pool}
	err = r.Client.Get(ctx, name, &pool)
	if apierrors.IsNotFound(err) { // the cache may be behind
		again, err = unseen, r.Floating.Live.Get(ctx, name, &pool)
	}
	if apierrors.IsNotFound(err) && floating.IsReserved(f) {
		return 0, nil // the pool may be created again
	}
	if apierrors.IsNotFound(err) {
		precondition := client.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion}
		return 0, client.IgnoreNotFound(r.Client.Delete(ctx, f, precondition))
	}
	r.Freed.Publish(f.Spec.Pool)
	return again, err
}
