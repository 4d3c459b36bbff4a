package networkport

import (
	"context"
	"maps"
	"slices"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	// workers is how many pods are reconciled at once. Each waits for its transaction, and all that wait share the next one.
	workers = 16
	// byRequest indexes the pods that request networks: by "*", by "node/NAME", "definition/NAMESPACE/NAME" and "claim/NAMESPACE/NAME".
	// Other pods are not in it.
	byRequest = "networks.requested"
	everyPod  = "*"
)

// Kinds returns the kind of pods' ports on Networks.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Events: env.Events, Triggers: env.Triggers, Addresses: env.NetworkAddresses,
		Selectors: env.Selectors, Floating: env.Floating, Zone: env.Zone, CountDelay: env.Settings.CountDelay, Detached: &env.Detached,
		restored: &restoration{}}
	if origin, ok := kind.Origin[*Reconciler](env, topology.KindPodPorts); ok {
		// Before the first pod that requests a network, nothing was restored. A plan cannot do that; if it fails here, the plan says so.
		_ = origin.restore(context.Background())
		origin.holders.copyTo(&r.holders)
		origin.claims.copyTo(&r.claims)
		r.restored = origin.restored
	}
	env.RestoreNetworks, env.Attached, env.AttachedPods, env.OnSegments = r.restore, r.attached, r.holders.pods, r.onSegments
	env.FloatingFreed.Subscribe(r.freed)
	return []*kind.Kind{{
		Name: topology.KindPodPorts, Workers: workers, Reconciler: r,
		Owner:        func() client.Object { return &corev1.Pod{} },
		First:        func() client.ObjectList { return &corev1.PodList{} },
		FirstOptions: []client.ListOption{client.MatchingFields{byRequest: everyPod}},
		Indexes:      []kind.Index{{Object: &corev1.Pod{}, Field: byRequest, Values: indexByRequest}},
		Watches: append([]kind.Watch{
			kind.Of(&corev1.Pod{}, predicate.Funcs{CreateFunc: created, UpdateFunc: trigger.Update(changed), DeleteFunc: deleted}),
			kind.Map(&nadv1.NetworkAttachmentDefinition{}, r.requesting,
				predicate.Or[client.Object](trigger.SpecChanged(), predicate.AnnotationChangedPredicate{})),
			kind.Map(&ipamclaimsv1alpha1.IPAMClaim{}, r.claiming, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.IPPool{}, r.all, trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.Network{}, r.all, predicate.Or[client.Object](trigger.SpecChanged(),
				trigger.Changed(mtuChanged))),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.onNode, trigger.Changed(nodeChanged)),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.probed, trigger.Changed(foreignChanged)),
			kind.Map(&corev1.Namespace{}, r.in, trigger.Changed(trigger.LabelsChanged)).MetadataOnly(),
		}, r.freesHosts()...),
	}, {
		Name: topology.KindIPAMClaim, Reconciler: &Claims{r}, SkipInPlan: true,
		Watches: []kind.Watch{kind.Of(&ipamclaimsv1alpha1.IPAMClaim{})},
	}}
}

// mtuChanged passes changes of the MTU in effect.
func mtuChanged(before, after *networkv1alpha1.Network) bool {
	return before.Status.MTU != after.Status.MTU
}

// indexByRequest is the function of the index byRequest.
func indexByRequest(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Annotations[networks.Annotation] == "" {
		return nil
	}
	values := []string{everyPod, "node/" + pod.Spec.NodeName}
	requests, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil {
		return values
	}
	for _, r := range requests {
		values = append(values, "definition/"+r.Definition().String())
		if claim := r.Element.IPAMClaimReference; claim != "" {
			values = append(values, "claim/"+pod.Namespace+"/"+claim)
		}
	}
	return values
}

func requestsNetworks(o client.Object) bool { return o.GetAnnotations()[networks.Annotation] != "" }

// created passes pods that request networks, and pods whose condition is of a request that they do not have any more:
// the process that should have ended it may have ended before.
func created(e event.CreateEvent) bool { return requestsNetworks(e.Object) || isRefused(e.Object) }

// isRefused reports whether a pod's condition PodNetworksAllocated is False.
func isRefused(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false
	}
	c := podcondition.Find(pod, networkv1alpha1.PodNetworksAllocated)
	return c != nil && c.Status == corev1.ConditionFalse
}

func deleted(e event.DeleteEvent) bool { return requestsNetworks(e.Object) }

// changed passes the updates that change which networks a pod requests, whether it has ports, or which policies select it.
func changed(before, after *corev1.Pod) bool {
	if !requestsNetworks(before) && !requestsNetworks(after) {
		return isRefused(after)
	}
	return facts.WantsPort(before) != facts.WantsPort(after) ||
		!maps.Equal(before.Labels, after.Labels) ||
		before.Annotations[networks.Annotation] != after.Annotations[networks.Annotation] ||
		slices.ContainsFunc(networkv1alpha1.FloatingAnnotations(), func(name string) bool {
			return before.Annotations[name] != after.Annotations[name]
		}) ||
		allocated(before) != allocated(after) // a cache that was behind may have hidden it
}

// allocated returns what the condition PodNetworksAllocated says; empty without it.
func allocated(pod *corev1.Pod) string {
	if c := podcondition.Find(pod, networkv1alpha1.PodNetworksAllocated); c != nil {
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return ""
}

// nodeChanged passes the updates that every port of a node depends on.
func nodeChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return before.Status.Chassis != after.Status.Chassis || before.Spec.NodeID != after.Spec.NodeID ||
		before.Spec.Zone != after.Spec.Zone ||
		!slices.Equal(before.Status.PhysicalNetworks, after.Status.PhysicalNetworks) ||
		!slices.Equal(before.Spec.PhysicalNetworks, after.Spec.PhysicalNetworks)
}

func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byRequest: everyPod})
}

func (r *Reconciler) onNode(ctx context.Context, node client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byRequest: "node/" + node.GetName()})
}

// probed returns the pods of a node, which probes their addresses, and the pods that were refused.
func (r *Reconciler) probed(ctx context.Context, node client.Object) []reconcile.Request {
	return append(r.onNode(ctx, node), r.refused(ctx, node)...)
}

func (r *Reconciler) requesting(ctx context.Context, definition client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byRequest: "definition/" + client.ObjectKeyFromObject(definition).String()})
}

func (r *Reconciler) claiming(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byRequest: "claim/" + client.ObjectKeyFromObject(claim).String()})
}

func (r *Reconciler) in(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byRequest: everyPod}, client.InNamespace(namespace.GetName()))
}

func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &corev1.PodList{}, options...)
}
