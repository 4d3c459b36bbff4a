package topology_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden is the database of one testdata file: the input objects.yaml, the output nb.txt, and the expected traces of ovn-trace. A file
// whose ClusterNetwork has zones has a golden of each zone too. The names of its files begin with the zone: east/nb.txt.
type golden struct {
	name    string
	path    string
	zone    networkv1alpha1.ZoneName
	archive *txtar.Archive
	units   []unit.Unit
	ways    map[string]facts.Gateway // node -> its way outside
}

func goldens(t *testing.T) []golden {
	t.Helper()
	paths, _ := filepath.Glob("testdata/*.txtar")
	if len(paths) == 0 {
		t.Fatal("no testdata")
	}
	var found []golden
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, objects := strings.TrimSuffix(filepath.Base(path), ".txtar"), golden{archive: archive}.file("objects.yaml")
		for _, zone := range zonesOf(t, objects) {
			g := golden{name: strings.TrimSuffix(name+"-"+string(zone), "-"), path: path, zone: zone, archive: archive}
			g.units, g.ways = build(t, objects, zone)
			found = append(found, g)
		}
	}
	return found
}

// in returns the name of a file of the golden's zone.
func (g golden) in(name string) string { return strings.TrimPrefix(string(g.zone)+"/"+name, "/") }

func (g golden) file(name string) string {
	for _, f := range g.archive.Files {
		if f.Name == g.in(name) {
			return string(f.Data)
		}
	}
	return ""
}

func (g golden) set(name, data string) {
	name = g.in(name)
	for i, f := range g.archive.Files {
		if f.Name == name {
			g.archive.Files[i].Data = []byte(data)
			return
		}
	}
	g.archive.Files = append(g.archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

// build works like the reconcilers of a zone: it completes NodeNetworks, assigns addresses and builds the units.
func build(t *testing.T, objects string, zone networkv1alpha1.ZoneName) ([]unit.Unit, map[string]facts.Gateway) {
	t.Helper()
	b := builder{t: t, zone: zone, elsewhere: map[string]bool{}, allocator: alloc.New(func() time.Time { return time.Unix(0, 0) }),
		hosts: map[string]*corev1.Node{}, chassis: map[string]string{}}
	documents := strings.Split(objects, "\n---\n")
	b.egressIPs(documents)
	b.networkPolicies(documents)
	for _, doc := range documents {
		var kind struct{ Kind string }
		b.decode(doc, &kind)
		switch kind.Kind {
		case "ClusterNetwork":
			b.network(doc, documents)
		case "Node":
			var node corev1.Node
			b.decode(doc, &node)
			b.hosts[node.Name] = &node
		case "NodeNetwork":
			b.node(doc)
		case "Pod":
			b.pod(doc)
		case "Service":
			b.service(doc, documents)
		case "EndpointSlice": // read with its service
		case "EgressFirewall":
			b.egressFirewall(doc)
		case "DNS":
			b.dns(doc)
		case "LoadBalancerPool":
			b.loadBalancerPool(doc)
		// read with the pods
		case "Network", "MultiNetworkPolicy", "EgressQoS":
		case "Namespace", "EgressIP", "ExternalRoute":
		case "NetworkPolicy", "ClusterNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy":
		default:
			t.Fatalf("objects.yaml: kind %q", kind.Kind)
		}
	}
	for i, u := range b.units {
		if way := b.ways[u.Key.Name()]; u.Key.Kind() == topology.KindGateway && len(b.routes) > 0 {
			way.Routed, way.RoutedPods = true, b.routed[u.Key.Name()]
			b.units[i] = topology.GatewayUnit(way)
		}
	}
	for i := range b.egress {
		read, err := facts.ParseEgressIP(&b.egress[i], b.ways)
		if err != nil {
			t.Fatal(err)
		}
		b.units = append(b.units, topology.EgressIPUnit(read))
	}
	for _, key := range slices.Sorted(maps.Keys(b.selectors)) {
		if key.Kind() == topology.KindPodGroup {
			b.units = append(b.units, topology.PodGroupUnit(key))
		} else {
			b.units = append(b.units, topology.PodSetUnit(key))
		}
	}
	for _, policy := range b.policies {
		b.units = append(b.units, topology.NetworkPolicyUnit(policy))
	}
	for _, namespace := range b.multicast {
		b.units = append(b.units, topology.MulticastUnit(namespace))
	}
	for _, qos := range b.egressQoSes {
		b.units = append(b.units, topology.EgressQoSUnit(qos))
	}
	for _, policy := range b.clusterPolicies {
		b.units = append(b.units, topology.ClusterPolicyUnit(policy))
	}
	return append(b.units, b.networkUnits()...), b.ways
}

// networkPolicies reads the policies, because their selectors determine groups and sets.
func (b *builder) networkPolicies(documents []string) {
	var pods []facts.SelectedPod
	for _, doc := range documents {
		var pod corev1.Pod
		if b.decode(doc, &pod); pod.Kind == "Pod" {
			pods = append(pods, b.selected(&pod))
		}
	}
	numbers := func(s facts.PodSelector, port facts.NamedPort) []uint16 {
		return facts.NumbersOf(s, port, pods)
	}
	b.selectors = map[unit.Key]facts.PodSelector{}
	b.podNetworks(documents, numbers)
	for _, doc := range documents {
		var kind struct{ Kind string }
		b.decode(doc, &kind)
		if policy := clusterPolicyOf(kind.Kind); policy != nil {
			b.decode(doc, policy)
			read, err := facts.ParseClusterPolicy(policy, numbers, nodesOf(b.t, documents))
			if err != nil {
				b.t.Fatal(err)
			}
			b.clusterPolicies = append(b.clusterPolicies, read)
			maps.Copy(b.selectors, topology.ClusterPolicySelectors(read))
		}
		switch kind.Kind {
		case "EgressQoS":
			b.egressQoS(doc, documents)
		case "Namespace":
			b.requested(doc)
		}
		if kind.Kind != "NetworkPolicy" {
			continue
		}
		var policy networkingv1.NetworkPolicy
		b.decode(doc, &policy)
		read, err := facts.ParseNetworkPolicy(&policy, numbers)
		if err != nil {
			b.t.Fatal(err)
		}
		b.policies = append(b.policies, read)
		maps.Copy(b.selectors, topology.NetworkPolicySelectors(read))
	}
}

// requested reads whether a namespace requests multicast.
func (b *builder) requested(doc string) {
	var namespace corev1.Namespace
	b.decode(doc, &namespace)
	requested, err := networkv1alpha1.ParseMulticast(namespace.Annotations)
	if err != nil {
		b.t.Fatal(err)
	}
	if requested {
		b.multicast = append(b.multicast, namespace.Name)
		maps.Copy(b.selectors, topology.MulticastSelectors(namespace.Name))
	}
}

func (b *builder) egressQoS(doc string, documents []string) {
	var qos networkv1alpha1.EgressQoS
	b.decode(doc, &qos)
	var nodes []networkv1alpha1.NodeNetwork
	for _, other := range documents {
		var kind struct{ Kind string }
		if b.decode(other, &kind); kind.Kind == "NodeNetwork" {
			var nn networkv1alpha1.NodeNetwork
			b.decode(other, &nn)
			nodes = append(nodes, nn)
		}
	}
	read, err := facts.ParseEgressQoS(&qos, facts.LocalNodes(nodes))
	if err != nil {
		b.t.Fatal(err)
	}
	b.egressQoSes = append(b.egressQoSes, read)
	maps.Copy(b.selectors, topology.EgressQoSSelectors(read))
}

func clusterPolicyOf(kind string) metav1.Object {
	switch kind {
	case "ClusterNetworkPolicy":
		return &policyv1alpha2.ClusterNetworkPolicy{}
	case "AdminNetworkPolicy":
		return &policyv1alpha1.AdminNetworkPolicy{}
	case "BaselineAdminNetworkPolicy":
		return &policyv1alpha1.BaselineAdminNetworkPolicy{}
	}
	return nil
}

// nodesOf returns the nodes among the documents.
func nodesOf(t *testing.T, documents []string) facts.NodesOf {
	var nodes []corev1.Node
	for _, doc := range documents {
		var node corev1.Node
		if err := yaml.Unmarshal([]byte(doc), &node); err != nil {
			t.Fatal(err)
		}
		if node.Kind == "Node" {
			nodes = append(nodes, node)
		}
	}
	return func(selector labels.Selector) []netip.Addr { return facts.AddressesOfNodes(selector, nodes) }
}

func (b *builder) selected(pod *corev1.Pod) facts.SelectedPod {
	return facts.SelectedPod{Namespace: pod.Namespace, NamespaceLabels: b.namespaces[pod.Namespace],
		Labels: pod.Labels, Ports: facts.NamedPorts(pod)}
}

// selectedBy lists the groups and sets that a pod's port on a network is in.
func (b *builder) selectedBy(pod *corev1.Pod, network string) (keys []unit.Key) {
	selected := b.selected(pod)
	selected.Network = network
	for _, key := range slices.Sorted(maps.Keys(b.selectors)) {
		if b.selectors[key].Matches(selected) {
			keys = append(keys, key)
		}
	}
	return keys
}

// egressIPs reads the EgressIPs and the namespaces in which they select pods.
func (b *builder) egressIPs(documents []string) {
	b.namespaces, b.ways = map[string]labels.Set{}, map[string]facts.Gateway{}
	b.routed = map[string][]facts.RoutedPod{}
	for _, doc := range documents {
		var egress networkv1alpha1.EgressIP
		var namespace corev1.Namespace
		if b.decode(doc, &egress); egress.Kind == "EgressIP" {
			b.egress = append(b.egress, egress)
		}
		var route networkv1alpha1.ExternalRoute
		if b.decode(doc, &route); route.Kind == "ExternalRoute" {
			b.externalRoute(&route)
		}
		if b.decode(doc, &namespace); namespace.Kind == "Namespace" {
			b.namespaces[namespace.Name] = namespace.Labels
		}
	}
}

// externalRoute reads an ExternalRoute, whose status the operator computes.
func (b *builder) externalRoute(route *networkv1alpha1.ExternalRoute) {
	hops, _, unusable, invalid := facts.ChooseNextHops(route, nil, nil, nil)
	if err := errors.Join(unusable, invalid); err != nil {
		b.t.Fatal(err)
	}
	route.Status.NextHops = hops
	b.routes = append(b.routes, *route)
}

type builder struct {
	t         *testing.T
	zone      networkv1alpha1.ZoneName
	transit   *facts.Transit  // nil without zones
	elsewhere map[string]bool // nodes of other zones
	allocator *alloc.Allocator
	gateway   networkv1alpha1.Gateway
	plan      facts.Plan
	nodes     []networkv1alpha1.NodeNetworkSpec
	networks  []networkv1alpha1.NodeNetwork
	hosts     map[string]*corev1.Node
	chassis   map[string]string
	units     []unit.Unit

	policies        []facts.NetworkPolicy
	clusterPolicies []facts.ClusterPolicy
	multiPolicies   []facts.MultiNetworkPolicy
	egressQoSes     []facts.EgressQoS
	multicast       []string // namespaces that request it
	podNets         map[string]*podNetwork
	selectors       map[unit.Key]facts.PodSelector
	egress          []networkv1alpha1.EgressIP
	routes          []networkv1alpha1.ExternalRoute
	routed          map[string][]facts.RoutedPod // node -> pods
	namespaces      map[string]labels.Set
	ways            map[string]facts.Gateway
}

func (b *builder) decode(doc string, into any) {
	b.t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		b.t.Fatal(err)
	}
}

func (b *builder) network(doc string, documents []string) {
	var cn networkv1alpha1.ClusterNetwork
	b.decode(doc, &cn)
	var err error
	if b.plan, err = facts.ParseClusterNetwork(&cn); err != nil {
		b.t.Fatal(err)
	}
	b.gateway = cn.Spec.Gateway
	network := b.plan.Network("cluster-uid")
	network.Routed = len(b.routes) > 0
	network.FloatingNetworks = b.floatingNetworks(documents)
	b.units = append(b.units, topology.NetworkUnit(network))
	if transit, ok := b.plan.Transit(&cn, b.zone); ok {
		b.transit = &transit
		b.units = append(b.units, topology.TransitUnit(transit))
	}
}

// loadBalancerPool reads from the status of a pool which node answers for which address.
func (b *builder) loadBalancerPool(doc string) {
	var pool networkv1alpha1.LoadBalancerPool
	b.decode(doc, &pool)
	read := facts.LoadBalancerPool{Name: pool.Name}
	for _, a := range pool.Status.Announcements {
		address, err := a.Address.Addr()
		if err != nil {
			b.t.Fatal(err)
		}
		read.Announced = append(read.Announced, facts.AnnouncedAddress{Address: address, Node: a.Node})
	}
	b.units = append(b.units, topology.LoadBalancerPoolUnit(read))
}

// floatingNetworks returns the plan's networks that have floating addresses of pods.
func (b *builder) floatingNetworks(documents []string) (networks []netip.Prefix) {
	for _, network := range b.plan.PodNetworks() {
		if slices.ContainsFunc(documents, func(doc string) bool {
			var pod corev1.Pod
			b.decode(doc, &pod)
			return slices.ContainsFunc(b.addressesIn(&pod, "floating"), network.Contains)
		}) {
			networks = append(networks, network)
		}
	}
	return networks
}

// addressesIn reads the annotation "floating" or "translated", which stands for the FloatingIPs that a pod holds.
func (b *builder) addressesIn(pod *corev1.Pod, annotation string) []netip.Addr {
	addresses, err := ovnexpr.ParseAddresses(pod.Annotations, annotation)
	if err != nil {
		b.t.Fatal(err)
	}
	return addresses
}

func (b *builder) node(doc string) {
	var nn networkv1alpha1.NodeNetwork
	b.decode(doc, &nn)
	host := b.hosts[nn.Name]
	if host == nil {
		host = &corev1.Node{}
	}
	gateway, err := facts.NodeGateway(b.gateway, host.Labels)
	if err != nil {
		b.t.Fatal(err)
	}
	if found := nn.Status.Gateway; found != nil && found.Mode != gateway.Mode {
		b.t.Fatalf("node %s must use %s mode, but its agent found %s", nn.Name, gateway.Mode, found.Mode)
	}
	b.elsewhere[nn.Name] = nn.Spec.Zone != b.zone
	spec, err := facts.NodeSpec(nn.Spec, b.plan, b.nodes,
		facts.Settings{MTU: 1400, Gateway: gateway, Zone: nn.Spec.Zone, Zoned: b.transit != nil})
	if err != nil {
		b.t.Fatal(err)
	}
	nn.Spec = spec
	b.nodes, b.networks = append(b.nodes, spec), append(b.networks, nn)
	node, err := facts.ParseNodeNetwork(&nn)
	if err != nil {
		b.t.Fatal(err)
	}
	b.allocator.SetNode(nn.Name, node.Subnets, node.Leaving)
	b.chassis[nn.Name] = nn.Status.Chassis
	way, err := facts.ParseGateway(&nn, host)
	if err != nil {
		b.t.Fatal(err)
	}
	part := func(u unit.Unit) unit.Unit { return u }
	if b.elsewhere[nn.Name] {
		way.ReachBy(*b.transit, &nn)
		part = topology.Elsewhere
	}
	b.ways[nn.Name] = way
	node.Multicast = b.plan.Multicast
	b.units = append(b.units, part(topology.NodeUnit(node)))
	if u := part(topology.GatewayUnit(way)); !u.Empty() {
		b.units = append(b.units, u)
	}
	if b.transit != nil {
		b.transitNode(&nn)
	}
}

func (b *builder) pod(doc string) {
	var pod corev1.Pod
	b.decode(doc, &pod)
	floating := b.addressesIn(&pod, "floating")
	got, err := b.allocator.Allocate(pod.Spec.NodeName, alloc.Owner(pod.UID), alloc.Request{Floating: floating})
	if err != nil {
		b.t.Fatal(err)
	}
	limits, err := networkv1alpha1.ParseBandwidth(pod.Annotations)
	if err != nil {
		b.t.Fatal(err)
	}
	ports, problems := facts.HostPorts(&pod)
	if len(problems) > 0 {
		b.t.Fatal(problems)
	}
	var addresses []netip.Addr
	for _, a := range got.Addresses {
		addresses = append(addresses, a.Addr())
	}
	hops := facts.NextHopsOf(b.routes, b.namespaces[pod.Namespace], pod.Labels)
	if len(hops) > 0 {
		b.routed[pod.Spec.NodeName] = append(b.routed[pod.Spec.NodeName], facts.RoutedPod{Addresses: addresses, NextHops: hops})
	}
	unitOf := topology.PodUnit
	if b.elsewhere[pod.Spec.NodeName] {
		unitOf = topology.PodElsewhereUnit
	}
	b.units = append(b.units, unitOf(topology.Pod{NextHops: hops, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Node: pod.Spec.NodeName, Chassis: b.chassis[pod.Spec.NodeName], Addresses: addresses, MAC: got.MAC, Slot: got.Slot,
		Bandwidth: limits, HostPorts: ports, EgressIP: facts.SelectEgressIP(b.egress, b.namespaces[pod.Namespace],
			pod.Labels), Selected: b.selectedBy(&pod, ""), Floating: floating,
		WaysOut: b.ways[pod.Spec.NodeName].WaysOut(), Translated: b.addressesIn(&pod, "translated"),
		Clusters: b.ways[pod.Spec.NodeName].Clusters}))
	b.podPorts(&pod)
}

func (b *builder) service(doc string, documents []string) {
	var service corev1.Service
	b.decode(doc, &service)
	var endpoints []discoveryv1.EndpointSlice
	for _, other := range documents {
		var slice discoveryv1.EndpointSlice
		if b.decode(other, &slice); slice.Kind == "EndpointSlice" && slice.Labels[discoveryv1.LabelServiceName] == service.Name {
			endpoints = append(endpoints, slice)
		}
	}
	parsed, problems := facts.ParseService(&service, endpoints, b.serviceNodes(&service))
	if len(problems) > 0 {
		b.t.Fatal(problems)
	}
	b.units = append(b.units, topology.ServiceUnit(parsed))
}

func (b *builder) egressFirewall(doc string) {
	var firewall networkv1alpha1.EgressFirewall
	b.decode(doc, &firewall)
	read, err := facts.ParseEgressFirewall(&firewall, b.plan.PodNetworks())
	if err != nil {
		b.t.Fatal(err)
	}
	b.units = append(b.units, topology.EgressFirewallUnit(read))
	var nodes []corev1.Node
	for _, name := range slices.Sorted(maps.Keys(b.hosts)) {
		nodes = append(nodes, *b.hosts[name])
	}
	for _, set := range topology.EgressFirewallSets(read) {
		if selector := topology.SelectorOf(read, set); selector != nil {
			b.units = append(b.units, topology.AddressSetUnit(set, facts.AddressesOfNodes(selector, nodes)))
		}
	}
}

// dns reads the answers of a name server.
func (b *builder) dns(doc string) {
	var answer struct {
		Metadata  struct{ Name string }
		Addresses []netip.Addr
	}
	b.decode(doc, &answer)
	b.units = append(b.units, topology.AddressSetUnit(topology.DNSKey(answer.Metadata.Name), answer.Addresses))
}

// serviceNodes returns the nodes as services use them.
func (b *builder) serviceNodes(service *corev1.Service) []facts.ServiceNode {
	var hosts []corev1.Node
	for i := range b.networks {
		if host := b.hosts[b.networks[i].Name]; host != nil {
			hosts = append(hosts, *host)
		} else {
			hosts = append(hosts, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.networks[i].Name}})
		}
	}
	own := slices.DeleteFunc(slices.Clone(b.networks), func(nn networkv1alpha1.NodeNetwork) bool { return b.elsewhere[nn.Name] })
	return facts.ServiceNodes(service, hosts, own)
}

// render prints units as text: rows by key with the columns that are set, references by name.
func render(units []unit.Unit) string {
	names := map[string]string{} // UUID -> name
	for _, u := range units {
		for _, row := range u.Rows {
			v := reflect.ValueOf(row.Model).Elem()
			names[v.FieldByName("UUID").String()] = nameOf(v)
		}
	}
	var text strings.Builder
	for _, u := range units {
		fmt.Fprintf(&text, "unit %s\n", u.Key)
		for _, row := range u.Rows {
			renderRow(&text, row)
		}
		for _, m := range u.Members {
			if _, there := names[m.Parent.UUID]; m.Optional && !there {
				continue
			}
			element, row := names[m.Element]
			if !row {
				element = m.Element
			}
			if m.Value != "" {
				element = m.Element + "=" + m.Value
			}
			fmt.Fprintf(&text, "  %s %s: %s + %s\n", m.Parent.Table, names[m.Parent.UUID], m.Column, element)
		}
	}
	return text.String()
}

// nameOf returns a row's name, or the match of a row without a name.
func nameOf(row reflect.Value) string {
	if name := row.FieldByName("Name"); name.Kind() == reflect.String {
		return name.String()
	}
	for _, column := range []string{"Match", "IPPrefix", "LogicalIP", "Chassis"} {
		if text := row.FieldByName(column); text.IsValid() && text.String() != "" {
			return text.String()
		}
	}
	return ""
}

func renderRow(text *strings.Builder, row unit.Row) {
	v := reflect.ValueOf(row.Model).Elem()
	fmt.Fprintf(text, "  %s %s\n", v.Type().Name(), nameOf(v))
	var lines []string
	for i := range v.NumField() {
		column := v.Type().Field(i).Tag.Get("ovsdb")
		if column == "_uuid" || column == "name" || v.Field(i).IsZero() {
			continue
		}
		lines = append(lines, fmt.Sprintf("    %s: %v\n", column, reflect.Indirect(v.Field(i))))
	}
	slices.Sort(lines)
	text.WriteString(strings.Join(lines, ""))
}

func TestGoldenRows(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			got := render(g.units)
			if *update {
				g.set("nb.txt", got)
				if err := os.WriteFile(g.path, txtar.Format(g.archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(g.file("nb.txt"), got); diff != "" {
				t.Errorf("rows differ (-want +got); `go test ./pkg/topology -update` rewrites the golden files:\n%s", diff)
			}
		})
	}
}
