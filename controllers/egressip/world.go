package egressip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/addressprobe"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// apiServerService is the Service whose endpoints are the API servers.
const apiServerService = "kubernetes"

// world is the input for choosing nodes.
type world struct {
	all       []networkv1alpha1.EgressIP
	nodes     []corev1.Node
	networks  []networkv1alpha1.NodeNetwork
	balancers []networkv1alpha1.LoadBalancerPool
	gateways  map[string]facts.Gateway // by node
	carriers  []facts.Carrier          // without their load
	plan      facts.Plan
	hosts     []facts.HostAddress // of the API server
	pools     floating.Translated
	claims    balance.Claims // on addresses of Services
	probes    addressprobe.Nodes
	allSilent bool // no node that could carry addresses responds
	zone      kind.Zone
	transit   facts.Transit // leads to nodes elsewhere
}

func (r *Reconciler) readWorld(ctx context.Context) (*world, error) {
	var all networkv1alpha1.EgressIPList
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	var pools networkv1alpha1.IPPoolList
	if err := errors.Join(r.Client.List(ctx, &all), r.Client.List(ctx, &nodes),
		r.Client.List(ctx, &networks), r.Client.List(ctx, &pools)); err != nil {
		return nil, err
	}
	// The cache has no order. Events about several owners of one address must be the same each time.
	slices.SortFunc(all.Items, func(a, b networkv1alpha1.EgressIP) int {
		if facts.PrecedesEgressIP(&a, &b) {
			return -1
		}
		return 1
	})
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(networks.Items, func(a, b networkv1alpha1.NodeNetwork) int { return cmp.Compare(a.Name, b.Name) })
	var balancers networkv1alpha1.LoadBalancerPoolList
	if err := r.Client.List(ctx, &balancers); err != nil {
		return nil, err
	}
	w := &world{all: all.Items, nodes: nodes.Items, networks: networks.Items,
		balancers: balancers.Items, gateways: map[string]facts.Gateway{}, probes: addressprobe.Read(nodes.Items, networks.Items)}
	if !r.Zone.Follows() { // a zone's operator follows the decision
		if err := r.Floating.Load(ctx); err != nil {
			return nil, err
		}
		w.pools, w.claims = floating.NewTranslated(pools.Items, r.Floating.Book), balance.NewClaims(pools.Items, all.Items)
	}
	apiServers, err := r.apiServers(ctx)
	if err != nil {
		return nil, err
	}
	w.hosts = facts.HostAddresses(nil, nil, apiServers)
	var cn networkv1alpha1.ClusterNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil {
		if plan, err := facts.ParseInUse(&cn); err == nil {
			w.plan = plan
		}
	}
	w.zone = r.Zone
	w.transit, _ = w.plan.Transit(&cn, networkv1alpha1.ZoneName(r.Zone))
	w.addCarriers(r.Reachable)
	return w, nil
}

// apiServers lists the endpoints of the API server.
func (r *Reconciler) apiServers(ctx context.Context) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := r.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{discoveryv1.LabelServiceName: apiServerService})
	return list.Items, err
}

// addCarriers adds the nodes that may carry addresses. If no node responds, none counts as unreachable, because this
// process itself may be cut off.
func (w *world) addCarriers(reachable func(string) bool) {
	networks := map[string]*networkv1alpha1.NodeNetwork{}
	for i := range w.networks {
		networks[w.networks[i].Name] = &w.networks[i]
	}
	responds := false
	for i := range w.nodes {
		node := &w.nodes[i]
		nn := networks[node.Name]
		if nn == nil {
			continue
		}
		gateway, err := facts.ParseGateway(nn, node)
		if err != nil {
			continue // its own controller reports the error
		}
		if w.zone.Elsewhere(nn) {
			gateway.ReachBy(w.transit, nn)
		}
		w.gateways[node.Name] = gateway
		if !facts.Assignable(node) {
			continue
		}
		c := facts.CarrierOf(gateway)
		c.Unreachable = reachable != nil && !reachable(node.Name)
		responds = responds || c.Router && !c.Unreachable
		w.carriers = append(w.carriers, c)
	}
	w.allSilent = !responds && slices.ContainsFunc(w.carriers, func(c facts.Carrier) bool { return c.Router })
	for i := range w.carriers {
		w.carriers[i].Unreachable = w.carriers[i].Unreachable && responds
	}
}

// carriersFor counts the addresses of other EgressIPs on each node.
func (w *world) carriersFor(name string) []facts.Carrier {
	carriers := slices.Clone(w.carriers)
	for i := range w.all {
		if w.all[i].Name == name {
			continue
		}
		for _, item := range w.all[i].Status.Items {
			for j := range carriers {
				if carriers[j].Node == item.Node {
					carriers[j].Carries++
				}
			}
		}
	}
	return carriers
}

// owner returns who already has an address, or "".
func (r *Reconciler) owner(ctx context.Context, e *networkv1alpha1.EgressIP, address netip.Addr, w *world) (string, error) {
	for i := range w.all {
		other := &w.all[i]
		if other.Name != e.Name && slices.Contains(facts.EgressAddressesInUse(other), address) && precedes(other, e, address) {
			return "it belongs to EgressIP " + other.Name, nil
		}
	}
	if whose := w.ownerOnNode(address); whose != "" {
		return whose, nil
	}
	if whose := w.ownerInside(address); whose != "" {
		return whose, nil
	}
	pool := w.pools.Owner(address, e.CreationTimestamp)
	if pool == "" && !isCarried(e, address) { // a person's reservation takes no address away
		pool = w.pools.Stranded(address)
	}
	if pool != "" {
		return "it belongs to IPPool " + pool, nil
	}
	if holder, err := r.holder(ctx, address); err != nil || holder != "" && !isCarried(e, address) {
		return holder, err
	}
	if whose := w.ownerBalancing(e, address); whose != "" {
		return whose, nil
	}
	return r.ownerService(ctx, address, w)
}

// ownerService returns the Service that has an address, or "". A Service that waits for the address does not have it.
func (r *Reconciler) ownerService(ctx context.Context, address netip.Addr, w *world) (string, error) {
	var services corev1.ServiceList
	if err := r.Client.List(ctx, &services, client.MatchingFields{r.ServicesByAddress: address.String()}); err != nil {
		return "", err
	}
	slices.SortFunc(services.Items, func(a, b corev1.Service) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for i := range services.Items {
		if s := &services.Items[i]; w.claims.Owner(s, address) == "" {
			return fmt.Sprintf("service %s/%s is balanced on it", s.Namespace, s.Name), nil
		}
	}
	return "", nil
}

// holder returns the workload that has an address of an IPPool, or "". An EgressIP that is older than the IPPool must not take it. An
// address on a Network that only the cluster has is no address of the nodes' segments.
func (r *Reconciler) holder(ctx context.Context, address netip.Addr) (string, error) {
	var f networkv1alpha1.FloatingIP
	err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.FloatingIPName(address)}, &f)
	if err != nil || f.Spec.Holder == nil {
		return "", client.IgnoreNotFound(err)
	}
	var pool networkv1alpha1.IPPool
	err = r.Client.Get(ctx, types.NamespacedName{Name: f.Spec.Pool}, &pool)
	if err == nil && pool.Spec.Network != "" {
		var network networkv1alpha1.Network
		err = r.Client.Get(ctx, types.NamespacedName{Name: pool.Spec.Network}, &network)
		if err == nil && network.Spec.Topology != networkv1alpha1.TopologyLocalnet {
			return "", nil
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	h := f.Spec.Holder
	return fmt.Sprintf("it belongs to %s %s/%s by IPPool %s", h.Kind, h.Namespace, h.Name, f.Spec.Pool), nil
}

// precedes reports whether an address is a's and not b's. The EgressIP that was granted it and requests it still keeps it. Otherwise the
// older one gets it, so that two EgressIPs can exchange their addresses.
func precedes(a, b *networkv1alpha1.EgressIP, address netip.Addr) bool {
	if x, y := keeps(a, address), keeps(b, address); x != y {
		return x
	}
	return facts.PrecedesEgressIP(a, b)
}

func keeps(e *networkv1alpha1.EgressIP, address netip.Addr) bool {
	return slices.Contains(facts.GrantedEgressAddresses(e), address) &&
		slices.Contains(e.Spec.EgressIPs, networkv1alpha1.EgressAddress(address.String()))
}

// isCarried reports whether a node carries an address of an EgressIP.
func isCarried(e *networkv1alpha1.EgressIP, address netip.Addr) bool {
	return slices.ContainsFunc(assignmentsOf(e), func(a facts.Assignment) bool { return a.Address == address })
}

// ownerOnNode returns the owner if the address belongs to a node, the API server or a router that nodes send to, or
// stands for all hosts of a node's network.
func (w *world) ownerOnNode(address netip.Addr) string {
	for i := range w.nodes {
		for _, a := range w.nodes[i].Status.Addresses {
			if own, err := netip.ParseAddr(a.Address); err == nil && own == address {
				return "it belongs to node " + w.nodes[i].Name
			}
		}
	}
	for _, host := range w.hosts {
		if host.Address == address {
			return "it is " + host.Of
		}
	}
	for i := range w.networks {
		gateway := w.networks[i].Status.Gateway
		if gateway == nil {
			continue
		}
		for _, text := range linkAddresses(gateway) {
			if own, err := text.Prefix(); err == nil && own.Addr() == address {
				return "it belongs to node " + w.networks[i].Name
			} else if err == nil && facts.IsOfAll(own, address) {
				return fmt.Sprintf("it is the address of all hosts of %s, the network of node %s's link outside",
					own.Masked(), w.networks[i].Name)
			}
		}
		for _, text := range gateway.NextHops {
			if hop, err := text.Addr(); err == nil && hop == address {
				return "it belongs to a router that node " + w.networks[i].Name + " sends to"
			}
		}
	}
	return ""
}

// linkAddresses lists the node's addresses on the links whose networks may have egress IPs.
func linkAddresses(gateway *networkv1alpha1.NodeGatewayStatus) []networkv1alpha1.InterfaceAddress {
	all := slices.Clone(gateway.Addresses)
	for _, link := range gateway.FurtherLinks {
		all = append(all, link.Addresses...)
	}
	return all
}

// ownerBalancing returns the LoadBalancerPool that has the address and takes precedence over e.
func (w *world) ownerBalancing(e *networkv1alpha1.EgressIP, address netip.Addr) string {
	for _, t := range lbpool.Kept(w.balancers, e.CreationTimestamp) {
		if t.Contains(address) {
			return fmt.Sprintf("it is in range %s of %s", t.AddressRange, t.Of)
		}
	}
	return ""
}

// ownerInside returns the cluster's own network that contains the address.
func (w *world) ownerInside(address netip.Addr) string {
	for _, c := range w.plan.PodNetworks() {
		if c.Contains(address) {
			return "it is in the network of pods " + c.String()
		}
	}
	for _, n := range w.plan.Services {
		if n.Contains(address) {
			return "it is in the network of services " + n.String()
		}
	}
	for _, n := range w.plan.Join {
		if n.Contains(address) {
			return "it is in the join subnet " + n.String()
		}
	}
	return ""
}
