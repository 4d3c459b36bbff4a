package invariant_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/ovn-kubernetes/libovsdb/model"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// world is a good world, built by the topology's functions. It has two nodes, three running pods and a pod that has
// ended.
type world struct {
	invariant.World
	testing.TB
	selectors []unit.Key // selectors of the policy; they select pod c
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOf(t, 24)
}

// newWorldOf gives nodes IPv4 subnets of a prefix length.
func newWorldOf(t testing.TB, hostPrefix int32) *world {
	t.Helper()
	w := &world{TB: t, World: invariant.World{Northbound: invariant.Rows{}, Southbound: invariant.Rows{}}}
	w.ClusterNetwork = &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	w.ClusterNetwork.Spec.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16",
		HostPrefix: hostPrefix}, {CIDR: "fd00:10:244::/48", HostPrefix: 64}}
	w.ClusterNetwork.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"}
	w.ClusterNetwork.Spec.JoinSubnet = []networkv1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"}
	plan, err := facts.ParseClusterNetwork(w.ClusterNetwork)
	if err != nil {
		t.Fatal(err)
	}
	w.add(topology.NetworkUnit(plan.Network("cluster-uid")))
	for _, name := range []string{"n1", "n2"} {
		w.addNode(name, plan)
	}
	w.addService("web")
	w.addFirewall("default")
	w.addEgressIP()
	w.readPolicies()
	w.addPod("a", "n1", 5)
	w.addPod("b", "n1", 6)
	w.addPod("c", "n2", 5)
	w.Pods = append(w.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "done"},
		Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}})
	w.addFloatingPod("floating", "n2", 7, "10.245.0.5", "fd00:10:245::5")
	w.addNetwork("blue", "a", "b") // it has the same addresses as the cluster network
	w.addMultiPolicy()
	for _, cidr := range []networkv1alpha1.CIDR{"10.244.0.0/16", "fd00:10:244::/48"} {
		w.ClusterNetwork.Status.Addresses = append(w.ClusterNetwork.Status.Addresses,
			networkv1alpha1.NetworkAddresses{CIDR: cidr, AddressCounts: networkv1alpha1.AddressCounts{Total: 100, Used: 3, Free: 97}})
	}
	w.ClusterNetwork.Status.ObservedGeneration, w.ClusterNetwork.Status.Nodes = 1, networkv1alpha1.NodeCounts{Total: 2, Ready: 2}
	w.copySouthbound()
	return w
}

// add adds the rows of a unit and its memberships, as the engine does.
func (w *world) add(u unit.Unit) {
	w.Helper()
	for _, row := range u.Rows {
		ids := reflect.ValueOf(row.Model).Elem().FieldByName("ExternalIDs")
		if !ids.IsValid() { // a load balancer group
			w.put(row.Model)
			continue
		}
		if ids.IsNil() {
			ids.Set(reflect.ValueOf(map[string]string{}))
		}
		ids.Interface().(map[string]string)[unit.OwnerKey] = string(u.Key)
		w.put(row.Model)
	}
	for _, m := range u.Members {
		w.member(m)
	}
}

// put adds a row to its table.
func (w *world) put(row model.Model) {
	w.Helper()
	dbModel, err := nbdb.FullDatabaseModel()
	if err != nil {
		w.Fatal(err)
	}
	for table, kind := range dbModel.Types() {
		if kind == reflect.TypeOf(row) {
			w.Northbound[table] = append(w.Northbound[table], row)
			return
		}
	}
	w.Fatalf("%T is of no table", row)
}

func (w *world) member(m unit.Membership) {
	w.Helper()
	if m.Parent.Table == nbdb.NBGlobalTable {
		return // the row does not exist
	}
	if m.Optional && !w.has(m.Parent) {
		return // the world has the group only where a test adds it
	}
	for _, row := range w.Northbound[m.Parent.Table] {
		v := reflect.ValueOf(row).Elem()
		if v.FieldByName("UUID").String() != m.Parent.UUID {
			continue
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("ovsdb") == m.Column {
				v.Field(i).Set(reflect.Append(v.Field(i), reflect.ValueOf(m.Element)))
				return
			}
		}
	}
	w.Fatalf("row %v with a column %s is absent", m.Parent, m.Column)
}

// addNetwork adds a Network, and an interface net1 on it for each of some pods.
func (w *world) addNetwork(name string, pods ...string) facts.PodNetwork {
	w.Helper()
	n := networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Topology = networkv1alpha1.TopologyLayer2
	n.Spec.Subnets = []networkv1alpha1.NetworkSubnet{{CIDR: "10.244.0.0/24"}}
	n.Status.Attachments = int32(len(pods))
	n.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	w.Networks = append(w.Networks, n)
	read, err := facts.ParseNetwork(&n)
	if err != nil {
		w.Fatal(err)
	}
	w.add(topology.PodNetworkUnit(read))
	for i, pod := range pods {
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(5 + i)}), 24)
		port := topology.PodPort{Namespace: "default", Name: pod, UID: "uid-" + pod, Node: "n1", Chassis: "chassis-n1", Network: read,
			Interface: "net1", Addresses: []netip.Prefix{address}, MAC: ipam.MAC([]netip.Addr{address.Addr()}), Slot: 16 + i}
		w.add(topology.PodPortsUnit("default", pod, []topology.PodPort{port}))
		w.request(pod, name)
	}
	return read
}

// request gives a pod the annotation that requests a Network.
func (w *world) request(pod, network string) {
	for i := range w.Pods {
		if w.Pods[i].Name == pod {
			metav1.SetMetaDataAnnotation(&w.Pods[i].ObjectMeta, nadv1.NetworkAttachmentAnnot, network)
		}
	}
}

// networkPort returns the port of a pod on Network blue.
func (w *world) networkPort(pod string) *nbdb.LogicalSwitchPort {
	return find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, "blue_default_"+pod+"_net1")
}

func (w *world) addService(name string) {
	w.Helper()
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		ClusterIPs: []string{"10.96.0.10"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	w.Services = append(w.Services, service)
	parsed, problems := facts.ParseService(&service, nil, nil)
	if len(problems) > 0 {
		w.Fatal(problems)
	}
	w.add(topology.ServiceUnit(parsed))
}

func (w *world) addFirewall(namespace string) {
	w.Helper()
	firewall := networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: networkv1alpha1.EgressFirewallName}}
	firewall.Spec.Egress = []networkv1alpha1.EgressFirewallRule{{Type: networkv1alpha1.EgressFirewallDeny,
		To: networkv1alpha1.EgressFirewallDestination{DNSName: "www.example.org"}}}
	w.EgressFirewalls = append(w.EgressFirewalls, firewall)
	read, err := facts.ParseEgressFirewall(&firewall, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.add(topology.EgressFirewallUnit(read))
	for _, set := range topology.EgressFirewallSets(read) {
		w.add(topology.AddressSetUnit(set, nil))
	}
}

// readPolicies makes pods that are added later join the groups and sets of the world's policy. The policy adds the
// rows.
func (w *world) readPolicies() {
	w.Helper()
	policy := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{"policy": "yes"}
	peer := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &policy.Spec.PodSelector}
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}}}
	w.NetworkPolicies = append(w.NetworkPolicies, policy)
	read, err := facts.ParseNetworkPolicy(&policy, nil)
	if err != nil {
		w.Fatal(err)
	}
	for key := range topology.NetworkPolicySelectors(read) {
		w.selectors = append(w.selectors, key)
		if key.Kind() == topology.KindPodGroup {
			w.add(topology.PodGroupUnit(key))
		} else {
			w.add(topology.PodSetUnit(key))
		}
	}
	w.add(topology.NetworkPolicyUnit(read))
	w.readQoS(policy.Spec.PodSelector)
	w.requestMulticast()
}

// requestMulticast requests multicast in a namespace without pods.
func (w *world) requestMulticast() {
	const namespace = "multicast"
	w.Multicast = append(w.Multicast, namespace)
	for key := range topology.MulticastSelectors(namespace) {
		w.add(topology.SelectorUnit(key))
	}
	w.add(topology.MulticastUnit(namespace))
}

// readQoS adds an EgressQoS that selects pods of the namespace.
func (w *world) readQoS(pods metav1.LabelSelector) {
	w.Helper()
	qos := networkv1alpha1.EgressQoS{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: networkv1alpha1.EgressQoSName}}
	dscp := int32(46)
	qos.Spec.Egress = []networkv1alpha1.EgressQoSRule{{DSCP: &dscp, PodSelector: &pods}}
	w.EgressQoSes = append(w.EgressQoSes, qos)
	read, err := facts.ParseEgressQoS(&qos, nil)
	if err != nil {
		w.Fatal(err)
	}
	for key := range topology.EgressQoSSelectors(read) {
		w.selectors = append(w.selectors, key)
		w.add(topology.PodSetUnit(key))
	}
	w.add(topology.EgressQoSUnit(read))
}

func (w *world) addNode(name string, plan facts.Plan) {
	w.Helper()
	var others []networkv1alpha1.NodeNetworkSpec
	for _, nn := range w.NodeNetworks {
		others = append(others, nn.Spec)
	}
	spec, err := facts.NodeSpec(networkv1alpha1.NodeNetworkSpec{}, plan, others, facts.Settings{})
	if err != nil {
		w.Fatal(err)
	}
	nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	nn.Status.Chassis = "chassis-" + name
	node, err := facts.ParseNodeNetwork(&nn)
	if err != nil {
		w.Fatal(err)
	}
	w.add(topology.NodeUnit(node))
	w.NodeNetworks = append(w.NodeNetworks, nn)
	w.Nodes = append(w.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// addPod adds a running pod with address n of each subnet of its node.
func (w *world) addPod(name, node string, n int) {
	w.Helper()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: node}}
	port := topology.Pod{Namespace: "default", Name: name, UID: string(pod.UID), Node: node, Chassis: "chassis-" + node, Slot: 16 + n}
	for _, cidr := range w.nodeNetwork(node).Spec.PodSubnets {
		address := ipam.Host(netip.MustParsePrefix(string(cidr)), n)
		port.Addresses = append(port.Addresses, address)
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address.String()})
	}
	port.MAC = ipam.MAC(port.Addresses)
	if name == "a" {
		port.Translated = []netip.Addr{netip.MustParseAddr("192.0.2.8")}
		w.holds(&pod, networkv1alpha1.LocationNAT, port.Translated...)
	}
	if name == "c" {
		pod.Labels, port.EgressIP, port.Selected = map[string]string{"out": "yes", "policy": "yes"}, "team", w.selectors
	}
	w.add(topology.PodUnit(port))
	w.Pods = append(w.Pods, pod)
}

// addFloatingPod adds a pod whose addresses are floating.
func (w *world) addFloatingPod(name, node string, slot int, addresses ...string) {
	w.Helper()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: node}}
	port := topology.Pod{Namespace: "default", Name: name, UID: string(pod.UID), Node: node, Chassis: "chassis-" + node, Slot: 16 + slot}
	for _, text := range addresses {
		port.Floating = append(port.Floating, netip.MustParseAddr(text))
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: text})
	}
	port.Addresses, port.MAC = port.Floating, ipam.MAC(port.Floating)
	port.WaysOut = []netip.Addr{netip.MustParseAddr("100.64.0.3"), netip.MustParseAddr("fd98::3")}
	w.add(topology.PodUnit(port))
	w.holds(&pod, networkv1alpha1.LocationOverlay, port.Floating...)
	w.Pods = append(w.Pods, pod)
}

// holds adds FloatingIPs that a pod holds, of a pool of its own.
func (w *world) holds(pod *corev1.Pod, location networkv1alpha1.IPPoolLocation, addresses ...netip.Addr) {
	w.IPPools = append(w.IPPools, networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "pool-" + pod.Name},
		Spec: networkv1alpha1.IPPoolSpec{Location: location}})
	for _, address := range addresses {
		w.FloatingIPs = append(w.FloatingIPs, networkv1alpha1.FloatingIP{
			ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.FloatingIPName(address)},
			Spec: networkv1alpha1.FloatingIPSpec{Address: networkv1alpha1.EgressAddress(address.String()), Pool: "pool-" + pod.Name,
				Holder: &networkv1alpha1.FloatingIPHolder{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Pod: pod.Name,
					PodUID: pod.UID, Node: pod.Spec.NodeName}}})
	}
}

// has reports whether a row exists, as optional memberships require.
func (w *world) has(row unit.Ref) bool {
	return slices.ContainsFunc(w.Northbound[row.Table], func(m model.Model) bool {
		return reflect.ValueOf(m).Elem().FieldByName("UUID").String() == row.UUID
	})
}

// addEgressIP adds an EgressIP that node n1 carries, and the required rows of the node's gateway router.
func (w *world) addEgressIP() {
	w.Helper()
	e := networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec: networkv1alpha1.EgressIPSpec{EgressIPs: []networkv1alpha1.EgressAddress{"192.0.2.7"},
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"out": "yes"}}}}
	e.Status.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: "192.0.2.7", Node: "n1"}}
	w.EgressIPs, w.Namespaces = append(w.EgressIPs, e), map[string]map[string]string{}
	router := names.GatewayRouter("n1")
	w.put(&nbdb.LogicalRouter{UUID: unit.UUID(nbdb.LogicalRouterTable, router), Name: router,
		ExternalIDs: map[string]string{unit.OwnerKey: string(topology.GatewayKey("n1"))}})
	set := names.RouterAddresses("n1", "IPv4")
	w.put(&nbdb.AddressSet{UUID: unit.UUID(nbdb.AddressSetTable, set), Name: set,
		ExternalIDs: map[string]string{unit.OwnerKey: string(topology.GatewayKey("n1"))}})
	join, err := w.nodeNetwork("n1").Spec.JoinAddresses[0].Prefix()
	if err != nil {
		w.Fatal(err)
	}
	read, err := facts.ParseEgressIP(&e,
		map[string]facts.Gateway{"n1": {Node: facts.Node{Name: "n1", Chassis: "chassis-n1"}, Bridge: "br-ex",
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}, Join: []netip.Prefix{join},
			Clusters: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}})
	if err != nil {
		w.Fatal(err)
	}
	w.add(topology.EgressIPUnit(read))
}

// copySouthbound adds the rows that northd would write.
func (w *world) copySouthbound() {
	w.Southbound = invariant.Rows{}
	for _, row := range w.Northbound[nbdb.LogicalSwitchTable] {
		s := row.(*nbdb.LogicalSwitch)
		w.Southbound[sbdb.DatapathBindingTable] = append(w.Southbound[sbdb.DatapathBindingTable],
			&sbdb.DatapathBinding{ExternalIDs: map[string]string{"logical-switch": s.UUID}, TunnelKey: number(s.OtherConfig)})
	}
	for _, row := range w.Northbound[nbdb.LogicalSwitchPortTable] {
		p := row.(*nbdb.LogicalSwitchPort)
		w.Southbound[sbdb.PortBindingTable] = append(w.Southbound[sbdb.PortBindingTable],
			&sbdb.PortBinding{LogicalPort: p.Name, TunnelKey: number(p.Options)})
	}
}

func number(options map[string]string) (key int) {
	_, _ = fmt.Sscan(options["requested-tnl-key"], &key)
	return key
}

func (w *world) nodeNetwork(name string) *networkv1alpha1.NodeNetwork {
	i := slices.IndexFunc(w.NodeNetworks, func(nn networkv1alpha1.NodeNetwork) bool { return nn.Name == name })
	return &w.NodeNetworks[i]
}

// route adds an ExternalRoute for a pod of node n1, and its rows.
func (w *world) route(pod string) {
	w.Helper()
	e := networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "route"}}
	e.Spec.PodSelector.MatchLabels = map[string]string{"leaves": "so"}
	e.Status.NextHops = []networkv1alpha1.ExternalNextHop{{Address: "192.0.2.200"}}
	w.ExternalRoutes = append(w.ExternalRoutes, e)
	i := slices.IndexFunc(w.Pods, func(p corev1.Pod) bool { return p.Name == pod })
	w.Pods[i].Labels = map[string]string{"leaves": "so"}
	address := w.Pods[i].Status.PodIPs[0].IP
	router, policy := names.GatewayRouter("n1"), nbdb.LogicalRouterStaticRoutePolicySrcIP
	w.put(&nbdb.LogicalRouterStaticRoute{UUID: "external", IPPrefix: address + "/32", Nexthop: "192.0.2.200", Policy: &policy,
		OutputPort: pointerTo(names.RouterToExternal(router)), Options: map[string]string{"ecmp_symmetric_reply": "true"},
		ExternalIDs: map[string]string{unit.OwnerKey: string(topology.PodKey("default", pod))}})
	row := find[nbdb.LogicalRouter](w, nbdb.LogicalRouterTable, router)
	row.StaticRoutes = append(row.StaticRoutes, "external")
	w.put(&nbdb.AddressSet{UUID: "routed", Name: names.Routed("n1", "IPv4"), Addresses: []string{address},
		ExternalIDs: map[string]string{unit.OwnerKey: string(topology.GatewayKey("n1"))}})
}

// routedSet is the set of the pods that the translation of node n1 leaves out.
func (w *world) routedSet() *nbdb.AddressSet {
	return find[nbdb.AddressSet](w, nbdb.AddressSetTable, names.Routed("n1", "IPv4"))
}

// find returns the row of a table with a name.
func find[T any](w *world, table, name string) *T {
	w.Helper()
	for _, row := range w.Northbound[table] {
		if r, ok := row.(interface{ GetName() string }); ok && r.GetName() == name {
			return any(row).(*T)
		}
	}
	w.Fatalf("%s has no row %s", table, name)
	return nil
}

func (w *world) port(pod string) *nbdb.LogicalSwitchPort {
	return find[nbdb.LogicalSwitchPort](w, nbdb.LogicalSwitchPortTable, names.PodPort(names.DefaultNetwork, "default", pod))
}

func (w *world) nodeSwitch(node string) *nbdb.LogicalSwitch {
	return find[nbdb.LogicalSwitch](w, nbdb.LogicalSwitchTable, names.NodeSwitch(node))
}

func (w *world) router() *nbdb.LogicalRouter {
	return find[nbdb.LogicalRouter](w, nbdb.LogicalRouterTable, names.ClusterRouter)
}

// address replaces a text in the addresses of a pod's port and in the pod's status.
func (w *world) address(pod, before, after string) {
	port := w.port(pod)
	port.Addresses = []string{strings.Replace(port.Addresses[0], before, after, 1)}
	port.PortSecurity = slices.Clone(port.Addresses)
	for i := range w.Pods {
		for j, ip := range w.Pods[i].Status.PodIPs {
			if w.Pods[i].Name == pod && ip.IP == before {
				w.Pods[i].Status.PodIPs[j].IP = after
			}
		}
	}
}

// owned returns the external_ids of a row of the cluster-wide unit.
func owned() map[string]string {
	return map[string]string{unit.OwnerKey: string(topology.NetworkKey())}
}

// stranger adds a NodeNetwork whose Node does not exist. It affects only what all NodeNetworks share.
func (w *world) stranger(change func(*networkv1alpha1.NodeNetwork)) {
	nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}
	nn.Spec.NodeID = 3
	change(&nn)
	w.NodeNetworks = append(w.NodeNetworks, nn)
}

// policyGroup returns the port group of the world's policy.
func (w *world) policyGroup() *nbdb.PortGroup {
	for _, key := range w.selectors {
		if key.Kind() == topology.KindPodGroup {
			return find[nbdb.PortGroup](w, nbdb.PortGroupTable, names.PodGroup(key.Name()))
		}
	}
	return nil
}

// routeGone removes a static route of the cluster router.
func (w *world) routeGone(prefix string) {
	router := find[nbdb.LogicalRouter](w, nbdb.LogicalRouterTable, names.ClusterRouter)
	for i, row := range w.Northbound[nbdb.LogicalRouterStaticRouteTable] {
		if route := row.(*nbdb.LogicalRouterStaticRoute); route.IPPrefix == prefix {
			router.StaticRoutes = slices.DeleteFunc(router.StaticRoutes, func(id string) bool { return id == route.UUID })
			w.Northbound[nbdb.LogicalRouterStaticRouteTable] = slices.Delete(w.Northbound[nbdb.LogicalRouterStaticRouteTable], i, i+1)
			return
		}
	}
	w.Fatalf("no route of %s", prefix)
}

func pointerTo[T any](v T) *T { return &v }
