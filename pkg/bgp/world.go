package bgp

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// World has the objects that decide what nodes announce. Compute only reads them.
type World struct {
	Peers          []networkv1alpha1.BGPPeer
	Advertisements []networkv1alpha1.BGPAdvertisement
	Pools          []networkv1alpha1.LoadBalancerPool
	Services       []corev1.Service
	EgressIPs      []networkv1alpha1.EgressIP
	Nodes          []corev1.Node
	Networks       []networkv1alpha1.NodeNetwork
	// Endpoints returns the EndpointSlices of a Service.
	Endpoints func(*corev1.Service) ([]discoveryv1.EndpointSlice, error)
	// NamespaceLabels returns the labels of a namespace.
	NamespaceLabels func(name string) (map[string]string, error)
}

// node is a node that may have sessions.
type node struct {
	name     string
	labels   labels.Set
	routerID netip.Addr
	nextHops []netip.Addr
	subnets  []netip.Prefix
	// serves means that the node forwards packets to addresses of load balancers. excluded means that it must announce
	// none of them. A node that is not preferred announces them only if no preferred node can.
	serves, excluded, preferred bool
	peers                       []networkv1alpha1.NodeBGPPeer
	// announced are the routes that the node announces so far.
	announced []networkv1alpha1.NodeBGPRoute
}

// nextHop returns the node's address of a family, or the zero Addr.
func (n *node) nextHop(is4 bool) netip.Addr {
	for _, a := range n.nextHops {
		if a.Is4() == is4 {
			return a
		}
	}
	return netip.Addr{}
}

// nodes returns the nodes that have a NodeNetwork, sorted by name.
func (w World) nodes() (found []*node) {
	objects := make(map[string]*corev1.Node, len(w.Nodes))
	for i := range w.Nodes {
		objects[w.Nodes[i].Name] = &w.Nodes[i]
	}
	for i := range w.Networks {
		nn := &w.Networks[i]
		object := objects[nn.Name]
		if object == nil || !nn.DeletionTimestamp.IsZero() {
			continue
		}
		gateway, err := facts.ParseGateway(nn, object)
		if err != nil {
			continue // its own controller reports the error
		}
		n := nodeOf(object, gateway)
		if nn.Spec.BGP != nil {
			n.announced = nn.Spec.BGP.Routes
		}
		found = append(found, n)
	}
	slices.SortFunc(found, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return found
}

// reservedIDs is the first of the router IDs of nodes without an IPv4 address. The block is reserved (RFC 1112), so that
// no router has such an ID.
const reservedIDs = 240

func nodeOf(object *corev1.Node, gateway facts.Gateway) *node {
	n := &node{name: object.Name, labels: object.Labels, subnets: gateway.Node.Subnets,
		serves:    gateway.HasRouter() || gateway.Mode == networkv1alpha1.GatewayLocal,
		excluded:  !lbpool.MayAnnounce(object),
		preferred: lbpool.IsReady(object) && !object.Spec.Unschedulable}
	hops := gateway.HostAddresses
	if len(gateway.Addresses) > 0 {
		hops = nil
		for _, p := range gateway.Addresses {
			hops = append(hops, p.Addr())
		}
	}
	for _, a := range hops {
		if !n.nextHop(a.Is4()).IsValid() {
			n.nextHops = append(n.nextHops, a)
		}
	}
	id := gateway.Node.ID
	n.routerID = netip.AddrFrom4([4]byte{reservedIDs, 0, byte(id >> 8), byte(id)})
	for _, a := range gateway.HostAddresses {
		if a.Is4() {
			n.routerID = a
			break
		}
	}
	return n
}

// address is an address of a load balancer that at least one Service has.
type address struct {
	netip.Addr
	pool     lbpool.Pool
	labels   labels.Set // of the pool
	services []*corev1.Service
	// local are the nodes with a ready endpoint if externalTrafficPolicy is Local, and otherwise nil.
	local map[string]bool
}

// addresses returns the addresses of LoadBalancerPools that Services have, sorted. An address in several pools belongs
// to the oldest.
func (w World) addresses() (found []*address, err error) {
	read, pools := lbpool.ByAge(w.Pools)
	for i := range read {
		read[i].KeepNodes(w.Nodes)
	}
	byAddress := map[netip.Addr]*address{}
	for i := range w.Services {
		s := &w.Services[i]
		if !lbpool.Wants(s) || !lbpool.IsOurs(s) {
			continue
		}
		for _, a := range lbpool.AddressesOf(s) {
			if byAddress[a] == nil {
				at := read.Owner(a)
				if at < 0 {
					continue
				}
				byAddress[a] = &address{Addr: a, pool: read[at], labels: pools[at].Labels}
				found = append(found, byAddress[a])
			}
			byAddress[a].services = append(byAddress[a].services, s)
		}
	}
	slices.SortFunc(found, func(a, b *address) int { return a.Compare(b.Addr) })
	return found, w.findLocal(found)
}

// findLocal sets the nodes of addresses with externalTrafficPolicy Local. Services that share such an address have the
// same policy and the same pods.
func (w World) findLocal(found []*address) error {
	for _, a := range found {
		if a.services[0].Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
			continue
		}
		endpoints, err := w.Endpoints(a.services[0])
		if err != nil {
			return err
		}
		a.local = facts.NodesWithEndpoints(endpoints)
	}
	return nil
}

// selectorOf reads a selector. An omitted selector selects everything.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}
