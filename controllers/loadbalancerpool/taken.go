package loadbalancerpool

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// taken lists the addresses in other use: in the networks of the cluster, of nodes, routers and API servers, of older pools, IPPools and
// EgressIPs. The first is reported, so objects that may themselves be refused come last.
func (r *Pools) taken(
	ctx context.Context, pool *networkv1alpha1.LoadBalancerPool, read lbpool.Pool,
) (all []lbpool.Taken, err error) {
	for _, list := range []func() ([]lbpool.Taken, error){
		func() ([]lbpool.Taken, error) { return r.takenByCluster(ctx) },
		func() ([]lbpool.Taken, error) { return r.takenByNodes(ctx, read) },
		func() ([]lbpool.Taken, error) { return r.takenByServers(ctx) },
		func() ([]lbpool.Taken, error) { return r.takenByPools(ctx, pool) },
		func() ([]lbpool.Taken, error) { return r.takenByIPPools(ctx, pool) },
		func() ([]lbpool.Taken, error) { return r.takenByEgressIPs(ctx, pool) },
	} {
		found, err := list()
		if err != nil {
			return nil, err
		}
		slices.SortFunc(found, func(a, b lbpool.Taken) int { // the message must be the same each time
			return cmp.Or(cmp.Compare(a.Of, b.Of), a.First.Compare(b.First))
		})
		all = append(all, found...)
	}
	return all, nil
}

// takenByCluster lists the networks of pods, services and routers.
func (r *Pools) takenByCluster(ctx context.Context) (taken []lbpool.Taken, err error) {
	var cn networkv1alpha1.ClusterNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	plan, err := facts.ParseInUse(&cn)
	if err != nil {
		return nil, nil // its own status says so
	}
	for _, n := range plan.PodNetworks() {
		taken = append(taken, ofNetwork(n, "ClusterNetwork's spec.clusterNetwork"))
	}
	for _, n := range plan.Services {
		taken = append(taken, ofNetwork(n, "ClusterNetwork's spec.serviceNetwork"))
	}
	for _, n := range plan.Join {
		taken = append(taken, ofNetwork(n, "ClusterNetwork's spec.joinSubnet"))
	}
	return taken, nil
}

func ofNetwork(n netip.Prefix, of string) lbpool.Taken {
	return lbpool.Taken{AddressRange: floating.Of(n), Of: of}
}

// takenByPools lists the ranges of the pools that were created before.
func (r *Pools) takenByPools(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool) (taken []lbpool.Taken, err error) {
	var all networkv1alpha1.LoadBalancerPoolList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != pool.Name && lbpool.Precedes(other, pool) {
			for _, text := range other.Spec.Addresses {
				taken = appendRange(taken, string(text), "LoadBalancerPool "+other.Name)
			}
		}
	}
	return taken, nil
}

// takenByIPPools lists the ranges of the NAT pools that take precedence over a pool, and the addresses outside that are in use.
func (r *Pools) takenByIPPools(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool) (taken []lbpool.Taken, err error) {
	var all networkv1alpha1.IPPoolList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	if err := r.Floating.Load(ctx); err != nil {
		return nil, err
	}
	for _, t := range floating.NewTranslated(all.Items, r.Floating.Book).Taken(pool) {
		taken = append(taken, lbpool.Taken(t))
	}
	return taken, nil
}

// takenByEgressIPs lists the addresses of the EgressIPs that take precedence over a pool.
func (r *Pools) takenByEgressIPs(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool) (taken []lbpool.Taken, err error) {
	var all networkv1alpha1.EgressIPList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if other := &all.Items[i]; floating.Precedes(other.CreationTimestamp, pool) {
			for _, a := range facts.EgressAddressesInUse(other) {
				taken = append(taken, lbpool.One(a, "EgressIP "+other.Name))
			}
		}
	}
	return taken, nil
}

// appendRange appends a range. The status of its own object reports a range that cannot be parsed.
func appendRange(taken []lbpool.Taken, text, of string) []lbpool.Taken {
	r, err := networkv1alpha1.ParseAddressRange(text)
	if err != nil {
		return taken
	}
	return append(taken, lbpool.Taken{AddressRange: r, Of: of})
}

// takenByNodes lists the addresses of nodes, of routers that they send to, and the addresses of all hosts of their links.
func (r *Pools) takenByNodes(ctx context.Context, pool lbpool.Pool) (taken []lbpool.Taken, err error) {
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes),
		r.Client.List(ctx, &networks)); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		for _, text := range nodes.Items[i].Status.Addresses {
			if a, err := netip.ParseAddr(text.Address); err == nil { // it may be a name
				taken = append(taken, lbpool.One(a, "node "+nodes.Items[i].Name))
			}
		}
	}
	for i := range networks.Items {
		name, gateway := networks.Items[i].Name, networks.Items[i].Status.Gateway
		if gateway == nil {
			continue
		}
		for _, text := range gateway.Addresses {
			own, err := text.Prefix()
			if err != nil {
				continue // its own controller reports the error
			}
			taken = append(taken, lbpool.One(own.Addr(), "node "+name))
			for _, a := range []netip.Addr{own.Masked().Addr(), floating.Of(own).Last} {
				if pool.Contains(a) && facts.IsOfAll(own, a) {
					taken = append(taken, lbpool.One(a, "all hosts of "+own.Masked().String()+", the network of node "+name+"'s link outside"))
				}
			}
		}
		for _, text := range gateway.NextHops {
			if hop, err := text.Addr(); err == nil {
				taken = append(taken, lbpool.One(hop, "a router that node "+name+" sends to"))
			}
		}
	}
	return taken, nil
}

// takenByServers lists the addresses of the API servers.
func (r *Pools) takenByServers(ctx context.Context) (taken []lbpool.Taken, err error) {
	var list discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{discoveryv1.LabelServiceName: apiServerService}); err != nil {
		return nil, err
	}
	for _, host := range facts.HostAddresses(nil, nil, list.Items) {
		taken = append(taken, lbpool.One(host.Address, host.Of))
	}
	return taken, nil
}

// apiServerService is the Service whose endpoints are the API servers.
const apiServerService = "kubernetes"
