package loadbalancerpool

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// keepNodes lets a pool go on with its former selector of nodes if its own selects none. It records a selector that selects a node.
func (r *Pools) keepNodes(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool, d *decision) error {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return err
	}
	own, former := d.pool.KeepNodes(nodes.Items)
	if d.nodeSelector = pool.Status.NodeSelector; own {
		d.nodeSelector = cmp.Or(pool.Spec.NodeSelector, &metav1.LabelSelector{})
	}
	d.formerNodes = former
	return nil
}

// nodes lists the nodes that a pool selects.
func (r *Pools) nodes(ctx context.Context, pool lbpool.Pool) (found []lbpool.Node, err error) {
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes),
		r.Client.List(ctx, &networks)); err != nil {
		return nil, err
	}
	byName := map[string]*networkv1alpha1.NodeNetwork{}
	for i := range networks.Items {
		byName[networks.Items[i].Name] = &networks.Items[i]
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		nn := byName[node.Name]
		if nn == nil || !lbpool.MayAnnounce(node) || !pool.Nodes.Matches(labels.Set(node.Labels)) {
			continue
		}
		gateway, err := facts.ParseGateway(nn, node)
		if err != nil {
			continue // its own controller reports the error
		}
		found = append(found, lbpool.Node{Name: node.Name, Networks: gateway.Addresses, Router: gateway.HasRouter(),
			ByHost:   gateway.AnswersByHost(),
			Healthy:  lbpool.IsReady(node) && (r.Reachable == nil || r.Reachable(node.Name)),
			Cordoned: node.Spec.Unschedulable})
	}
	return found, nil
}

// localNodes returns the nodes that can serve the clients of Services that share an address, or nil for all nodes. Services that share
// an address have the same externalTrafficPolicy. If it is Local, the nodes have endpoints of all, or else of the first.
func (r *Pools) localNodes(ctx context.Context, services []*corev1.Service) (local map[string]bool, err error) {
	if services[0].Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil, nil
	}
	for _, s := range services {
		var list discoveryv1.EndpointSliceList
		if err := r.Client.List(ctx, &list, client.InNamespace(s.Namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: s.Name}); err != nil {
			return nil, err
		}
		of := facts.NodesWithEndpoints(list.Items)
		both := maps.Clone(of)
		maps.DeleteFunc(both, func(node string, _ bool) bool { return !local[node] })
		switch {
		case local == nil:
			local = of
		case len(both) > 0:
			local = both
		}
	}
	return local, nil
}

// Speakers returns a function that lists the nodes to probe whose gateway mode is Local, or is not, each with its Kubernetes
// address. Without an address that a node answers for it lists none. A host that answers goes on while its agent is replaced.
func Speakers(c client.Reader, inLocalMode bool) func(ctx context.Context) map[string]netip.Addr {
	return func(ctx context.Context) map[string]netip.Addr {
		var pools networkv1alpha1.LoadBalancerPoolList
		var nodes corev1.NodeList
		var networks networkv1alpha1.NodeNetworkList
		err := errors.Join(c.List(ctx, &pools), c.List(ctx, &nodes),
			c.List(ctx, &networks))
		if err != nil ||
			!slices.ContainsFunc(pools.Items, func(p networkv1alpha1.LoadBalancerPool) bool { return p.Status.Used > 0 }) {
			return nil
		}
		isLocal := map[string]bool{}
		for i := range networks.Items {
			gateway := networks.Items[i].Status.Gateway
			isLocal[networks.Items[i].Name] = gateway != nil && gateway.Mode == networkv1alpha1.GatewayLocal
		}
		targets := map[string]netip.Addr{}
		for i := range nodes.Items {
			if isLocal[nodes.Items[i].Name] != inLocalMode {
				continue
			}
			if addresses := facts.InternalIPs(&nodes.Items[i]); len(addresses) > 0 && lbpool.MayAnnounce(&nodes.Items[i]) {
				targets[nodes.Items[i].Name] = addresses[0]
			}
		}
		return targets
	}
}
