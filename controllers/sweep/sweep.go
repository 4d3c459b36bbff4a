// Package sweep finds rows whose owner is gone, because it was deleted while no operator ran. It only enqueues the
// owner. The owner's reconciler finds the object absent and removes its rows, as in any other deletion.
package sweep

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the sweep uses.
type Database interface {
	// Owners counts the rows of each unit. ok is false while the database is not connected.
	Owners() (owners map[unit.Key]int, ok bool)
	// Wanted reports whether this process has applied a non-empty unit under the key.
	Wanted(key unit.Key) bool
}

// Reconciler sweeps once after the start when the addresses in use are restored, after every reconnect, and when a
// ClusterNetwork is created.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, past the cache.
	Live     client.Reader
	Database Database
	Events   events.EventRecorder
	// Awaited lists units that hold addresses although they may have no rows by which the sweep could find them: nodes
	// without known subnets whose pods have addresses, pods with addresses, and pods with attachments. If the object of
	// such a unit does not exist, no event comes.
	Awaited  func() []unit.Key
	Triggers *trigger.Set
	// Kinds are this version's kinds by name. Rows of other kinds are kept.
	Kinds map[string]*kind.Kind

	doubted map[string]time.Time // by kind: since when more owners are gone than is likely
}

// doubt is how long the rows of unlikely many vanished owners are kept: an administrator may be about to restore the API server's
// database. Rows that stayed longer would hold the addresses of their owners against new objects.
const doubt = 10 * time.Minute

// recheck is how long the sweep leaves an owner alone that the API server has and the cache lacks. Usually the cache
// has it within milliseconds, and the event reconciles it.
const recheck = 5 * time.Second

// Name is the sweep's key in Env.Triggers. Any request makes it sweep.
const Name = "sweep"

// Kind returns the sweep for the units of these kinds.
func Kind(env *kind.Env, kinds []*kind.Kind) *kind.Kind {
	awaited := func() (keys []unit.Key) {
		for node := range env.Addresses.AwaitedAddresses() {
			keys = append(keys, topology.NodeKey(node))
		}
		for _, pod := range env.AddressedPods() {
			keys = append(keys, topology.PodKey(pod.Namespace, pod.Name))
		}
		for _, pod := range env.AttachedPods() {
			keys = append(keys, topology.PodPortsKey(pod.Namespace, pod.Name))
		}
		return keys
	}
	r := &Reconciler{Client: env.Client, Live: env.Live, Database: env.Database, Events: env.Events, Awaited: awaited,
		Triggers: env.Triggers, Kinds: map[string]*kind.Kind{}}
	for _, k := range kinds {
		r.Kinds[k.Name] = k
	}
	return &kind.Kind{Name: Name, Reconciler: r, SkipInPlan: true, Watches: []kind.Watch{
		// Rows found without a ClusterNetwork were kept.
		kind.Of(&networkv1alpha1.ClusterNetwork{}, predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }}),
	}}
}

// Reconcile implements reconcile.Reconciler. It runs only when all caches are in sync.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	owners, ok := r.Database.Owners()
	if !ok {
		return ctrl.Result{}, nil // the reconnect enqueues a sweep
	}
	var cn networkv1alpha1.ClusterNetwork
	name := types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}
	if err := r.Client.Get(ctx, name, &cn); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // without a ClusterNetwork all rows stay
	}
	vanished, lags, err := r.vanished(ctx, owners)
	if err != nil {
		return ctrl.Result{}, err
	}
	var result ctrl.Result
	if lags {
		result.RequeueAfter = recheck
	}
	for kind, keys := range vanished {
		reason, again := r.keep(kind, len(keys), count(owners, kind))
		if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
			result.RequeueAfter = again
		}
		if reason != "" {
			r.Events.Eventf(&cn, nil, corev1.EventTypeWarning, "RowsKept", "Sweep",
				"rows of %d %s units whose owner is gone are kept: %s", len(keys), kind, reason)
			continue
		}
		for _, key := range keys {
			r.Triggers.EnqueueUnit(key)
		}
	}
	return result, r.dismiss(ctx, owners)
}

// dismiss enqueues awaited units without rows if their objects do not exist, or if this process has not applied them: another program
// may have deleted their rows. Ports of pods on Networks are enqueued in any case, because those on an invalid Network do not return
// by themselves, and the pod's condition must say so.
func (r *Reconciler) dismiss(ctx context.Context, owners map[unit.Key]int) error {
	for _, key := range r.Awaited() {
		if owners[key] > 0 {
			continue // the sweep has found it by its rows
		}
		where, err := r.find(ctx, r.Kinds[key.Kind()], trigger.NameOf(key), blanks{})
		if err != nil {
			return err
		}
		switch {
		case where == nowhere:
			r.Triggers.EnqueueUnit(key)
		case where == cached && (!r.Database.Wanted(key) || key.Kind() == topology.KindPodPorts):
			r.Triggers.Of(key.Kind()).EnqueueLast(trigger.NameOf(key))
		}
	}
	return nil
}

// keep returns why the rows of vanished owners must stay, or "". again is when to judge them again; 0: when something changes.
func (r *Reconciler) keep(kind string, vanished, total int) (reason string, again time.Duration) {
	if r.Kinds[kind] == nil {
		return "this version of Weft does not have the kind", 0
	}
	// kubelet kills a pod that the API server does not have anyway, so that its port can always be removed. The API server gives the
	// addresses of a Service that it does not have to others, whose clients the former Service's pods would serve.
	if kind == topology.KindPod || kind == topology.KindService || vanished <= max(20, total/10) {
		delete(r.doubted, kind)
		return "", 0
	}
	if r.doubted == nil {
		r.doubted = map[string]time.Time{}
	}
	if r.doubted[kind].IsZero() {
		r.doubted[kind] = time.Now()
	}
	left := doubt - time.Since(r.doubted[kind])
	if left <= 0 {
		delete(r.doubted, kind)
		return "", 0
	}
	return fmt.Sprintf("%d of %d are too many to be right; if they do not return, they are removed in %s",
		vanished, total, left.Round(time.Second)), left
}

// vanished lists by kind the owners that neither the cache nor the API server has, and enqueues the owners that the
// cache has. lags is true if the cache lacks an owner that the API server has.
func (r *Reconciler) vanished(ctx context.Context, owners map[unit.Key]int) (found map[string][]unit.Key, lags bool, err error) {
	found = map[string][]unit.Key{}
	blank := blanks{}
	for key := range owners {
		if r.Database.Wanted(key) {
			continue
		}
		k := r.Kinds[key.Kind()]
		switch {
		case k != nil && k.Shared:
			r.Triggers.EnqueueUnit(key)
			continue
		case k == nil:
			found[key.Kind()] = append(found[key.Kind()], key)
			continue
		case k.Owner == nil: // the cluster-wide unit
			continue
		}
		where, err := r.find(ctx, k, trigger.NameOf(key), blank)
		switch {
		case err != nil:
			return nil, false, err
		case where == nowhere:
			found[key.Kind()] = append(found[key.Kind()], key)
		case where == notCached && !k.Optional:
			// Its reconciler reads the cache, so that it would find no object and remove the rows. The cache's event
			// reconciles it.
			lags = true
		default:
			// The object exists but may need no row, such as a pod that has ended. Its reconciler decides. At a start
			// these are all objects, and objects without a row come first.
			r.Triggers.Of(key.Kind()).EnqueueLast(trigger.NameOf(key))
		}
	}
	return found, lags, nil
}

// presence is where the owner of a unit was found.
type presence int

const (
	nowhere   presence = iota
	cached             // the cache has it
	notCached          // only the API server has it
)

// blanks has an object of each kind to read into, by the kind's name.
type blanks map[string]client.Object

func (b blanks) of(k *kind.Kind) client.Object {
	if b[k.Name] == nil {
		b[k.Name] = k.Owner()
	}
	return b[k.Name]
}

// find reports where the owner of a unit of a kind is. Only owners that the cache lacks cost a call. For an optional
// kind, whose cache may never be in sync, it reads from the API server alone.
func (r *Reconciler) find(ctx context.Context, k *kind.Kind, name types.NamespacedName, blank blanks) (presence, error) {
	if !k.Optional {
		// Only its existence matters, and copies of all objects would be much of a start.
		if exists, err := has(ctx, r.Client, blank.of(k), name); exists || err != nil {
			return cached, err
		}
	}
	if exists, err := has(ctx, r.Live, k.Owner(), name); exists || err != nil {
		return notCached, err
	}
	return nowhere, nil
}

func has(
	ctx context.Context, reader client.Reader, owner client.Object, name types.NamespacedName, options ...client.GetOption,
) (bool, error) {
	err := reader.Get(ctx, name, owner, options...)
	if err == nil {
		return true, nil
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // without the CRD there is no object
		return false, nil
	}
	return false, fmt.Errorf("read the owner %s: %w", name, err)
}

func count(owners map[unit.Key]int, kind string) int {
	n := 0
	for key := range owners {
		if key.Kind() == kind {
			n++
		}
	}
	return n
}
