package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/acllog/annotation"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// workers is how many policies or sets are reconciled concurrently. Each waits for its transaction, and all that wait
// share the next one.
const workers = 8

// Kinds returns the kinds of policies' units, and of the port groups and address sets that they use.
func Kinds(env *kind.Env) []*kind.Kind {
	r := &Reconciler{Client: env.Client, Database: env.Database, Selectors: env.Selectors, Events: env.Events, Triggers: env.Triggers,
		Zone: env.Zone, Names: &env.PolicyNames, Answers: env.Names, Reported: &env.PoliciesReported}
	env.ClusterPolicies = func(ctx context.Context) ([]metav1.Object, error) {
		return ClusterPolicies(ctx, env.Client, env.Served)
	}
	env.Selectors.LoadFrom(r.load)
	kinds := []*kind.Kind{
		r.sets(topology.KindPodGroup),
		r.sets(topology.KindPodSet),
		r.kind(),
	}
	definitions := &Definitions{Live: env.Live}
	for _, of := range ClusterKinds() {
		cluster := &Cluster{Reconciler: r, Optional: r.optional(of, env.Served, clusterPolicyChanged)}
		r.Clusters, definitions.Kinds = append(r.Clusters, cluster), append(definitions.Kinds, cluster.Optional)
		kinds = append(kinds, cluster.kind())
	}
	r.Multi = &Multi{Reconciler: r, Optional: r.optional(multiKind(), env.Served, multiPolicyChanged)}
	definitions.Kinds = append(definitions.Kinds, r.Multi.Optional)
	r.QoS, r.Multicast = &QoS{Reconciler: r, CountDelay: env.Settings.CountDelay}, &Multicast{r}
	return append(kinds, r.Multi.kind(), r.QoS.kind(), r.Multicast.kind(), definitions.kind())
}

func (r *Reconciler) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindNetworkPolicy, Workers: workers, Reconciler: r,
		Indexes: []kind.Index{{Object: &corev1.Pod{}, Field: byLabel, Values: indexByLabel}},
		Owner:   func() client.Object { return &networkingv1.NetworkPolicy{} },
		Watches: []kind.Watch{
			kind.Of(&networkingv1.NetworkPolicy{}, predicate.Or(trigger.SpecChanged(), annotation.Changed())),
			kind.Map(&corev1.Namespace{}, r.policiesIn, annotation.NamespaceChanged()).MetadataOnly(),
		},
	}
}

// sets returns the kind of port groups or of address sets.
func (r *Reconciler) sets(name string) *kind.Kind {
	return &kind.Kind{Name: name, Workers: workers, Shared: true,
		Reconciler: &Sets{Database: r.Database, Selectors: r.Selectors, Kind: name}}
}

// policiesIn returns a request for each policy of a namespace.
func (r *Reconciler) policiesIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return kind.Requests(ctx, r.Client, &networkingv1.NetworkPolicyList{}, client.InNamespace(namespace.GetName()))
}
