package egressfirewall

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	// workers is how many firewalls or sets are reconciled concurrently. Each waits for its transaction, and all that
	// wait share the next one.
	workers = 4
	// questions is how many names are resolved concurrently.
	questions = 16
)

// Kinds returns the kinds of firewalls' units, and of the sets that they name.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Names: env.Names, Events: env.Events, Triggers: env.Triggers}
	nodes := &Nodes{Client: env.Client, Database: env.Database, Triggers: env.Triggers}
	dns := &DNS{Client: env.Client, Database: env.Database, Resolver: env.Names, Triggers: env.Triggers, Policies: &env.PolicyNames,
		Load: env.Selectors.Load, WildcardsChanged: &env.WildcardsChanged}
	env.Wildcards = dns.Wildcards
	if env.IsPlan() {
		dns.Resolver = Frozen{env.Names}
	}
	return []*kind.Kind{nodes.kind(), dns.kind(), r.kind()}
}

func (r *Reconciler) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindEgressFirewall, Workers: workers, Reconciler: r,
		Owner:   func() client.Object { return &networkv1alpha1.EgressFirewall{} },
		Indexes: []kind.Index{{Object: &networkv1alpha1.EgressFirewall{}, Field: BySet, Values: IndexBySet}},
		Watches: []kind.Watch{
			kind.Of(&networkv1alpha1.EgressFirewall{},
				predicate.Or[client.Object](trigger.Changed(changed), annotation.Changed())),
			kind.Map(&corev1.Namespace{}, firewallOf, annotation.NamespaceChanged()).MetadataOnly(),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, r.All,
				predicate.Or(trigger.SpecChanged(), trigger.Changed(networksChanged))),
		},
	}
}

// firewallOf returns a request for the firewall of a namespace.
func firewallOf(_ context.Context, namespace client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace.GetName(),
		Name: networkv1alpha1.EgressFirewallName}}}
}

// All returns a request for each firewall.
func (r *Reconciler) All(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkv1alpha1.EgressFirewallList{})
}

func (r *Nodes) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindNodes, Controller: "egressfirewall-nodes", Workers: workers, Reconciler: r, Shared: true,
		Watches: []kind.Watch{
			kind.Map(&networkv1alpha1.EgressFirewall{}, requests(topology.KindNodes), trigger.SpecChanged()),
			kind.Map(&corev1.Node{}, r.InUse, trigger.Changed(nodeChanged)),
		},
	}
}

func (r *DNS) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindDNS, Controller: "egressfirewall-dns", Workers: questions, Reconciler: r, Shared: true,
		Watches: []kind.Watch{
			kind.Map(&networkv1alpha1.EgressFirewall{}, requests(topology.KindDNS), trigger.SpecChanged()),
			kind.Map(&networkv1alpha1.NodeNetwork{}, observed, trigger.Changed(observationsChanged)),
			kind.Map(&networkv1alpha1.ClusterNetwork{}, r.allWildcards, trigger.SpecChanged()),
			kind.Map(&corev1.Service{}, r.allWildcards, kind.NameServersChanged()),
		},
	}
}

// changed passes changes of the spec and the status, including our own writes. Conditions that equal an outdated
// status are not written, so they are compared again when our last write arrives.
func changed(before, after *networkv1alpha1.EgressFirewall) bool {
	return before.Generation != after.Generation || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// networksChanged passes changes of which networks of a ClusterNetwork are in force.
func networksChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Status.Networks, after.Status.Networks)
}

// nodeChanged passes changes of the node's labels and addresses.
func nodeChanged(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}
