//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// outside is the fixture of the gateway tests: pods, servers outside and on the nodes, and services.
type outside struct {
	pods  map[string]*corev1.Pod     // node -> a pod there; the pod on n1 is the services' only backend
	all   map[string]*corev1.Service // external traffic policy -> service
	world *corev1.Service            // its endpoint is the host outside
	nodes []lab.Machine

	podMTU int
	column column
}

// column is one configuration of the gateway.
type column struct {
	mode   networkv1alpha1.GatewayMode
	uplink networkv1alpha1.UplinkType
}

func (c column) String() string { return fmt.Sprint(c.mode, " ", c.uplink) }

// apart reports whether only OVN uses the nodes' links to the second network.
func (c column) apart() bool { return c.uplink == networkv1alpha1.UplinkInterface }

// at returns a machine with the addresses that it, or a node's gateway router, has on the network outside.
func (c column) at(m lab.Machine) lab.Machine {
	if c.apart() {
		return m.Second()
	}
	return m
}

// gateway returns the part of ClusterNetwork's spec that requests the column. It clears the settings of other
// columns.
func (c column) gateway() map[string]any {
	spec := map[string]any{"mode": c.mode, "uplink": c.uplink, "interface": nil, "nextHops": nil}
	if c.apart() {
		spec["interface"], spec["nextHops"] = secondLink, ofMachine(c.at(lab.Router())).Addresses
	}
	return spec
}

// secondLink is a node's link to the second network.
const secondLink = "eth1"

// public returns the addresses of one kind for a service with a policy, one of each family, which the router
// forwards to a node.
func public(kind, policy, node string) []netip.Addr {
	number := 80
	for bit, set := range []bool{kind == loadBalancer, policy == "Local", node == "n2"} {
		if set {
			number += 1 << bit
		}
	}
	return addressList(fmt.Sprintf("192.0.2.%d", number), fmt.Sprintf("2001:db8::%d", number))
}

// loadBalancer is the kind of the addresses in a service's status.
const loadBalancer = "LoadBalancer"

// TestGateway sends traffic into the cluster and out of it, in both modes and with both uplinks, and checks which
// source address the other end sees.
func TestGateway(t *testing.T) {
	o := makeOutside(t)
	var cells []*cell
	t.Cleanup(func() { writeCells(t, "gateway.json", cells) })
	first := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), first) })
	for _, c := range []column{first, {networkv1alpha1.GatewayShared, networkv1alpha1.UplinkInterface},
		{networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(c.String(), func(t *testing.T) {
			o, mode := o, c.mode
			o.column = c
			bed.setGateway(t, t.Context(), c)
			o.routePublic(t)
			var lost *lostFragments
			if mode == networkv1alpha1.GatewayShared {
				lost = o.loseFragments(t)
			}
			m := &matrix{mode: string(mode), uplink: string(c.uplink)}
			o.addEgress(t, m)
			o.addIngress(t, m)
			o.addHosts(t, m)
			m.try(t)
			cells = append(cells, m.cells...)
			bed.awaitConsistent(t) // nothing of the previous column remains
			t.Run("health checks", func(t *testing.T) { testHealthChecks(t, o) })
			t.Run("source ranges", func(t *testing.T) { testSourceRanges(t, o) })
			t.Run("further addresses", func(t *testing.T) { testFurtherAddresses(t, o) })
			t.Run("large packets", func(t *testing.T) { testLargePackets(t, o) })
			t.Run("routers on the way", func(t *testing.T) { testRouters(t, o, mode) })
			if lost != nil {
				t.Run("lost fragments", func(t *testing.T) { lost.testNoneComesBack(t, o) })
			}
		})
	}
}

func makeOutside(t *testing.T) outside {
	nodes, err := bed.Nodes()
	must(t, err)
	o := outside{pods: map[string]*corev1.Pod{}, all: map[string]*corev1.Service{}, nodes: nodes, podMTU: clusterMTU(t)}
	o.pods["n1"], o.pods["n2"] = labelled(bed.peerPod("gw-server", "n1"), "gw"), bed.peerPod("gw-other", "n2")
	for _, policy := range []string{"Cluster", "Local"} {
		o.all[policy] = publicService(t, policy, nodes)
	}
	o.world = service("gw-world", "")
	o.world.Spec.Selector = nil
	bed.create(t, o.world)
	for i, a := range []netip.Addr{lab.Outside().IPv4.Addr(), lab.Outside().IPv6.Addr()} {
		bed.create(t, worldSlice(o.world, i, a))
	}
	bed.run(t, o.pods["n1"], o.pods["n2"])
	bed.serveOn(t, lab.Outside().Name, lab.Far().Name, "n1", "n2")
	return o
}

// publicService returns a service reached from outside by node ports, by external IPs, and by a load balancer that
// forwards packets with the service's address.
func publicService(t *testing.T, policy string, nodes []lab.Machine) *corev1.Service {
	t.Helper()
	var ingress []corev1.LoadBalancerIngress
	s := service("gw-"+strings.ToLower(policy), "gw", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicy(policy)
		s.Ports = append(s.Ports, echoPorts()...)
		for _, n := range nodes {
			for _, a := range public(externalIP, policy, n.Name) {
				s.ExternalIPs = append(s.ExternalIPs, a.String())
			}
		}
	})
	bed.create(t, s)
	for _, n := range nodes {
		for _, a := range public(loadBalancer, policy, n.Name) {
			ingress = append(ingress, corev1.LoadBalancerIngress{IP: a.String()})
		}
	}
	s.Status.LoadBalancer.Ingress = ingress
	must(t, bed.api.Status().Update(t.Context(), s))
	return s
}

// routePublic routes the services' addresses to their nodes.
func (o outside) routePublic(t *testing.T) {
	t.Helper()
	for _, n := range o.nodes {
		for policy := range o.all {
			for _, kind := range []string{externalIP, loadBalancer} {
				routeTo(t, o.column.at(n), public(kind, policy, n.Name))
			}
		}
	}
}

// routeTo makes the lab's router forward addresses to a node, as a network with static routes to external IPs does.
func routeTo(t *testing.T, n lab.Machine, addresses []netip.Addr) {
	t.Helper()
	for _, a := range addresses {
		hop := n.IPv4.Addr()
		if a.Is6() {
			hop = n.IPv6.Addr()
		}
		bed.mustExec(t, lab.Router().Name, "ip", "route", "replace", a.String(), "via", hop.String())
		t.Cleanup(func() {
			if _, err := bed.Exec(cleanup(), lab.Router().Name, "ip", "route", "delete", a.String()); err != nil {
				t.Error(err)
			}
		})
	}
}

// worldSlice is the endpoint of a service without a selector.
func worldSlice(s *corev1.Service, number int, to netip.Addr) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprint(s.Name, "-", number),
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{to.String()}}}}
	if to.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, p := range s.Spec.Ports {
		number := p.TargetPort.IntVal
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &number})
	}
	return slice
}

// setGateway configures a column and waits until every node uses it. It also waits until each node's host has its
// second link again, unless OVN uses it.
func (b *testbed) setGateway(t *testing.T, ctx context.Context, c column) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"gateway": c.gateway()}})
	must(t, err)
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	must(t, b.api.Patch(ctx, cn, client.RawPatch("application/merge-patch+json", patch)))
	must(t, poll.Slowly(ctx, recoveryTimeout, func() error {
		var all networkv1alpha1.NodeNetworkList
		if err := b.api.List(ctx, &all); err != nil {
			return err
		}
		for _, nn := range all.Items {
			if g := nn.Status.Gateway; g == nil || g.Mode != c.mode || g.Uplink != c.uplink ||
				!meta.IsStatusConditionTrue(nn.Status.Conditions, networkv1alpha1.ConditionGatewayReady) {
				return fmt.Errorf("node %s has gateway %+v, conditions %+v", nn.Name, g, nn.Status.Conditions)
			}
			if err := b.secondLinkIs(ctx, nn.Name, !c.apart()); err != nil {
				return err
			}
		}
		return nil
	}))
}

// secondLinkIs returns nil if a node's second link has its addresses exactly when the host uses it.
func (b *testbed) secondLinkIs(ctx context.Context, node string, hosts bool) error {
	out, err := b.Exec(ctx, node, "ip", "-o", "address", "show", "scope", "global", "dev", secondLink)
	if err != nil {
		return err
	}
	want := 0
	if hosts {
		want = 2
	}
	if have := strings.Count(string(out), "172.31.0.") + strings.Count(string(out), "fd00:172:31::"); have < want ||
		want == 0 && have > 0 {
		return fmt.Errorf("%s of node %s has %q, want %d addresses", secondLink, node, out, want)
	}
	return nil
}

// ofMachine returns the addresses of a machine.
func ofMachine(m lab.Machine) source {
	return source{"the address of " + m.Name, []netip.Addr{m.IPv4.Addr(), m.IPv6.Addr()}}
}

// ofNode returns the addresses of a node.
func (b *testbed) ofNode(name string) source {
	nodes, err := b.Nodes()
	if i := slices.IndexFunc(nodes, func(m lab.Machine) bool { return m.Name == name }); err == nil && i >= 0 {
		return ofMachine(nodes[i])
	}
	return source{Name: "the address of " + name}
}

// anyOf returns all addresses from which a node may send foreign traffic to pods. Any of them may masquerade for it.
func (b *testbed) anyOf(t *testing.T, node string) source {
	t.Helper()
	nn := nodeNetwork(node)
	must(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	return source{"an address of " + node, slices.Concat(b.ofNode(node).Addresses,
		interfaceAddresses(t, nn.Spec.JoinAddresses), interfaceAddresses(t, nn.Spec.ManagementPort.Addresses))}
}

// addEgress adds what pods reach outside the pod network. Traffic leaves the node with the node's address; the node
// itself sees the pod's.
func (o outside) addEgress(t *testing.T, m *matrix) {
	out := ofMachine(lab.Outside()).Addresses
	for _, n := range o.nodes {
		pod := o.pods[n.Name]
		from := bed.podCaller(pod)
		seenOutside := promise{[]string{lab.Outside().Name}, ofMachine(o.column.at(n))}
		m.add(from, "pod and outside", "host", "", out, fixed(whoPort), seenOutside)
		m.add(from, "pod and outside", clusterIP, "", addressList(o.world.Spec.ClusterIPs...), fixed(80), seenOutside)
		for _, other := range o.nodes {
			relation, seen := "pod and own node", itself(pod)
			if other.Name != n.Name {
				relation, seen = "pod and other node", seenOutside.Source
			}
			m.add(from, relation, "host", "", ofMachine(other).Addresses, fixed(whoPort), promise{[]string{other.Name}, seen})
		}
	}
}

// addIngress adds traffic from outside to every node. With policy Cluster, any node serves it and hides the client.
// With policy Local, nodes with a backend serve it, and the backend sees the client.
func (o outside) addIngress(t *testing.T, m *matrix) {
	from, server := bed.hostCaller(lab.Outside().Name), []string{o.pods["n1"].Name}
	for policy, s := range o.all {
		for _, n := range o.nodes {
			p := promise{server, bed.anyOf(t, n.Name)}
			switch {
			case policy == "Local" && n.Name == "n1":
				p = promise{server, ofMachine(lab.Outside())}
			case policy == "Local":
				p = promise{}
			}
			m.add(from, "outside and pod", nodePort(n.Name), policy, ofMachine(o.column.at(n)).Addresses, nodePortsOf(s), p)
			switch {
			case o.column.apart():
				o.addHostsNodePorts(t, m, policy, n, n)
			case o.column.mode == networkv1alpha1.GatewayShared:
				o.addHostsNodePorts(t, m, policy, n, n.Second())
			}
			for _, kind := range []string{externalIP, loadBalancer} {
				m.add(from, "outside and pod", kind+" at "+n.Name, policy, public(kind, policy, n.Name), fixed(80), p)
			}
		}
	}
}

// testSourceRanges checks that a service's source ranges hold at the load balancer's addresses only.
func testSourceRanges(t *testing.T, o outside) {
	s := o.all["Cluster"]
	setRanges := func(ctx context.Context, ranges []string) {
		before := s.DeepCopy()
		s.Spec.LoadBalancerSourceRanges = ranges
		must(t, bed.api.Patch(ctx, s, client.MergeFrom(before)))
	}
	var ranges []string
	for _, a := range both(lab.Far()) {
		ranges = append(ranges, netip.PrefixFrom(a, a.BitLen()).String())
	}
	setRanges(t.Context(), ranges)
	t.Cleanup(func() { setRanges(cleanup(), nil) })
	m := &matrix{mode: string(o.column.mode), uplink: string(o.column.uplink)}
	node, p := o.nodes[0].Name, promise{[]string{o.pods["n1"].Name}, bed.anyOf(t, o.nodes[0].Name)}
	out, far := bed.hostCaller(lab.Outside().Name), bed.hostCaller(lab.Far().Name)
	m.add(out, "outside and pod", loadBalancer+" with source ranges", "Cluster", public(loadBalancer, "Cluster", node), fixed(80), promise{})
	m.add(far, "outside and pod", loadBalancer+" with source ranges", "Cluster", public(loadBalancer, "Cluster", node), fixed(80), p)
	m.add(out, "outside and pod", externalIP+" with source ranges", "Cluster", public(externalIP, "Cluster", node), fixed(80), p)
	m.try(t)
}

// addHostsNodePorts adds node ports at a node's own addresses, if the gateway router does not have them too. The
// host serves them and hides the client, which policy Local does not allow.
func (o outside) addHostsNodePorts(t *testing.T, m *matrix, policy string, n, at lab.Machine) {
	p := promise{[]string{o.pods["n1"].Name}, bed.anyOf(t, n.Name)}
	if policy == "Local" {
		p = promise{}
	}
	m.add(bed.hostCaller(lab.Outside().Name), "outside and pod", nodePort(n.Name)+" at the host", policy,
		ofMachine(at).Addresses, nodePortsOf(o.all[policy]), p)
}

// testHealthChecks checks that a load balancer learns which nodes have backends of a service whose external policy
// is Local.
func testHealthChecks(t *testing.T, o outside) {
	port := uint16(o.all["Local"].Spec.HealthCheckNodePort)
	for _, n := range o.nodes {
		for _, a := range ofMachine(n).Addresses {
			url := fmt.Sprintf("http://%s/healthz", netip.AddrPortFrom(a, port))
			eventually(t, recoveryTimeout, func() error {
				out, err := bed.Exec(t.Context(), lab.Outside().Name, "busybox", "wget", "-T", "2", "-q", "-O-", url)
				if has := n.Name == "n1"; !has {
					return refuses503(url, err)
				}
				if err == nil && !strings.Contains(string(out), `"localEndpoints":1`) {
					err = fmt.Errorf("%s: %s", url, out)
				}
				return err
			})
		}
	}
}

// refuses503 returns nil if the client's error reports status 503.
func refuses503(url string, complaint error) error {
	if complaint == nil {
		return fmt.Errorf("%s: status 200, want 503", url)
	}
	if !strings.Contains(complaint.Error(), " 503 ") {
		return fmt.Errorf("%s: want status 503: %w", url, complaint)
	}
	return nil
}

// addHosts adds calls from the nodes' own processes. They are traffic from within the cluster, whatever the policy
// for traffic from outside.
func (o outside) addHosts(t *testing.T, m *matrix) {
	server := []string{o.pods["n1"].Name}
	for _, n := range o.nodes {
		from, seen := bed.hostCaller(n.Name), bed.managementOf(t, n.Name)
		for _, pod := range o.pods {
			m.add(from, "node and pod of "+pod.Spec.NodeName, "pod", "", addressesOf(pod), fixed(whoPort),
				promise{[]string{pod.Name}, seen})
		}
		for policy, s := range o.all {
			m.add(from, "node and service", clusterIP, policy, addressList(s.Spec.ClusterIPs...), fixed(80), promise{server, seen})
			m.add(from, "node and service", "own node port", policy, ofMachine(n).Addresses, nodePortsOf(s), promise{server, seen})
			for _, kind := range []string{externalIP, loadBalancer} {
				m.add(from, "node and service", kind, policy, public(kind, policy, n.Name), fixed(80), promise{server, seen})
			}
		}
		m.add(from, "node and outside", clusterIP, "", addressList(o.world.Spec.ClusterIPs...), fixed(80),
			promise{[]string{lab.Outside().Name}, ofMachine(o.column.at(n))})
	}
}
