package kind

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// SegmentHost is an address of a machine outside of the pods' networks. A pod with such an address on a segment of the data
// centre would receive the machine's packets.
type SegmentHost struct {
	Address netip.Addr
	Of      string // "node n1"
	// Link is the address with the prefix length of the node's link; invalid if the length is not known.
	Link netip.Prefix
}

// SegmentHosts lists the addresses of nodes, of the routers that nodes send to, of API servers, of the static routers of ExternalRoutes,
// and of BGPPeers. It reads the cache.
func SegmentHosts(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	for _, list := range []func(context.Context, client.Reader) ([]SegmentHost, error){nodeHosts, linkHosts, apiServerHosts, routerHosts} {
		found, err := list(ctx, c)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, found...)
	}
	return hosts, nil
}

// SegmentMAC is the MAC of a machine outside of the pods' networks. A pod with such a MAC on a segment of the data centre would receive
// the machine's frames.
type SegmentMAC struct {
	MAC networkv1alpha1.MACAddress
	Of  string // "node n1"
	// Node means that the machine is a node.
	Node bool
}

// SegmentMACs lists the MACs of nodes' links, then the MACs of the hosts that answered probes of nodes. It reads the cache.
func SegmentMACs(ctx context.Context, c client.Reader) (macs []SegmentMAC, err error) {
	var networks networkv1alpha1.NodeNetworkList
	err = c.List(ctx, &networks)
	for i := range networks.Items {
		macs = append(macs, macsOf(&networks.Items[i])...)
	}
	slices.SortStableFunc(macs, func(a, b SegmentMAC) int { // the cache has no order
		if a.Node != b.Node && a.Node {
			return -1
		} else if a.Node != b.Node {
			return 1
		}
		return cmp.Compare(a.Of, b.Of)
	})
	return macs, err
}

// macsOf lists the MACs that the agent of a node reports.
func macsOf(nn *networkv1alpha1.NodeNetwork) (macs []SegmentMAC) {
	add := func(mac networkv1alpha1.MACAddress, of string, isNode bool) {
		if mac != "" {
			macs = append(macs, SegmentMAC{MAC: mac, Of: of, Node: isNode})
		}
	}
	if gateway := nn.Status.Gateway; gateway != nil {
		add(gateway.MACAddress, "node "+nn.Name, true)
		for _, link := range gateway.FurtherLinks {
			add(link.MACAddress, "node "+nn.Name, true)
		}
	}
	for _, physical := range nn.Status.PhysicalNetworks {
		add(physical.MACAddress, "node "+nn.Name, true)
	}
	for _, probed := range nn.Status.Probed {
		add(probed.MACAddress, "the host that answers for "+string(probed.Address), false)
	}
	return macs
}

// Machines lists the addresses of nodes in Kubernetes, and of API servers: hosts that route no packets of others. It reads the cache.
func Machines(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	nodes, err := nodeHosts(ctx, c)
	if err != nil {
		return nil, err
	}
	servers, err := apiServerHosts(ctx, c)
	return append(nodes, servers...), err
}

// MachineWatches watches what Machines reads, and reconciles the results of requests.
func MachineWatches(requests handler.MapFunc) []Watch {
	return []Watch{
		Map(&corev1.Node{}, requests, trigger.Changed(addressesChanged)),
		Map(&discoveryv1.EndpointSlice{}, requests, predicate.NewPredicateFuncs(lookup.OfAPIServer)),
	}
}

// add appends an address, unless it is a name or invalid: its own controller reports that.
func add[T ~string](hosts []SegmentHost, text T, of string) []SegmentHost {
	if a, err := netip.ParseAddr(string(text)); err == nil {
		return append(hosts, SegmentHost{Address: a.Unmap(), Of: of})
	}
	return hosts
}

func nodeHosts(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	var nodes corev1.NodeList
	err = c.List(ctx, &nodes)
	for i := range nodes.Items {
		for _, address := range nodes.Items[i].Status.Addresses {
			hosts = add(hosts, address.Address, "node "+nodes.Items[i].Name)
		}
	}
	return hosts, err
}

// linkHosts lists the addresses of the nodes' gateways, and of the routers that the nodes send to.
func linkHosts(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	var networks networkv1alpha1.NodeNetworkList
	err = c.List(ctx, &networks)
	for i := range networks.Items {
		gateway, node := networks.Items[i].Status.Gateway, "node "+networks.Items[i].Name
		if gateway == nil {
			continue
		}
		for _, text := range gateway.Addresses {
			if own, err := text.Prefix(); err == nil {
				hosts = append(hosts, SegmentHost{Address: own.Addr(), Of: node, Link: own})
			}
		}
		for _, hop := range gateway.NextHops {
			hosts = add(hosts, hop, "a router that "+node+" sends to")
		}
	}
	return hosts, err
}

func apiServerHosts(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	var slices discoveryv1.EndpointSliceList
	err = c.List(ctx, &slices, client.InNamespace(lookup.APIServer.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: lookup.APIServer.Name})
	for i := range slices.Items {
		for _, endpoint := range slices.Items[i].Endpoints {
			for _, address := range endpoint.Addresses {
				hosts = add(hosts, address, "the Kubernetes API server")
			}
		}
	}
	return hosts, err
}

func routerHosts(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	var routes networkv1alpha1.ExternalRouteList
	if err := c.List(ctx, &routes); err != nil {
		return nil, err
	}
	for i := range routes.Items {
		for _, hop := range routes.Items[i].Spec.NextHops.Static {
			hosts = add(hosts, hop.Address, "a router of ExternalRoute "+routes.Items[i].Name)
		}
		for _, hop := range facts.FormerNextHops(&routes.Items[i]) {
			hosts = add(hosts, hop.Address, "a router of ExternalRoute "+routes.Items[i].Name)
		}
	}
	var peers networkv1alpha1.BGPPeerList
	err = c.List(ctx, &peers)
	for i := range peers.Items {
		hosts = add(hosts, peers.Items[i].Spec.PeerAddress, "the router of BGPPeer "+peers.Items[i].Name)
	}
	return hosts, err
}

// TranslatedAddresses lists the addresses that EgressIPs and the Services of LoadBalancerPools use on segments, sorted by their users. It
// reads the cache.
func TranslatedAddresses(ctx context.Context, c client.Reader) (hosts []SegmentHost, err error) {
	var egress networkv1alpha1.EgressIPList
	var balancers networkv1alpha1.LoadBalancerPoolList
	if err := errors.Join(c.List(ctx, &egress),
		c.List(ctx, &balancers)); err != nil {
		return nil, err
	}
	for i := range egress.Items {
		for _, a := range facts.EgressAddressesInUse(&egress.Items[i]) {
			hosts = append(hosts, SegmentHost{Address: a, Of: "EgressIP " + egress.Items[i].Name})
		}
	}
	for i := range balancers.Items {
		pool, _ := lbpool.ParsePool(&balancers.Items[i]) // its own status reports the error
		for _, a := range pool.InUse {
			hosts = append(hosts, SegmentHost{Address: a, Of: "LoadBalancerPool " + pool.Name})
		}
	}
	slices.SortStableFunc(hosts, func(a, b SegmentHost) int { return cmp.Compare(a.Of, b.Of) }) // the cache has no order
	return hosts, nil
}

// TranslatedWatches watches what TranslatedAddresses reads, and reconciles the results of requests.
func TranslatedWatches(requests handler.MapFunc) []Watch {
	return []Watch{
		Map(&networkv1alpha1.EgressIP{}, requests, EgressAddressesChanged()),
		Map(&networkv1alpha1.LoadBalancerPool{}, requests, BalancersChanged()),
	}
}

// SegmentHostWatches watches what SegmentHosts and SegmentMACs read, and reconciles the results of requests.
func SegmentHostWatches(requests handler.MapFunc) []Watch {
	return append(MachineWatches(requests),
		Map(&networkv1alpha1.NodeNetwork{}, requests, trigger.Changed(linksChanged)),
		Map(&networkv1alpha1.ExternalRoute{}, requests, trigger.Changed(staticRoutersChanged)),
		Map(&networkv1alpha1.BGPPeer{}, requests, trigger.SpecChanged()))
}

// staticRoutersChanged passes the updates of ExternalRoutes that change what SegmentHosts returns.
func staticRoutersChanged(before, after *networkv1alpha1.ExternalRoute) bool {
	return before.Generation != after.Generation || !slices.Equal(facts.FormerNextHops(before), facts.FormerNextHops(after))
}

// addressesChanged passes the updates of Nodes that change what SegmentHosts returns.
func addressesChanged(before, after *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// linksChanged passes the updates of NodeNetworks that change what SegmentHosts or SegmentMACs returns.
func linksChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway) || !slices.Equal(macsOf(before), macsOf(after))
}
