package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/process/informers"
)

// ManagerOptions returns the options of the manager that Setup needs: the scheme, and the contents of the cache.
func ManagerOptions() (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return ctrl.Options{}, err
	}
	return ctrl.Options{
		Scheme:                 scheme,
		NewCache:               informers.NewCache,
		Cache:                  cache.Options{DefaultTransform: strip, DefaultUnsafeDisableDeepCopy: new(true)},
		Metrics:                metricsserver.Options{BindAddress: "0"}, // the program serves metrics and health
		HealthProbeBindAddress: "0",
	}, nil
}

// strip keeps of a cached object what the extender reads: of nodes and namespaces the labels, of Deployments also the
// replicas and the strategy.
func strip(o any) (any, error) {
	object, ok := o.(client.Object)
	if !ok {
		return o, nil // a tombstone
	}
	object.SetManagedFields(nil)
	switch object := object.(type) {
	case *metav1.PartialObjectMetadata:
		object.Annotations = nil
	case *appsv1.Deployment:
		object.Annotations, object.Status = nil, appsv1.DeploymentStatus{}
		object.Spec = appsv1.DeploymentSpec{Replicas: object.Spec.Replicas, Strategy: object.Spec.Strategy}
	}
	return object, nil
}

// Options are the extender's settings besides the manager.
type Options struct {
	// Listener is where kube-schedulers connect, with the files of TLS.
	Listener net.Listener
	TLS      TLS
	// Ready is called when the extender can answer.
	Ready func()
}

// Setup adds the extender to a manager.
func Setup(mgr ctrl.Manager, o Options) (*Extender, error) {
	c := mgr.GetClient()
	e := &Extender{Floating: claim.New(c, mgr.GetAPIReader(), time.Now), Live: mgr.GetAPIReader(), Log: mgr.GetLogger().WithName("extender"),
		Bind: func(ctx context.Context, pod *corev1.Pod, binding *corev1.Binding) error {
			return c.SubResource("binding").Create(ctx, pod, binding)
		},
		Wake: func(ctx context.Context, pod types.NamespacedName, uid types.UID, pool string) error {
			return wakePod(ctx, c, pod, uid, pool)
		},
	}
	e.Floating.Pods = nil // its role lists none
	if err := e.watch(context.Background(), mgr.GetCache()); err != nil {
		return nil, err
	}
	return e, mgr.Add(&server{e, c, o})
}

// server runs once the caches are in sync.
type server struct {
	*Extender
	cached client.Reader
	Options
}

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	if err := s.Load(ctx, s.cached); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.runWaiting(ctx)
	if s.Ready != nil {
		s.Ready()
	}
	return s.Serve(ctx, s.Listener, s.TLS)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *server) NeedLeaderElection() bool { return false }

// Load reads FloatingIPs, IPPools and nodes from the cache. It must return before the first request is answered.
func (e *Extender) Load(ctx context.Context, from client.Reader) error {
	if err := e.Floating.Load(ctx); err != nil {
		return err
	}
	var pools networkv1alpha1.IPPoolList
	if err := from.List(ctx, &pools); err != nil {
		return err
	}
	for i := range pools.Items {
		e.setPool(&pools.Items[i])
	}
	nodes := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	if err := from.List(ctx, nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		e.nodes.set(nodes.Items[i].Name, nodes.Items[i].Labels)
	}
	return nil
}

// watch records the objects of the cache from their events.
func (e *Extender) watch(ctx context.Context, from cache.Cache) error {
	metadata := func(kind string) client.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
	}
	for _, w := range []struct {
		object   client.Object
		handlers toolscache.ResourceEventHandler
	}{
		{&networkv1alpha1.FloatingIP{}, on(e.observe, e.forget)},
		{&networkv1alpha1.IPPool{}, on(func(_, p *networkv1alpha1.IPPool) { e.setPool(p) }, func(p *networkv1alpha1.IPPool) {
			e.Floating.Book.RemovePool(p.Name)
		})},
		{metadata("Node"), on(func(_, n *metav1.PartialObjectMetadata) { e.nodes.set(n.Name, n.Labels) },
			func(n *metav1.PartialObjectMetadata) { e.nodes.remove(n.Name) })},
		{metadata("Namespace"), toolscache.ResourceEventHandlerFuncs{}},
		{&appsv1.Deployment{}, toolscache.ResourceEventHandlerFuncs{}},
	} {
		informer, err := from.GetInformer(ctx, w.object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.object, err)
		}
		if _, err := informer.AddEventHandler(w.handlers); err != nil {
			return err
		}
	}
	return nil
}

// on returns handlers of one type of object. before is nil for an object that is new.
func on[T client.Object](set func(before, after T), remove func(T)) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if object, ok := o.(T); ok {
				var none T
				set(none, object)
			}
		},
		UpdateFunc: func(before, after any) {
			had, ok := before.(T)
			if object, ok2 := after.(T); ok && ok2 {
				set(had, object)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if object, ok := o.(T); ok {
				remove(object)
			}
		},
	}
}

// observe records a FloatingIP, and wakes waiting pods: when an address loses its pod, because a pod may wait for it, and when
// a pod gets an address, because few pods are woken at once and other addresses may be left.
func (e *Extender) observe(before, f *networkv1alpha1.FloatingIP) {
	e.Floating.Book.Observe(f)
	if (before == nil || !hasPod(before)) && hasPod(f) && e.waiting.has(f.Spec.Pool) {
		e.waiting.publish(f.Spec.Pool)
	}
	if before != nil && hasPod(before) && !hasPod(f) || before != nil && before.Spec.Holder != nil && f.Spec.Holder == nil {
		e.waiting.publish(f.Spec.Pool)
	}
}

func hasPod(f *networkv1alpha1.FloatingIP) bool {
	return f.Spec.Holder != nil && f.Spec.Holder.PodUID != ""
}

func (e *Extender) forget(f *networkv1alpha1.FloatingIP) {
	e.Floating.Book.Forget(f)
	e.waiting.publish(f.Spec.Pool)
}

// setPool records an IPPool if the operator's condition Ready is current. Until then the recorded pool stays, so that no pod
// gets an address of a range that is refused.
func (e *Extender) setPool(p *networkv1alpha1.IPPool) {
	refused := "the operator has not accepted it yet"
	ready := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionReady)
	switch {
	case ready == nil:
	case ready.ObservedGeneration != p.Generation:
		if _, _, known := e.Floating.Book.Pool(p.Name); known {
			return
		}
	case ready.Status == metav1.ConditionTrue:
		refused = ""
	default:
		refused = ready.Message
	}
	read, err := floating.ParsePool(p)
	if err != nil {
		refused = err.Error()
	}
	if e.Floating.Book.SetPool(read, refused) {
		e.waiting.publish(p.Name)
	}
}

// wakePod writes a condition into the status of an unscheduled pod. Its message differs each time, so that it is a
// change.
func wakePod(ctx context.Context, c client.Client, name types.NamespacedName, uid types.UID, pool string) error {
	now := time.Now().UTC()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: networkv1alpha1.PodFloatingIP, Status: corev1.ConditionFalse, Reason: networkv1alpha1.ReasonAddressFreed,
			LastTransitionTime: metav1.NewTime(now),
			Message:            "an address of IPPool " + pool + " may be available since " + now.Format(time.RFC3339Nano),
		}}},
	})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	return c.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))
}
