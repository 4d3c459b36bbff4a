// Package lookup reads from the operator's cache which of the cluster's destinations are reserved. It uses indexes by
// address, so that the cost for a service does not depend on the number of nodes.
package lookup

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
)

// APIServer is the Service whose endpoints are the API servers.
var APIServer = types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}

// OfAPIServer reports whether an EndpointSlice lists API servers.
func OfAPIServer(o client.Object) bool {
	return o.GetNamespace() == APIServer.Namespace && o.GetLabels()[discoveryv1.LabelServiceName] == APIServer.Name
}

// Server returns the API server that a client is configured with, unless the configuration has a host name.
func Server(config *rest.Config) []reserved.Destination {
	at, err := url.Parse(config.Host)
	if err != nil {
		return nil
	}
	port := at.Port()
	if port == "" {
		port = "443"
	}
	return reserved.Remotes("the Kubernetes API server", "tcp:"+net.JoinHostPort(at.Hostname(), port))
}

// Indexes are names of indexes of the cache.
type Indexes struct {
	// ByAddress indexes Nodes by their InternalIPs, and NodeNetworks by facts.ReportedAddresses.
	ByAddress string
	// ByService indexes EndpointSlices by the name of their service.
	ByService string
	// ByNodePort indexes Services, and ByHostPort Pods, by their ports of nodes, as facts.NodePort writes them.
	ByNodePort, ByHostPort string
}

// Lookup reads reservations.
type Lookup struct {
	Client  client.Reader
	Indexes Indexes
	// Static are destinations from this process's configuration: databases, and the API server by its address.
	Static []reserved.Destination
}

// ForService returns the reservations that concern the addresses and node ports of a service. It reads nothing for a
// service that is not reachable from outside.
func (l Lookup) ForService(ctx context.Context, service *corev1.Service) (reserved.Table, error) {
	if !facts.Exposed(service) {
		return reserved.Table{}, nil
	}
	table, err := l.common(ctx)
	if err != nil {
		return table, err
	}
	addresses := facts.ExternalAddresses(service)
	if len(facts.NodePorts(service)) > 0 {
		for _, d := range table.Destinations { // destinations on a node also reserve its node ports
			addresses = append(addresses, d.Address)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, address := range slices.Compact(addresses) {
		node, found, err := l.nodeOf(ctx, address)
		if err != nil {
			return table, err
		}
		if found {
			table.Nodes[address] = node
		}
	}
	held, err := l.held(ctx, service, table)
	table.Sessions = append(table.Sessions, held...)
	return table, err
}

// held returns the node ports of other services and the host ports of pods at the external IPs of a service which are addresses of nodes.
// It is their users that chose these external IPs, and node ports are the cluster's.
func (l Lookup) held(ctx context.Context, service *corev1.Service, table reserved.Table) (found []reserved.Destination, err error) {
	for _, address := range facts.ExternalIPs(service) {
		node, onNode := table.Nodes[address]
		if !onNode {
			continue
		}
		for _, port := range service.Spec.Ports {
			owner, err := l.holder(ctx, service, facts.NodePort(port.Protocol, uint16(port.Port)), address, node)
			if err != nil {
				return nil, err
			}
			if owner != "" {
				protocol := strings.ToLower(string(cmp.Or(port.Protocol, corev1.ProtocolTCP)))
				found = append(found, reserved.Destination{Address: address,
					Port: reserved.Port{Protocol: protocol, Number: uint16(port.Port), Owner: owner}})
			}
		}
	}
	return found, nil
}

// holder returns words for the other service, or for the pod, whose port of nodes a service has at an address of a node; empty: none.
func (l Lookup) holder(ctx context.Context, service *corev1.Service, port string, address netip.Addr, node string) (string, error) {
	var services corev1.ServiceList
	var pods corev1.PodList
	err := errors.Join(l.Client.List(ctx, &services, client.MatchingFields{l.Indexes.ByNodePort: port}),
		l.Client.List(ctx, &pods, client.MatchingFields{l.Indexes.ByHostPort: port}))
	if err != nil {
		return "", err
	}
	var owners []string
	for i := range services.Items {
		if other := &services.Items[i]; other.UID != service.UID {
			owners = append(owners, "the node port of service "+client.ObjectKeyFromObject(other).String())
		}
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == node && facts.WantsPort(pod) && facts.HasHostPort(pod, port, address) {
			owners = append(owners, "the host port of pod "+client.ObjectKeyFromObject(pod).String())
		}
	}
	if len(owners) == 0 {
		return "", nil
	}
	return slices.Min(owners), nil // the cache has no order
}

// ForNode returns the reservations that concern the host ports of a node's pods.
func (l Lookup) ForNode(ctx context.Context, name string) (reserved.Table, error) {
	table, err := l.common(ctx)
	if err != nil {
		return table, err
	}
	var node corev1.Node
	var nn networkv1alpha1.NodeNetwork
	key := types.NamespacedName{Name: name}
	if err := client.IgnoreNotFound(l.Client.Get(ctx, key, &node)); err != nil {
		return table, err
	}
	if err := client.IgnoreNotFound(l.Client.Get(ctx, key, &nn)); err != nil {
		return table, err
	}
	for _, address := range append(facts.InternalIPs(&node), facts.ReportedAddresses(&nn)...) {
		table.Nodes[address] = name
	}
	return table, nil
}

// common returns the reservations that concern every service and node.
func (l Lookup) common(ctx context.Context) (reserved.Table, error) {
	table := reserved.Table{Ports: reserved.Defaults(), Nodes: map[netip.Addr]string{}}
	table.Destinations = append(table.Destinations, l.Static...)
	var cn networkv1alpha1.ClusterNetwork
	err := l.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if err == nil {
		table = table.WithPorts(facts.ReservedPorts(cn.Spec.ReservedPorts)...)
		if plan, invalid := facts.ParseClusterNetwork(&cn); invalid == nil {
			table.Networks, table.Services = plan.Reserved(), plan.Services
		}
	} else if !apierrors.IsNotFound(err) {
		return table, err
	}
	var servers discoveryv1.EndpointSliceList
	if err := l.Client.List(ctx, &servers, client.InNamespace(APIServer.Namespace),
		client.MatchingFields{l.Indexes.ByService: APIServer.Name}); err != nil {
		return table, err
	}
	for i := range servers.Items {
		table.Destinations = append(table.Destinations, facts.EndpointDestinations(&servers.Items[i], "the Kubernetes API server")...)
	}
	table.Sessions, err = l.sessions(ctx)
	return table, err
}

// sessions returns what the nodes' sessions of BGP and BFD need, in an order of their own, because the first names the owner.
func (l Lookup) sessions(ctx context.Context) (found []reserved.Destination, err error) {
	var peers networkv1alpha1.BGPPeerList
	var routes networkv1alpha1.ExternalRouteList
	if err := errors.Join(l.Client.List(ctx, &peers),
		l.Client.List(ctx, &routes)); err != nil {
		return nil, err
	}
	for i := range peers.Items {
		spec := &peers.Items[i].Spec
		if address, err := netip.ParseAddr(string(spec.PeerAddress)); err == nil {
			port := cmp.Or(uint16(spec.PeerPort), 179)
			found = append(found, facts.PeerDestinations(peers.Items[i].Name, address, port, spec.BFD != nil)...)
		}
	}
	for i := range routes.Items {
		route := &routes.Items[i]
		found = append(found, facts.HopDestinations("ExternalRoute "+route.Name, facts.WatchedHops(route)...)...)
	}
	slices.SortFunc(found, func(a, b reserved.Destination) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Owner, b.Owner))
	})
	return found, nil
}

// nodeOf returns the node that has an address.
func (l Lookup) nodeOf(ctx context.Context, address netip.Addr) (name string, found bool, err error) {
	var nodes corev1.NodeList
	if err := l.Client.List(ctx, &nodes, client.MatchingFields{l.Indexes.ByAddress: address.String()}); err != nil {
		return "", false, err
	}
	if len(nodes.Items) > 0 {
		return nodes.Items[0].Name, true, nil
	}
	var networks networkv1alpha1.NodeNetworkList
	if err := l.Client.List(ctx, &networks, client.MatchingFields{l.Indexes.ByAddress: address.String()}); err != nil {
		return "", false, err
	}
	if len(networks.Items) > 0 {
		return networks.Items[0].Name, true, nil
	}
	return "", false, nil
}
