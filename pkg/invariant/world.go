package invariant

import (
	"reflect"

	"github.com/ovn-kubernetes/libovsdb/model"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// World is the input of Check, read at one time.
type World struct {
	// Northbound has all rows of OVN's northbound database, with all columns, by table. References into a table that
	// is absent here are not followed.
	Northbound Rows
	// Southbound has the rows of the southbound database, or is nil if it was not read.
	Southbound Rows
	// ClusterNetwork is nil if none exists.
	ClusterNetwork *networkv1alpha1.ClusterNetwork
	Nodes          []corev1.Node
	// NodeNetworks and Pods are in the zone whose rows the database has.
	NodeNetworks []networkv1alpha1.NodeNetwork
	Pods         []corev1.Pod
	// Requests reports whether a pod requests secondary networks. If it is nil, none does.
	Requests func(pod *corev1.Pod) bool
	// NodesElsewhere are the nodes of other zones, and PodsElsewhere their pods.
	NodesElsewhere map[string]bool
	PodsElsewhere  []corev1.Pod
	Services       []corev1.Service

	EgressFirewalls []networkv1alpha1.EgressFirewall
	EgressQoSes     []networkv1alpha1.EgressQoS
	EgressIPs       []networkv1alpha1.EgressIP
	ExternalRoutes  []networkv1alpha1.ExternalRoute
	// Multicast are the namespaces that request multicast, unless the ClusterNetwork does not offer it.
	Multicast []string
	// LoadBalancerPools are the pools of load balancers' addresses.
	LoadBalancerPools []networkv1alpha1.LoadBalancerPool
	NetworkPolicies   []networkingv1.NetworkPolicy
	FloatingIPs       []networkv1alpha1.FloatingIP
	IPPools           []networkv1alpha1.IPPool
	// Networks are pods' secondary networks.
	Networks []networkv1alpha1.Network
	// ClusterPolicies are the policies of network-policy-api, of all kinds.
	ClusterPolicies []metav1.Object
	// MultiNetworkPolicies are the policies for pods' ports on Networks.
	MultiNetworkPolicies []MultiNetworkPolicy
	// Namespaces has the labels of namespaces, by name.
	Namespaces map[string]map[string]string
}

// MultiNetworkPolicy is a MultiNetworkPolicy and the Networks to which it applies.
type MultiNetworkPolicy struct {
	Policy   *cniv1beta1.MultiNetworkPolicy
	Networks []string
}

// Rows are rows of generated models by the name of their table.
type Rows = map[string][]model.Model

// rowsIn returns the rows of one table, typed.
func rowsIn[T any](rows Rows, table string) []*T {
	found := make([]*T, 0, len(rows[table]))
	for _, row := range rows[table] {
		if typed, ok := row.(*T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// view is a world with the indexes that checks share.
type view struct {
	World
	tables      map[reflect.Type]string // generated type -> its table
	switches    []*nbdb.LogicalSwitch
	routers     []*nbdb.LogicalRouter
	ports       []*nbdb.LogicalSwitchPort
	routerPorts []*nbdb.LogicalRouterPort

	onSwitch     map[string][]*nbdb.LogicalSwitch       // port UUID -> switches that list it
	onRouter     map[string][]*nbdb.LogicalRouter       // router port UUID -> routers that list it
	routerByName map[string][]*nbdb.LogicalRouterPort   // name -> router ports
	owned        map[unit.Key][]*nbdb.LogicalSwitchPort // owner -> its switch ports

	nodes    map[string]*corev1.Node
	networks map[string]*networkv1alpha1.NodeNetwork // node -> its NodeNetwork
	pods     map[unit.Key]*corev1.Pod                // pods that need a port
	away     map[unit.Key]*corev1.Pod                // pods elsewhere that need a port
	balanced map[unit.Key]bool                       // services with addresses
	leaving  map[unit.Key]bool                       // services whose pods leave with their addresses

	firewalls map[unit.Key]bool
	policies  map[unit.Key]bool
	sets      map[unit.Key]bool // sets that rules name
	egress    map[unit.Key]*networkv1alpha1.EgressIP
	balancers map[unit.Key]*networkv1alpha1.LoadBalancerPool
	furthers  map[string]*networkv1alpha1.Network      // by name
	floating  map[string][]*networkv1alpha1.FloatingIP // pod UID -> what the pod holds
	pools     map[string]floating.Pool                 // by name
}

func newView(w World) *view {
	v := &view{
		World: w, tables: map[reflect.Type]string{},
		switches:    rowsIn[nbdb.LogicalSwitch](w.Northbound, nbdb.LogicalSwitchTable),
		routers:     rowsIn[nbdb.LogicalRouter](w.Northbound, nbdb.LogicalRouterTable),
		ports:       rowsIn[nbdb.LogicalSwitchPort](w.Northbound, nbdb.LogicalSwitchPortTable),
		routerPorts: rowsIn[nbdb.LogicalRouterPort](w.Northbound, nbdb.LogicalRouterPortTable),
		onSwitch:    map[string][]*nbdb.LogicalSwitch{}, onRouter: map[string][]*nbdb.LogicalRouter{},
		routerByName: map[string][]*nbdb.LogicalRouterPort{}, owned: map[unit.Key][]*nbdb.LogicalSwitchPort{},
		nodes: map[string]*corev1.Node{}, networks: map[string]*networkv1alpha1.NodeNetwork{},
		pods: map[unit.Key]*corev1.Pod{}, away: map[unit.Key]*corev1.Pod{}, balanced: map[unit.Key]bool{}, leaving: map[unit.Key]bool{},
		firewalls: map[unit.Key]bool{}, policies: map[unit.Key]bool{},
		balancers: map[unit.Key]*networkv1alpha1.LoadBalancerPool{},
		egress:    map[unit.Key]*networkv1alpha1.EgressIP{}, furthers: map[string]*networkv1alpha1.Network{},
		floating: map[string][]*networkv1alpha1.FloatingIP{}, pools: map[string]floating.Pool{},
	}
	for table, rows := range w.Northbound {
		if len(rows) > 0 {
			v.tables[reflect.TypeOf(rows[0])] = table
		}
	}
	v.indexRows()
	for i := range w.Nodes {
		v.nodes[w.Nodes[i].Name] = &w.Nodes[i]
	}
	for i := range w.NodeNetworks {
		v.networks[w.NodeNetworks[i].Name] = &w.NodeNetworks[i]
	}
	for i := range w.Pods {
		if pod := &w.Pods[i]; facts.WantsPort(pod) {
			v.pods[topology.PodKey(pod.Namespace, pod.Name)] = pod
		}
	}
	for i := range w.PodsElsewhere {
		if pod := &w.PodsElsewhere[i]; facts.WantsPort(pod) {
			v.away[topology.PodKey(pod.Namespace, pod.Name)] = pod
		}
	}
	for i := range w.FloatingIPs {
		if ip := &w.FloatingIPs[i]; ip.Spec.Holder != nil && ip.Spec.Holder.PodUID != "" {
			v.floating[string(ip.Spec.Holder.PodUID)] = append(v.floating[string(ip.Spec.Holder.PodUID)], ip)
		}
	}
	for i := range w.IPPools {
		pool, _ := floating.ParsePool(&w.IPPools[i]) // its status has the error; pods keep the addresses that they have
		v.pools[pool.Name] = pool
	}
	for i := range w.Networks {
		v.furthers[w.Networks[i].Name] = &w.Networks[i]
	}
	for i := range w.EgressIPs {
		v.egress[topology.EgressIPKey(w.EgressIPs[i].Name)] = &w.EgressIPs[i]
	}
	for i := range w.LoadBalancerPools {
		v.balancers[topology.LoadBalancerPoolKey(w.LoadBalancerPools[i].Name)] = &w.LoadBalancerPools[i]
	}
	for i := range w.Services {
		service := &w.Services[i]
		if facts.Balanced(service) {
			v.balanced[topology.ServiceKey(service.Namespace, service.Name)] = true
		}
		if granted, err := facts.EgressSource(service); err == nil && granted {
			v.leaving[topology.EgressIPKey(facts.EgressNameOf(service.Namespace, service.Name))] = true
		}
	}
	for i := range w.NetworkPolicies {
		v.policies[topology.NetworkPolicyKey(w.NetworkPolicies[i].Namespace, w.NetworkPolicies[i].Name)] = true
	}
	for _, read := range v.clusterPolicies(nil) {
		v.policies[topology.ClusterPolicyKey(read)] = true
	}
	for _, p := range w.MultiNetworkPolicies {
		v.policies[topology.MultiNetworkPolicyKey(p.Policy.Namespace, p.Policy.Name)] = true
	}
	v.sets = usedSets(w.EgressFirewalls, v.clusterPolicies(nil))
	for i := range w.EgressFirewalls {
		v.firewalls[topology.EgressFirewallKey(w.EgressFirewalls[i].Namespace)] = true
	}
	for i := range w.EgressQoSes {
		v.policies[topology.EgressQoSKey(w.EgressQoSes[i].Namespace)] = true
	}
	for _, namespace := range w.Multicast {
		v.policies[topology.MulticastKey(namespace)] = true
	}
	return v
}

func (v *view) indexRows() {
	for _, s := range v.switches {
		for _, port := range s.Ports {
			v.onSwitch[port] = append(v.onSwitch[port], s)
		}
	}
	for _, r := range v.routers {
		for _, port := range r.Ports {
			v.onRouter[port] = append(v.onRouter[port], r)
		}
	}
	for _, port := range v.routerPorts {
		v.routerByName[port.Name] = append(v.routerByName[port.Name], port)
	}
	for _, port := range v.ports {
		if owner := ownerOf(port); owner != "" {
			v.owned[owner] = append(v.owned[owner], port)
		}
	}
}

// concerns reports whether a port is ours, or on a switch of ours where it can conflict.
func (v *view) concerns(port *nbdb.LogicalSwitchPort) bool {
	if ours(port) {
		return true
	}
	for _, s := range v.onSwitch[port.UUID] {
		if ours(s) {
			return true
		}
	}
	return false
}

// ownerOf returns the unit that a row names as its owner. It is empty for foreign rows and tables without
// external_ids.
func ownerOf(row any) unit.Key {
	if r, ok := row.(interface{ GetExternalIDs() map[string]string }); ok {
		return unit.Key(r.GetExternalIDs()[unit.OwnerKey])
	}
	return ""
}

func ours(row any) bool { return ownerOf(row) != "" }

func (v *view) rowOf(row any) Row {
	found := Row{Table: v.tables[reflect.TypeOf(row)]}
	if r, ok := row.(interface{ GetUUID() string }); ok {
		found.UUID = r.GetUUID()
	}
	if r, ok := row.(interface{ GetName() string }); ok {
		found.Name = r.GetName()
	}
	return found
}
