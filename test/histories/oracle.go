package histories

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// oracle computes the required northbound database from the API server's objects. From the database it takes only
// assignments that exist nowhere else: a pod's address, MAC and slot. It then checks that they are valid.
type oracle struct {
	*objects
	secondary
	floats
	zone     kind.Zone // whose database it judges
	rows     database
	unpinned map[string]bool
	// addressed are the addresses that IPAMClaims had at the previous check, by UID.
	addressed map[types.UID][]string
	// reached are the nodes that ever reported a connection with a segment.
	reached map[string]bool
	// overlaid are the Networks that ever had a topology other than Localnet.
	overlaid map[string]bool
	// everSelected has "NETWORK/NAMESPACE" of the Networks that ever selected a namespace.
	everSelected map[string]bool

	units    []unit.Unit
	nodesOf  map[string]facts.Node
	used     map[netip.Addr]string     // address -> pod
	portless []netip.Addr              // that pods without a port report
	slots    map[string]map[int]string // node -> slot -> pod
	wrong    []error
}

func (o *oracle) complain(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Errorf(format, args...))
}

// expect computes all units, and reports invalid assignments.
func (o *oracle) expect() ([]unit.Unit, error) {
	o.nodesOf, o.used, o.slots = map[string]facts.Node{}, map[netip.Addr]string{}, map[string]map[int]string{}
	if err := o.readFloating(); err != nil {
		return nil, err
	}
	plan := o.plan
	if !o.decides() {
		plan.Floating = nil // a zone has no floating addresses
	}
	network := plan.Network(o.zone.Database(o.cluster))
	network.Clustered = facts.Clustered(o.cn, networkv1alpha1.ZoneName(o.zone))
	o.units = append(o.units, topology.NetworkUnit(network))
	o.expectTransit()
	for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
		o.expectNode(o.nodes[name])
	}
	for name := range o.networks {
		if o.nodes[name] == nil {
			o.complain("NodeNetwork %s has no Node", name)
		}
	}
	var without []*corev1.Pod
	for i := range o.pods {
		if pod := &o.pods[i]; !o.expectPod(pod) {
			without = append(without, pod)
		}
	}
	for _, pod := range without {
		if node := o.nodesOf[pod.Spec.NodeName]; o.mayHavePort(pod) && o.hasRoom(node) {
			o.complain("pod %s/%s has no port, although node %s has free addresses", pod.Namespace, pod.Name, node.Name)
		}
	}
	o.expectServices()
	o.expectFirewalls()
	o.expectQoS()
	o.expectMulticast()
	o.expectPolicies()
	o.expectEgress()
	o.expectLeaving()
	o.checkFull(without)
	if o.decides() {
		o.checkChange()
		o.expectLoadBalancers()
		o.expectBGP()
		o.expectNetworks()
	} else {
		for i := range o.balancers {
			o.expectAnnounced(&o.balancers[i])
		}
	}
	return o.units, errors.Join(o.wrong...)
}

// expectNode expects the rows of a node with a network. A node may lack a network only if no subnet is left.
func (o *oracle) expectNode(node *corev1.Node) {
	nn := o.networks[node.Name]
	if nn == nil {
		if used := slices.Concat(o.subnets(""), o.plan.Floating); len(o.plan.Exhausted(used)) == 0 {
			o.complain("node %s has no NodeNetwork, although subnets are left", node.Name)
		}
		return
	}
	if owner := metav1.GetControllerOf(nn); owner == nil || owner.UID != node.UID {
		o.complain("NodeNetwork %s is owned by %+v, not by the Node %s", nn.Name, owner, node.UID)
	}
	read, err := facts.ParseNodeNetwork(nn)
	if err != nil {
		o.complain("NodeNetwork %s: %w", nn.Name, err)
		return
	}
	o.checkNetwork(nn)
	o.nodesOf[node.Name], o.slots[node.Name] = read, map[int]string{}
	gateway, err := facts.ParseGateway(nn, node)
	if err != nil {
		o.complain("NodeNetwork %s: %w", nn.Name, err)
		return
	}
	read.Multicast, gateway.Routed = o.plan.Multicast, len(o.routes) > 0
	gateway.Leaving = facts.Leaving(o.services)
	gateway.RoutedPods = o.routedOn(node.Name)
	own := o.ownPart(node.Name)
	o.units = append(o.units, own(topology.NodeUnit(read)))
	if read.Chassis != "" { // without a report, the previous values stay in force
		o.units = append(o.units, own(topology.GatewayUnit(gateway)))
	}
}

// subnets lists the subnets of all nodes except one.
func (o *oracle) subnets(except string) (found []netip.Prefix) {
	for name, nn := range o.networks {
		for _, cidr := range nn.Spec.PodSubnets {
			if prefix, err := cidr.Prefix(); err == nil && name != except {
				found = append(found, prefix)
			}
		}
	}
	return found
}

// expectPod expects the port of a pod. It returns true if the port exists or must not exist.
func (o *oracle) expectPod(pod *corev1.Pod) bool {
	node, ok := o.nodesOf[pod.Spec.NodeName]
	if !hasOwnInterface(pod) || !ok {
		return true
	}
	if o.elsewhere(node.Name) {
		o.expectPodElsewhere(pod, node)
		return true
	}
	id := topology.PodPortUUID(pod.Namespace, pod.Name, interfaceUID(pod))
	r, ok := o.rows["Logical_Switch_Port"][id]
	if !ok {
		if node.Chassis == "" { // a process that starts before the agent reports keeps what the pod reports
			o.portless = append(o.portless, reported(pod)...)
		}
		return node.Chassis == "" // the port follows the agent's report
	}
	port, err := parsePort(id, r)
	if err != nil {
		o.complain("port of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		return true
	}
	given := o.givenTo(pod, r)
	o.checkAssignment(pod, node, port, given.own)
	chassis := node.Chassis
	if chassis == "" {
		chassis = port.chassis // the last reported chassis stays until the agent reports again
	}
	want := topology.Pod{Namespace: pod.Namespace, Name: pod.Name,
		UID: interfaceUID(pod), Node: node.Name,
		Chassis: chassis, Addresses: port.addresses, MAC: macOf(port.addresses), Slot: port.slot, HostPorts: o.hostPortsOf(pod),
		Networks: networks.Generation(pod.Annotations),
		EgressIP: facts.SelectEgress(o.egress, o.services, pod.Namespace, o.labels[pod.Namespace], pod.Labels), Selected: o.selectedBy(pod),
		Floating: given.own, Translated: given.translated, NextHops: o.nextHopsOf(pod)}
	switch {
	case len(given.own) > 0:
		want.WaysOut = o.waysOut(node, given.own)
	case len(given.translated) > 0 && node.Chassis == "":
		want.WaysOut, want.Clusters = o.waysBack(port.addresses)
	}
	if len(given.translated) > 0 && node.Chassis != "" {
		gateway, err := facts.ParseGateway(o.networks[node.Name], o.nodes[node.Name])
		if err == nil && gateway.HasRouter() { // its error is reported already
			want.WaysOut, want.Clusters = gateway.WaysOut(), gateway.Clusters
		}
	}
	o.units = append(o.units, topology.PodUnit(want))
	return true
}

// macOf returns the MAC derived from a pod's addresses.
func macOf(addresses []netip.Addr) net.HardwareAddr { return ipam.MAC(addresses) }

// checkAssignment checks a pod's assignment. Instead of an address of its node it has its own floating addresses of a
// family.
func (o *oracle) checkAssignment(pod *corev1.Pod, node facts.Node, port podPort, own []netip.Addr) {
	name := pod.Namespace + "/" + pod.Name
	ordinary := slices.DeleteFunc(slices.Clone(port.addresses), func(a netip.Addr) bool { return slices.Contains(own, a) })
	if len(port.addresses) == 0 || len(ordinary)+len(own) != len(port.addresses) || twice(ordinary) ||
		slices.ContainsFunc(ordinary, func(a netip.Addr) bool { return hasFamily(own, a.Is4()) }) {
		o.complain("pod %s has addresses %v on node %s with subnets %v, and its FloatingIPs %v", name, port.addresses, node.Name,
			node.Subnets, own)
	}
	for _, a := range ordinary {
		if !slices.ContainsFunc(node.Subnets, func(s netip.Prefix) bool { return ipam.IsPodAddress(s, a) }) {
			o.complain("pod %s has %s, which is not a pod address in the subnets %v of node %s", name, a, node.Subnets, node.Name)
		}
		if other := o.used[a]; other != "" {
			o.complain("pods %s and %s both have %s", other, name, a)
		}
		o.used[a] = name
	}
	if port.slot < 16 || port.slot > 32767 {
		o.complain("port of pod %s requests tunnel key %d", name, port.slot)
	}
	if other := o.slots[node.Name][port.slot]; other != "" {
		o.complain("ports of pods %s and %s on node %s both request tunnel key %d", other, name, node.Name, port.slot)
	}
	o.slots[node.Name][port.slot] = name
	if addresses := reported(pod); len(own) == 0 && len(addresses) > 0 && !o.unpinned[string(pod.UID)] &&
		within(addresses, node.Subnets) && !slices.Equal(addresses, port.addresses) {
		o.complain("pod %s reported %v, but its port has %v", name, addresses, port.addresses)
	}
}

// twice reports whether two addresses are of one family.
func twice(addresses []netip.Addr) bool {
	return len(addresses) > 2 || len(addresses) == 2 && addresses[0].Is4() == addresses[1].Is4()
}

// hasRoom reports whether a node has a free address of each family, in subnets that are not leaving.
func (o *oracle) hasRoom(node facts.Node) bool {
	giving := slices.DeleteFunc(slices.Clone(node.Subnets), func(s netip.Prefix) bool { return slices.Contains(node.Leaving, s) })
	for _, is4 := range families(giving) {
		var free int64
		for _, s := range giving {
			if s.Addr().Is4() == is4 {
				_, used := o.countIn(s)
				free += ipam.Capacity(s) - used
			}
		}
		if free <= 0 {
			return false
		}
	}
	return len(giving) > 0
}

// countIn returns the number of pod addresses within a network: of ports, and at most.
func (o *oracle) countIn(network netip.Prefix) (least, most int64) {
	for a := range o.used {
		if network.Contains(a) {
			least++
		}
	}
	most = least
	for _, a := range o.portless {
		if network.Contains(a) && o.used[a] == "" {
			most++
		}
	}
	return least, most
}

func families(subnets []netip.Prefix) (found []bool) {
	for _, s := range subnets {
		if is4 := s.Addr().Is4(); !slices.Contains(found, is4) {
			found = append(found, is4)
		}
	}
	return found
}
