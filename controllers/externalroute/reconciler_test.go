package externalroute_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/externalroute"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

func aRoute(hops networkv1alpha1.ExternalNextHops, change ...func(*networkv1alpha1.ExternalRoute)) *networkv1alpha1.ExternalRoute {
	e := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "out", Generation: 3}}
	e.Spec.NextHops = hops
	for _, c := range change {
		c(e)
	}
	return e
}

func static(addresses ...networkv1alpha1.EgressAddress) (hops []networkv1alpha1.StaticNextHop) {
	for i, a := range addresses {
		hops = append(hops, networkv1alpha1.StaticNextHop{Address: a, BFD: i == 0})
	}
	return hops
}

// using puts routers in use.
func using(addresses ...networkv1alpha1.IP) func(*networkv1alpha1.ExternalRoute) {
	return func(e *networkv1alpha1.ExternalRoute) {
		for _, a := range addresses {
			e.Status.NextHops = append(e.Status.NextHops, networkv1alpha1.ExternalNextHop{Address: a})
		}
	}
}

// routers selects the pods app=router of namespaces with team=net.
func routers(network string) []networkv1alpha1.PodNextHops {
	return []networkv1alpha1.PodNextHops{{Network: network, BFD: true,
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "net"}},
		PodSelector:       metav1.LabelSelector{MatchLabels: map[string]string{"app": "router"}}}}
}

func aRouter(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "r", Labels: map[string]string{"app": "router"}}}
	p.Spec.NodeName, p.Spec.HostNetwork = "n1", true
	p.Status.Phase, p.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: "192.0.2.11"}, {IP: "2001:db8::11"}}
	for _, c := range change {
		c(p)
	}
	return p
}

// onSegment gives a pod an interface of a network definition.
func onSegment(p *corev1.Pod) {
	p.Spec.HostNetwork = false
	p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": `[` +
		`{"name":"weft","interface":"eth0","ips":["10.244.0.5"],"default":true},` +
		`{"name":"infra/dc","interface":"net1","ips":["192.0.2.77"]}]`}
}

// manyRouters are routers with an address each.
func manyRouters(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, aRouter(func(p *corev1.Pod) {
			p.Name, p.Status.PodIPs = fmt.Sprintf("r%03d", i), []corev1.PodIP{{IP: fmt.Sprintf("192.0.2.%d", 100+i)}}
		}))
	}
	return pods
}

// firstRouters are the first n of them, as state has them.
func firstRouters(n int) string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("192.0.2.%d bfd infra/r%03d", 100+i, i))
	}
	return strings.Join(texts, ", ")
}

// aNode is a node in Shared mode whose link has these addresses.
func aNode(name string, addresses ...networkv1alpha1.InterfaceAddress) *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared, Addresses: addresses}
	return nn
}

func local(nn *networkv1alpha1.NodeNetwork) *networkv1alpha1.NodeNetwork {
	nn.Status.Gateway.Mode = networkv1alpha1.GatewayLocal
	return nn
}

func leavingBy(nn *networkv1alpha1.NodeNetwork, hop networkv1alpha1.IP) *networkv1alpha1.NodeNetwork {
	nn.Status.Gateway.NextHops = append(nn.Status.Gateway.NextHops, hop)
	return nn
}

func tunnelling(nn *networkv1alpha1.NodeNetwork, from networkv1alpha1.IP) *networkv1alpha1.NodeNetwork {
	nn.Status.EncapIP = from
	return nn
}

// selected is a pod with an interface of its own.
func selected(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
}

func apiServer(address string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}}}
	s.Namespace, s.Name, s.Labels = "default", "kubernetes", map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	return s
}

// state is the status of the ExternalRoute as text: "<address> [bfd] [<pod>], ...: <status> <reason> <message>".
func state(b *kindtest.Bed) string {
	e := kindtest.Get(b, aRoute(networkv1alpha1.ExternalNextHops{}))
	var hops []string
	for _, hop := range e.Status.NextHops {
		text := string(hop.Address)
		if hop.BFD {
			text += " bfd"
		}
		if hop.Pod != "" {
			text += " " + hop.Pod
		}
		hops = append(hops, text)
	}
	c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady)
	if c == nil {
		return "none"
	}
	text := fmt.Sprintf("%s: %s %s %s", strings.Join(hops, ", "), c.Status, c.Reason, c.Message)
	for _, hop := range e.Status.Former {
		text += "; former " + string(hop.Address)
	}
	return text
}

func TestReconcile(t *testing.T) {
	infra := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "infra", Labels: map[string]string{"team": "net"}}}
	for name, c := range map[string]struct {
		route  *networkv1alpha1.ExternalRoute
		pods   []*corev1.Pod
		nodes  []*networkv1alpha1.NodeNetwork
		others []client.Object
		away   bool
		old    bool // the server lacks NAT.match
		want   string
		event  bool
	}{
		"static": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "2001:db8::2")}),
			want: "192.0.2.2 bfd, 2001:db8::2: True AsExpected routers in use: 2"},
		"pods of the host's network": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}), pods: []*corev1.Pod{aRouter()},
			want: "192.0.2.11 bfd infra/r, 2001:db8::11 bfd infra/r: True AsExpected routers in use: 2"},
		"pods on a network": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("infra/dc")}),
			pods: []*corev1.Pod{aRouter(onSegment)},
			want: "192.0.2.77 bfd infra/r: True AsExpected routers in use: 1"},
		"a static router that is a pod": {
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("2001:db8::2", "192.0.2.77"), Pods: routers("infra/dc")}),
			pods:  []*corev1.Pod{aRouter(onSegment)}, want: "192.0.2.77 bfd, 2001:db8::2 bfd: True AsExpected routers in use: 2"},
		"a pod without that network": {
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2"), Pods: routers("infra/other")}),
			pods:  []*corev1.Pod{aRouter(onSegment)},
			want:  "192.0.2.2 bfd: False NextHopsUnusable pod infra/r: it has no address on the segment yet", event: true},
		"a pod of the cluster network": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}),
			pods: []*corev1.Pod{aRouter(onSegment)}, event: true,
			want: ": False NoNextHop pod infra/r: it does not use the host's network, and no network is given"},
		"two such pods": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}), event: true,
			pods: []*corev1.Pod{aRouter(onSegment), aRouter(onSegment, func(p *corev1.Pod) { p.Name = "s" })},
			want: ": False NoNextHop pod infra/r: it does not use the host's network, and no network is given; " +
				"pod infra/s: it does not use the host's network, and no network is given"},
		"pods that do not run": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}), event: true,
			pods: []*corev1.Pod{aRouter(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
			want: ": False NoNextHop no running pod is a router"},
		"pods of other namespaces": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}), event: true,
			pods: []*corev1.Pod{aRouter(func(p *corev1.Pod) { p.Namespace = "demo" })}, want: ": False NoNextHop no running pod is a router"},
		"an unreadable selector keeps the routers": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.3")},
			func(e *networkv1alpha1.ExternalRoute) {
				e.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
				e.Status.NextHops = []networkv1alpha1.ExternalNextHop{{Address: "192.0.2.2"}}
			}), event: true, want: `192.0.2.2: False InvalidSpec spec.podSelector: "Near" is not a valid label selector operator`},
		"an unreadable selector of routers": {event: true,
			want: `: False InvalidSpec spec.nextHops.pods[0].podSelector: "Near" is not a valid label selector operator`,
			route: aRoute(networkv1alpha1.ExternalNextHops{Pods: []networkv1alpha1.PodNextHops{{PodSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}})},
		"too many": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}), event: true, pods: manyRouters(70),
			want: firstRouters(64) + ": False NextHopsUnusable 64 of 70 routers are used"},
		"an old server": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2")}), old: true, event: true,
			want: ": False DatabaseSchemaTooOld the northbound database's server lacks NAT.match, which routers of pods need: " +
				"it is older than OVN 24.09"},
		"on the segment of one node": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "fe80::2")}),
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24", "2001:db8::1/64"), aNode("n2", "198.51.100.1/24")},
			want:  "192.0.2.2 bfd, fe80::2: True AsExpected routers in use: 2"},
		"on no segment": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("203.0.113.9")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")},
			want:  ": False NoNextHop next hop 203.0.113.9 is not used: it is not on the segment of any node's gateway router"},
		"an address of pods": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "10.244.1.5")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")},
			want: "192.0.2.2 bfd: False NextHopsUnusable next hop 10.244.1.5 is not used: " +
				"it is not on the segment of any node's gateway router"},
		"an address of the join network": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("100.64.0.2")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")},
			want:  ": False NoNextHop next hop 100.64.0.2 is not used: it is not on the segment of any node's gateway router"},
		"the segment's broadcast address": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, event: true,
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.255")}, using("192.0.2.2")),
			want: "192.0.2.2: False NextHopsUnusable next hop 192.0.2.255 is not used: it is the address of all hosts of 192.0.2.0/24; " +
				"spec.nextHops.static had 192.0.2.2, which stays in use; former 192.0.2.2"},
		"the segment's network address": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24", "2001:db8::1/64")}, event: true,
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "192.0.2.0", "2001:db8::")}),
			want: "192.0.2.2 bfd: False NextHopsUnusable next hop 192.0.2.0 is not used: it is the address of all hosts of 192.0.2.0/24; " +
				"next hop 2001:db8:: is not used: it is the address of all hosts of 2001:db8::/64"},
		"another router": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")},
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.3")}, using("192.0.2.2")),
			want:  "192.0.2.3 bfd: True AsExpected routers in use: 1"},
		"a removed router": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")},
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.3")}, using("192.0.2.2", "192.0.2.3")),
			want:  "192.0.2.3 bfd: True AsExpected routers in use: 1"},
		"an unusable router instead": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, event: true,
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.1")}, using("192.0.2.2")),
			want: "192.0.2.2: False NextHopsUnusable next hop 192.0.2.1 is not used: it is an address of node n1; " +
				"spec.nextHops.static had 192.0.2.2, which stays in use; former 192.0.2.2"},
		"a router of another family instead": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, event: true,
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("2001:db8::2")}, using("192.0.2.2")),
			want: "192.0.2.2: False NextHopsUnusable next hop 2001:db8::2 is not used: it is not on the segment of any node's gateway router; " +
				"spec.nextHops.static had 192.0.2.2, which stays in use; former 192.0.2.2"},
		"a kept router that is unusable, too": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, event: true,
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.1")}, using("198.51.100.1")),
			want: ": False NoNextHop next hop 192.0.2.1 is not used: it is an address of node n1; " +
				"next hop 198.51.100.1 is not used: it is not on the segment of any node's gateway router; former 198.51.100.1"},
		"a pod is no former router": {nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, event: true,
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.1")}, using("192.0.2.2"),
				func(e *networkv1alpha1.ExternalRoute) { e.Status.NextHops[0].Pod = "infra/r" }),
			want: ": False NoNextHop next hop 192.0.2.1 is not used: it is an address of node n1"},
		"a node": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "192.0.2.1")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")},
			want:  "192.0.2.2 bfd: False NextHopsUnusable next hop 192.0.2.1 is not used: it is an address of node n1"},
		"a node's address for tunnels": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.8")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24"), tunnelling(aNode("n2", "192.0.2.3/24"), "192.0.2.8")},
			want:  ": False NoNextHop next hop 192.0.2.8 is not used: it is an address of node n2"},
		"an API server": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "192.0.2.250")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, others: []client.Object{apiServer("192.0.2.250")},
			want: "192.0.2.2 bfd: False NextHopsUnusable next hop 192.0.2.250 is not used: it is an address of the Kubernetes API server"},
		"an API server instead": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("2001:db8::250")}, using("2001:db8::2")),
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "2001:db8::1/64")}, others: []client.Object{apiServer("2001:db8::250")}, event: true,
			want: "2001:db8::2: False NextHopsUnusable next hop 2001:db8::250 is not used: it is an address of the Kubernetes API server; " +
				"spec.nextHops.static had 2001:db8::2, which stays in use; former 2001:db8::2"},
		"a node's address in Kubernetes": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.7")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.1/24")}, others: []client.Object{&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n2"},
				Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.7"}}}}},
			want: ": False NoNextHop next hop 192.0.2.7 is not used: it is an address of node n2"},
		"a router that runs on an API server": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}),
			pods:   []*corev1.Pod{aRouter(func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[:1] })},
			others: []client.Object{apiServer("192.0.2.11")}, nodes: []*networkv1alpha1.NodeNetwork{aNode("n2", "192.0.2.12/24")},
			want: "192.0.2.11 bfd infra/r: True AsExpected routers in use: 1"},
		"a pod of a node's host network": {route: aRoute(networkv1alpha1.ExternalNextHops{Pods: routers("")}), pods: []*corev1.Pod{aRouter()},
			nodes: []*networkv1alpha1.NodeNetwork{aNode("n1", "192.0.2.11/24", "2001:db8::11/64"), aNode("n2", "192.0.2.12/24")}, event: true,
			want: "192.0.2.11 bfd infra/r: False NextHopsUnusable next hop 2001:db8::11 is not used: " +
				"it is not on the segment of any node's gateway router"},
		"a router that the default route has": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("172.31.1.1")}),
			nodes: []*networkv1alpha1.NodeNetwork{leavingBy(aNode("n1", "192.0.2.1/32"), "172.31.1.1")},
			want:  "172.31.1.1 bfd: True AsExpected routers in use: 1"},
		"nodes without a gateway router": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2")}), event: true,
			nodes: []*networkv1alpha1.NodeNetwork{local(aNode("n1", "192.0.2.1/24"))},
			want:  ": False NoNextHop next hop 192.0.2.2 is not used: it is not on the segment of any node's gateway router"},
		"a node that has not reported yet keeps its routers": {event: true, nodes: []*networkv1alpha1.NodeNetwork{
			aNode("n1", "192.0.2.1/24"), {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}},
			route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("198.51.100.2", "198.51.100.3")}, func(e *networkv1alpha1.ExternalRoute) {
				e.Status.NextHops = []networkv1alpha1.ExternalNextHop{{Address: "198.51.100.2"}}
			}),
			want: "198.51.100.2 bfd: False NextHopsUnusable next hop 198.51.100.3 is not used: " +
				"it is not on the segment of any node's gateway router"},
		"the database is away": {route: aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2")}), away: true, want: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{c.route, infra, selected("web")}
			for _, p := range c.pods {
				objects = append(objects, p)
			}
			for _, n := range c.nodes {
				objects = append(objects, n)
			}
			objects = append(objects, c.others...)
			b := kindtest.New(t, externalroute.Kinds, topology.KindExternalRoute, nil, objects...)
			b.Database.Away, b.Database.Old = c.away, c.old
			outcome := b.Reconcile("", "out")
			if got := state(b); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
			if got := len(outcome.Events) > 0; got != c.event {
				t.Errorf("events %q", outcome.Events)
			}
			b.ExpectSettled("", "out")
		})
	}
}
