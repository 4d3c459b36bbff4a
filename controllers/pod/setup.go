package pod

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	// workers is how many pods are reconciled concurrently. Each waits for its transaction, and all that wait share
	// the next one.
	workers = 64
	byNode  = kind.PodsByNode
)

// Kinds returns the kind of pods' units.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Reserved: env.Reserved, Addresses: env.Addresses,
		Events: env.Events, Triggers: env.Triggers,
		Selectors: env.Selectors, Floating: env.Floating, Zone: env.Zone, CountDelay: env.Settings.CountDelay,
		PortsFreed: &env.PortsFreed, NodeRestored: env.NodeRestored.Publish}
	if origin, ok := kind.Origin[*Reconciler](env, topology.KindPod); ok {
		origin.remember(r)
	}
	env.Restore, env.AddressedPods, env.PodsLackAddress = r.Restore, r.state.pods, r.state.lackOn
	env.SubnetsSet.Subscribe(r.wakeNode)
	env.AddressesLost.Subscribe(r.lost)
	env.PodsOutdated.Subscribe(r.outdated)
	env.FloatingFreed.Subscribe(r.wakePool)
	return []*kind.Kind{{
		Name: topology.KindPod, Workers: workers, Reconciler: r,
		Owner: func() client.Object { return &corev1.Pod{} },
		First: func() client.ObjectList { return &corev1.PodList{} },
		Indexes: []kind.Index{
			{Object: &corev1.Pod{}, Field: byNode, Values: indexByNode},
			{Object: &corev1.Pod{}, Field: kind.PodsByHostPort, Values: IndexByHostPort},
			{Object: &corev1.Service{}, Field: kind.ServicesByNodePort, Values: IndexByNodePort},
		},
		Watches: r.watches(),
	}}
}

func (r *Reconciler) watches() []kind.Watch {
	return []kind.Watch{
		kind.On(&corev1.Pod{}, &newcomersFirst{}, trigger.Changed(portChanged)),
		kind.On(&corev1.Pod{}, &handler.EnqueueRequestForObject{}, trigger.OnlyChanged(r.addressed)),
		kind.Map(&networkv1alpha1.NodeNetwork{}, r.podsOf,
			predicate.Funcs{UpdateFunc: trigger.Update(nodeChanged), DeleteFunc: r.wasElsewhere}),
		kind.Map(&networkv1alpha1.ClusterNetwork{}, r.podsIn, trigger.OnlyChanged(policyChanged)),
		kind.On(&corev1.Pod{}, r.yielding()),
		kind.On(&corev1.Service{}, r.contesting()),
		kind.Map(&networkv1alpha1.ClusterNetwork{}, r.WithHostPorts, trigger.OnlyChanged(reservedChanged)),
		kind.Map(&networkv1alpha1.NodeNetwork{}, r.leavingBy, trigger.OnlyChanged(wayOutChanged)),
		kind.Map(&corev1.Node{}, r.leavingBy, trigger.OnlyChanged(trigger.LabelsChanged)),
		kind.Map(&networkv1alpha1.NodeNetwork{}, r.onNodeWithHostPorts, trigger.OnlyChanged(addressesChanged)),
		kind.Map(&corev1.Node{}, r.onNodeWithHostPorts, trigger.OnlyChanged(addressesChanged)),
		kind.Map(&discoveryv1.EndpointSlice{}, r.WithHostPorts, predicate.NewPredicateFuncs(lookup.OfAPIServer)),
		kind.Map(&corev1.Namespace{}, r.podsIn, predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return r.state.misses(e.Object.GetName()) },
			UpdateFunc: trigger.Update(r.namespaceChanged),
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		}).MetadataOnly(),
		kind.On(&corev1.Namespace{}, handler.Funcs{UpdateFunc: r.relabelled}).MetadataOnly(),
		kind.On(&networkv1alpha1.EgressIP{}, r.selected()),
		kind.On(&networkv1alpha1.ExternalRoute{}, r.routed()),
		kind.Map(&corev1.Service{}, r.selectedByService, kind.EgressSourceChanged()),
	}
}

// selected enqueues the pods that an EgressIP selects, or selected before a change of its selectors.
func (r *Reconciler) selected() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.enqueueSelected(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.enqueueSelected(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if trigger.Update(selectorsChanged)(e) {
				r.enqueueSelected(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}

// indexByNode is the function of the index byNode.
func indexByNode(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// newcomersFirst enqueues each pod of an event. At a start, pods without an address come first, because they wait for
// this process. The others work already.
type newcomersFirst struct {
	handler.EnqueueRequestForObject
}

// Create implements handler.EventHandler.
func (h *newcomersFirst) Create(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if pod, ok := e.Object.(*corev1.Pod); ok && len(pod.Status.PodIPs) == 0 {
		e.IsInInitialList = false
	}
	h.EnqueueRequestForObject.Create(ctx, e, q)
}

// podsOf returns a request for each pod of a node whose network was created or changed.
func (r *Reconciler) podsOf(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byNode: o.GetName()})
}

// podsIn returns a request for each pod of a namespace. If the object is the ClusterNetwork, it returns a request for
// every pod, because their records are requested now.
func (r *Reconciler) podsIn(ctx context.Context, o client.Object) []reconcile.Request {
	if _, ok := o.(*networkv1alpha1.ClusterNetwork); ok {
		return r.list(ctx)
	}
	return r.list(ctx, client.InNamespace(o.GetName()))
}

func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &corev1.PodList{}, options...)
}

// portChanged passes updates that change whether or how a pod has a port.
func portChanged(before, after *corev1.Pod) bool {
	return facts.WantsPort(before) != facts.WantsPort(after) ||
		!maps.Equal(before.Labels, after.Labels) ||
		before.Annotations[networkv1alpha1.PodNetworksAnnotation] != after.Annotations[networkv1alpha1.PodNetworksAnnotation] ||
		requestChanged(before, after) || reported(before) != reported(after) // a cache that was behind may have hidden a condition
}

// reported returns what the conditions say that this kind writes.
func reported(pod *corev1.Pod) (all [3]corev1.PodCondition) {
	for i, kind := range []corev1.PodConditionType{
		networkv1alpha1.PodPortReady, networkv1alpha1.PodRequestsGranted, networkv1alpha1.PodHostPortsReady,
	} {
		if c := podcondition.Find(pod, kind); c != nil {
			all[i] = corev1.PodCondition{Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
	return all
}

func policyChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return before.Spec.PodRecord != after.Spec.PodRecord ||
		before.Spec.AttachmentProvider != after.Spec.AttachmentProvider
}

// namespaceChanged passes updates that change requests, or which EgressIPs and ExternalRoutes select the pods. Once any existed, each
// change of labels counts: an object that changes or goes meanwhile may have selected pods by the earlier labels.
func (r *Reconciler) namespaceChanged(before, after client.Object) bool {
	const request = networkv1alpha1.PodRecordAnnotation
	egress, _ := r.state.seen()
	return egress && trigger.LabelsChanged(before, after) || before.GetAnnotations()[request] != after.GetAnnotations()[request]
}

// nodeChanged passes updates that affect every port of a node, or its record.
func nodeChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Status.Chassis != after.Status.Chassis || before.Spec.MTU != after.Spec.MTU ||
		before.Spec.Zone != after.Spec.Zone ||
		!equality.Semantic.DeepEqual(before.Spec.DNS, after.Spec.DNS) ||
		!equality.Semantic.DeepEqual(before.Spec.PodSubnets, after.Spec.PodSubnets)
}

// requestChanged reports whether a pod's requests have changed.
func requestChanged(before, after *corev1.Pod) bool {
	for _, request := range append(networkv1alpha1.FloatingAnnotations(),
		networkv1alpha1.RequestedIPsAnnotation, networkv1alpha1.RequestedMACAnnotation,
		networkv1alpha1.IngressBandwidthAnnotation, networkv1alpha1.EgressBandwidthAnnotation, networkv1alpha1.PodRecordAnnotation,
		networks.Annotation, networks.DefaultAnnotation, networkv1alpha1.RandomHostPortsAnnotation,
		networkv1alpha1.GalaxyPortMappingAnnotation, networkv1alpha1.HostPortsAnnotation,
	) {
		was, had := before.Annotations[request]
		is, has := after.Annotations[request]
		if was != is || had != has {
			return true
		}
	}
	return false
}
