package serviceoracle

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// This file has all that depends on how Weft is called. Everything else evaluates what Weft renders.

// objects are what both sides read.
type objects struct {
	services []corev1.Service
	slices   []discoveryv1.EndpointSlice
	nodes    []corev1.Node
}

// rendering is what Weft makes of objects for one node.
type rendering struct {
	units []unit.Unit
	// variables are the values of the variables that a node's own unit has.
	variables map[string]string
	table     desired.NftTable
	flows     []desired.Flow // of the external bridge; nil in mode Local
}

// mode is how packets from outside reach the cluster.
type mode string

const (
	shared mode = "Shared"
	local  mode = "Local"
	// apart is mode Shared with uplink Interface. Clients outside are compared at the host's addresses and links.
	apart mode = "Shared, uplink Interface"
)

var modes = []mode{shared, local, apart}

func (m mode) gateway() networkv1alpha1.GatewayMode {
	if m == local {
		return networkv1alpha1.GatewayLocal
	}
	return networkv1alpha1.GatewayShared
}

// The external bridge's MAC and ports.
const (
	bridgeMAC  = "0a:00:00:00:00:01"
	physical   = 1
	patch      = 2
	ownChassis = "chassis-" + ownNode
)

// render calls the functions that the operator and the agent of node n1 call.
func render(o objects, m mode) rendering {
	networks := make([]networkv1alpha1.NodeNetwork, 0, len(o.nodes))
	for i := range o.nodes {
		networks = append(networks, nodeNetwork(&o.nodes[i], m))
	}
	bySlices := slicesByService(o)
	r := rendering{variables: map[string]string{}}
	r.operator(o, networks, bySlices)
	r.agent(o, m, bySlices)
	return r
}

func slicesByService(o objects) map[types.NamespacedName][]discoveryv1.EndpointSlice {
	found := map[types.NamespacedName][]discoveryv1.EndpointSlice{}
	for _, slice := range o.slices {
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		found[name] = append(found[name], slice)
	}
	return found
}

// operator renders as controllers/service does.
func (r *rendering) operator(
	o objects, networks []networkv1alpha1.NodeNetwork, bySlices map[types.NamespacedName][]discoveryv1.EndpointSlice,
) {
	table, others := reservedTable(o), sharing(o.services)
	for i := range o.services {
		service := &o.services[i]
		var nodes []facts.ServiceNode
		if endpoints := bySlices[nameOf(service)]; facts.PerNode(service, endpoints) {
			nodes = facts.ServiceNodes(service, o.nodes, networks)
		}
		parsed, _ := facts.ParseService(service, bySlices[nameOf(service)], nodes)
		parsed.Refuse(service, table)
		parsed.Yield(service, others(service))
		r.units = append(r.units, topology.ServiceUnit(parsed))
	}
	for i := range o.nodes {
		if o.nodes[i].Name == ownNode {
			for _, address := range facts.NodePortAddresses(&networks[i], &o.nodes[i]) {
				r.variables[names.NodeAddressVariable(names.Family(address))] = address.String()
			}
		}
	}
}

// agent renders as pkg/agent/gateway does, from the parts of the objects that the agent's cache keeps.
func (r *rendering) agent(o objects, m mode, bySlices map[types.NamespacedName][]discoveryv1.EndpointSlice) {
	var node *corev1.Node
	for i := range o.nodes {
		if o.nodes[i].Name == ownNode {
			node = &o.nodes[i]
		}
	}
	own := desired.InternalIPs(node)
	place := desired.Place{Mode: m.gateway(), Pods: podPrefixes,
		Node: facts.ServiceNode{Name: ownNode, Zone: node.Labels[corev1.LabelTopologyZone], Addresses: own}}
	var services []corev1.Service
	for i := range o.services {
		if !isProxied(&o.services[i]) {
			services = append(services, *desired.StripService(&o.services[i]))
		}
	}
	slices.SortFunc(services, func(a, b corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var frontends []desired.Frontend
	others := sharing(services)
	for i := range services {
		service := &services[i]
		parsed, _ := facts.ParseService(service, desired.Unmerged(stripped(bySlices[nameOf(service)])), nil)
		parsed.Yield(service, others(service))
		frontends = append(frontends, desired.Frontends(parsed, place)...)
	}
	table := reservedTable(o)
	frontends = desired.Unreserved(desired.WithLoopback(frontends, own, podPrefixes), table)
	r.table = desired.HostRules{Mode: m.gateway(), Addresses: desired.Addresses{Own: own, Ports: own}, Pods: podPrefixes,
		Services: servicePrefixes, Reserved: table, Frontends: frontends}.Table()
	if m != local {
		router := gatewayAddresses(own)
		r.flows = desired.ExternalBridge{Alone: m == apart, Physical: physical, Patch: patch, MAC: bridgeMAC, Addresses: router, Ports: router,
			Hidden: podPrefixes, Services: servicePrefixes, Reserved: table, Frontends: frontends}.Flows()
	}
}

// healthChecks returns the health checks that the agent serves.
func healthChecks(o objects) (found []healthCheck) {
	bySlices := slicesByService(o)
	for i := range o.services {
		service := desired.StripService(&o.services[i])
		parsed, _ := facts.ParseService(service, nil, nil)
		if isProxied(&o.services[i]) || parsed.HealthCheckPort == 0 {
			continue
		}
		ipv4, ipv6 := facts.ReadyOn(desired.Unmerged(stripped(bySlices[nameOf(service)])), ownNode)
		found = append(found, healthCheck{&o.services[i], parsed.HealthCheckPort,
			map[corev1.IPFamily]int{corev1.IPv4Protocol: ipv4, corev1.IPv6Protocol: ipv6}})
	}
	return found
}

// stripped returns slices as the agent's cache has them.
func stripped(all []discoveryv1.EndpointSlice) (kept []discoveryv1.EndpointSlice) {
	for _, slice := range all {
		if _, headless := slice.Labels[corev1.IsHeadlessService]; !headless {
			kept = append(kept, *desired.StripSlice(&slice, ownNode))
		}
	}
	return kept
}

// sharing returns a function that finds the other services with an address of one, as pkg/addresses/balance does.
func sharing(services []corev1.Service) func(*corev1.Service) []corev1.Service {
	byAddress := map[netip.Addr][]*corev1.Service{}
	for i := range services {
		for _, address := range facts.ServiceAddresses(&services[i]) {
			byAddress[address] = append(byAddress[address], &services[i])
		}
	}
	return func(service *corev1.Service) (others []corev1.Service) {
		for _, address := range facts.ServiceAddresses(service) {
			for _, other := range byAddress[address] {
				if other != service {
					others = append(others, *other)
				}
			}
		}
		return others
	}
}

// isProxied reports whether the agent's cache leaves out a service because of its label.
func isProxied(s *corev1.Service) bool {
	_, proxied := s.Labels[names.ServiceProxyLabel]
	return proxied
}

func nameOf(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func nodeNetwork(node *corev1.Node, m mode) networkv1alpha1.NodeNetwork {
	nn := networkv1alpha1.NodeNetwork{}
	nn.Name, nn.Status.Chassis = node.Name, "chassis-"+node.Name
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: m.gateway(), MACAddress: bridgeMAC}
	if m == apart {
		nn.Status.Gateway.Uplink = networkv1alpha1.UplinkInterface
		nn.Status.Gateway.Addresses = []networkv1alpha1.InterfaceAddress{"172.31.0.11/24", "2001:db8:31::11/64"}
		return nn
	}
	for _, address := range gatewayAddresses(desired.InternalIPs(node)) {
		bits := "/24"
		if address.Is6() {
			bits = "/64"
		}
		nn.Status.Gateway.Addresses = append(nn.Status.Gateway.Addresses, networkv1alpha1.InterfaceAddress(address.String()+bits))
	}
	return nn
}

// gatewayAddresses returns the first address of each family: the gateway router has one of each.
func gatewayAddresses(own []netip.Addr) (found []netip.Addr) {
	for _, address := range own {
		if !slices.ContainsFunc(found, func(a netip.Addr) bool { return a.Is4() == address.Is4() }) {
			found = append(found, address)
		}
	}
	return found
}

func reservedTable(o objects) reserved.Table {
	table := reserved.Table{Ports: reserved.Defaults(), Nodes: map[netip.Addr]string{}, Networks: podPrefixes, Services: servicePrefixes}
	for i := range o.nodes {
		for _, address := range desired.InternalIPs(&o.nodes[i]) {
			table.Nodes[address] = o.nodes[i].Name
		}
	}
	return table
}

func prefixes(text string) (found []netip.Prefix) {
	for one := range strings.SplitSeq(text, ",") {
		found = append(found, netip.MustParsePrefix(one))
	}
	return found
}

var podPrefixes, servicePrefixes = prefixes(podNetworks), prefixes(serviceNetworks)

// bugs are the planted bugs.
var bugs = map[string]func(rendering){
	"a balancer lacks a backend": func(r rendering) {
		for _, u := range r.units {
			for _, row := range u.Rows {
				if lb, ok := row.Model.(*nbdb.LoadBalancer); ok {
					for vip, backends := range lb.Vips {
						if at := strings.LastIndex(backends, ","); at > 0 {
							lb.Vips[vip] = backends[:at]
						}
					}
				}
			}
		}
	},
	"the bridge drops UDP": func(r rendering) {
		for i := range r.flows {
			if strings.Contains(r.flows[i].Match, "ct_nw_proto=17") {
				r.flows[i].Actions = "drop"
			}
		}
	},
	"the host has no translations": func(r rendering) {
		for _, set := range r.table.Sets {
			if set.Value != "" {
				clear(set.Elements)
			}
		}
	},
}
