// Package invariantcheck checks the invariants, on demand and periodically.
package invariantcheck

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/invariant"
	requested "github.com/weft-network/weft/pkg/networks"
)

// Database reads the northbound database.
type Database interface {
	// Rows returns all rows of all tables with all columns.
	Rows(ctx context.Context) (invariant.Rows, error)
}

// Reader reads the input of the invariants.
type Reader struct {
	// Client reads from the manager's cache.
	Client client.Reader
	// Zone is the part of the cluster whose rows the database has.
	Zone     kind.Zone
	Database Database
	// ClusterPolicies lists the policies of network-policy-api. It may be nil.
	ClusterPolicies func(context.Context) ([]metav1.Object, error)
	// MultiNetworkPolicies lists the MultiNetworkPolicies with their Networks. It may be nil.
	MultiNetworkPolicies func(context.Context) ([]invariant.MultiNetworkPolicy, error)
}

// World reads the database and the objects that it is derived from. They may be from different moments.
func (r *Reader) World(ctx context.Context) (invariant.World, error) {
	rows, err := r.Database.Rows(ctx)
	if err != nil {
		return invariant.World{}, err
	}
	var (
		pods     corev1.PodList
		services corev1.ServiceList
		nodes    corev1.NodeList
		networks networkv1alpha1.NodeNetworkList
		egress   networkv1alpha1.EgressIPList
		routes   networkv1alpha1.ExternalRouteList
		cn       networkv1alpha1.ClusterNetwork

		firewalls networkv1alpha1.EgressFirewallList
		qos       networkv1alpha1.EgressQoSList
		policies  networkingv1.NetworkPolicyList
		furthers  networkv1alpha1.NetworkList
		floating  networkv1alpha1.FloatingIPList
		pools     networkv1alpha1.IPPoolList
		balancers networkv1alpha1.LoadBalancerPoolList
	)
	for _, list := range []client.ObjectList{&pods, &services, &nodes, &networks, &firewalls, &egress, &policies, &furthers,
		&floating, &pools, &balancers, &qos, &routes} {
		// The objects are not changed, and copying all pods would be most of the work.
		if err := r.Client.List(ctx, list); err != nil {
			return invariant.World{}, err
		}
	}
	elsewhere, away := r.takeOut(&networks, &pods)
	world := invariant.World{NodesElsewhere: elsewhere, PodsElsewhere: away,
		Requests:   func(pod *corev1.Pod) bool { return requested.Generation(pod.Annotations) != "" },
		Northbound: rows, Nodes: nodes.Items, NodeNetworks: networks.Items, Pods: pods.Items,
		Services:        services.Items,
		EgressFirewalls: firewalls.Items, EgressQoSes: qos.Items, EgressIPs: egress.Items,
		ExternalRoutes: routes.Items, NetworkPolicies: policies.Items,
		Networks: furthers.Items, FloatingIPs: floating.Items, IPPools: pools.Items, LoadBalancerPools: balancers.Items,
		Namespaces: map[string]map[string]string{}}
	if r.ClusterPolicies != nil {
		if world.ClusterPolicies, err = r.ClusterPolicies(ctx); err != nil {
			return invariant.World{}, err
		}
	}
	if r.MultiNetworkPolicies != nil {
		if world.MultiNetworkPolicies, err = r.MultiNetworkPolicies(ctx); err != nil {
			return invariant.World{}, err
		}
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, namespaces); err != nil {
		return invariant.World{}, err
	}
	for _, namespace := range namespaces.Items {
		world.Namespaces[namespace.Name] = namespace.Labels
		if requested, _ := networkv1alpha1.ParseMulticast(namespace.Annotations); requested {
			world.Multicast = append(world.Multicast, namespace.Name)
		}
	}
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if err == nil {
		world.ClusterNetwork = &cn
		if cn.Spec.Multicast != networkv1alpha1.MulticastOnRequest {
			world.Multicast = nil
		}
	}
	return world, client.IgnoreNotFound(err)
}

// takeOut removes the nodes elsewhere and their pods, because the database has no rows of them, and returns them.
func (r *Reader) takeOut(networks *networkv1alpha1.NodeNetworkList, pods *corev1.PodList) (elsewhere map[string]bool, away []corev1.Pod) {
	elsewhere = map[string]bool{}
	networks.Items = slices.DeleteFunc(networks.Items, func(nn networkv1alpha1.NodeNetwork) bool {
		if r.Zone.Elsewhere(&nn) {
			elsewhere[nn.Name] = true
		}
		return elsewhere[nn.Name]
	})
	if len(elsewhere) > 0 {
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
			if elsewhere[p.Spec.NodeName] {
				away = append(away, p)
			}
			return elsewhere[p.Spec.NodeName]
		})
	}
	return elsewhere, away
}

// Check returns the violations. It confirms them after a pause, so that a change in flight is not mistaken for a
// violation.
func (r *Reader) Check(ctx context.Context, pause time.Duration) ([]invariant.Violation, error) {
	return confirm(ctx, r.check, pause)
}

func (r *Reader) check(ctx context.Context) ([]invariant.Violation, error) {
	world, err := r.World(ctx)
	if err != nil {
		return nil, err
	}
	return invariant.Check(world), nil
}

func confirm(ctx context.Context, check func(context.Context) ([]invariant.Violation, error),
	pause time.Duration) ([]invariant.Violation, error) {
	before, err := check(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now, err := check(ctx)
	return invariant.Persistent(before, now), err
}
