package cli

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

// fakeAPI returns a client for Kubernetes' and Weft's kinds.
func fakeAPI(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&corev1.Pod{}, "spec.nodeName",
		func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
}

// endsOf returns the ends of a cluster with one node and objects.
func endsOf(t *testing.T, objects ...client.Object) *ends {
	t.Helper()
	cluster := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	cluster.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "172.18.0.11"}}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	nn.Spec.PodSubnets, nn.Spec.NodeID = []networkv1alpha1.CIDR{"10.244.0.0/24"}, 1
	nn.Spec.ManagementPort.MACAddress = "0a:58:0a:f4:00:02"
	nn.Status.Chassis = "chassis-1"
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex",
		MACAddress: "02:00:00:00:00:11", Addresses: []networkv1alpha1.InterfaceAddress{"172.18.0.11/24"}}
	e := &ends{api: fakeAPI(t, append(objects, cluster, node, nn)...), namespace: "demo"}
	if err := e.readWorld(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(e.world) != 1 {
		t.Fatalf("world %v", e.world)
	}
	return e
}

// A pod's name may have dots.
func TestTheEndOfAPodWithDots(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-1.2"}}
	pod.Spec.NodeName, pod.Status.PodIPs = "n1", []corev1.PodIP{{IP: "10.244.0.5"}}
	e := endsOf(t, pod)
	for _, text := range []string{"demo/web-1.2", "pod/web-1.2", "pods/demo/web-1.2"} {
		if end, err := e.read(t.Context(), text); err != nil || end.Namespace != "demo" || end.Name != "web-1.2" {
			t.Errorf("%s: %+v, %v", text, end, err)
		}
	}
	if _, err := e.read(t.Context(), "web-1.2"); err == nil || !strings.Contains(err.Error(), "no name of a service") {
		t.Errorf("a name with dots alone: %v", err)
	}
}

func shared(name, address string, port, nodePort int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0." + address},
		Ports: []corev1.ServicePort{{Port: port, NodePort: nodePort, Protocol: corev1.ProtocolTCP}}}
	return s
}

// Addresses of the service networks without a service are no addresses outside. Of services that share an address, the one with the
// port is meant. Packets from outside are to a service's addresses outside.
func TestEndsOfServices(t *testing.T) {
	a, b, c := shared("a", "10", 80, 0), shared("b", "11", 81, 0), shared("c", "12", 82, 30082)
	for _, s := range []*corev1.Service{a, b} {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.80"}}
	}
	e := endsOf(t, a, b, c)
	for text, want := range map[string]trace.End{
		"10.96.0.99": {Kind: trace.Unused, Name: ""}, "fd00:10:96::99": {Kind: trace.Unused}, "192.0.2.1": {Kind: trace.Outside},
		"10.96.0.10": {Kind: trace.Service, Name: "a"}, "192.0.2.80": {Kind: trace.Service, Name: "b"},
	} {
		e.port, e.protocol = "81", "tcp"
		if got, err := e.read(t.Context(), text); err != nil || got.Kind != want.Kind || got.Name != want.Name {
			t.Errorf("%s is %s %s (%v), want %s %s", text, got.Kind, got.Name, err, want.Kind, want.Name)
		}
	}
	for to, want := range map[string]string{"svc/a": "Service 192.0.2.80:80", "svc/c": "Node 172.18.0.11:30082",
		"10.96.0.10": "Service 10.96.0.10:80"} {
		t.Run(to, func(t *testing.T) {
			port := map[bool]string{true: "82", false: "80"}[to == "svc/c"]
			questions, err := (&traceCommand{protocol: "tcp", port: port, family: "IPv4"}).questions(t.Context(), e, "outside", to)
			if err != nil || len(questions) != 1 {
				t.Fatalf("questions %v, error %v", questions, err)
			}
			q := questions[0]
			if got := string(q.To.Kind) + " " + netip.AddrPortFrom(q.To.Addresses[0], q.Port).String(); got != want {
				t.Errorf("it is about %s, want %s", got, want)
			}
		})
	}
	for _, node := range []string{"n1", "n9"} {
		_, err := (&traceCommand{protocol: "tcp", port: "80", node: node}).questions(t.Context(), e, "node/n1", "svc/a")
		if err == nil || !strings.Contains(err.Error(), "--node "+node) {
			t.Errorf("--node %s: %v", node, err)
		}
	}
}

// A port of a node is a service's, or else that of the pod that has it as its host port there, by an address or at all of them. The pod
// that kubelet started first keeps it.
func TestEndsOfHostPorts(t *testing.T) {
	pod := func(name, node string, started int64, ports ...corev1.ContainerPort) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name)}}
		p.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Ports: ports}}}
		start := metav1.Unix(started, 0)
		p.Status.StartTime, p.Status.PodIPs = &start, []corev1.PodIP{{IP: "10.244.0.5"}}
		return p
	}
	port := func(number int32, hostIP string) corev1.ContainerPort {
		return corev1.ContainerPort{ContainerPort: 8000 + number, HostPort: number, HostIP: hostIP, Protocol: corev1.ProtocolTCP}
	}
	ended := pod("ended", "n1", 1, port(80, ""))
	ended.Status.Phase = corev1.PodSucceeded
	onHost := pod("on-host", "n1", 1, port(81, ""))
	onHost.Spec.HostNetwork = true
	e := endsOf(t, shared("web", "10", 80, 30082), ended, onHost, pod("late", "n1", 9, port(80, "")), pod("first", "n1", 2, port(80, "")),
		pod("other", "n2", 1, port(82, "")), pod("at", "n1", 1, port(83, "172.18.0.11"), port(84, "172.18.0.99"), port(85, "127.0.0.1"),
			port(30082, "")))
	for _, test := range []struct{ from, to, port, want string }{
		{"outside", "node/n1", "80", "demo/first"}, {"node/n1", "172.18.0.11", "80", "demo/first"}, {"outside", "node/n1", "81", ""},
		{"outside", "node/n1", "82", ""}, {"outside", "node/n1", "83", "demo/at"}, {"outside", "node/n1", "84", ""},
		{"outside", "node/n1", "85", ""}, {"node/n1", "node/n1", "85", "demo/at"}, {"outside", "node/n1", "30082", "demo/web"},
	} {
		questions, err := (&traceCommand{protocol: "tcp", port: test.port, family: "IPv4"}).questions(t.Context(), e, test.from, test.to)
		if err != nil || len(questions) != 1 {
			t.Fatalf("%+v: questions %v, error %v", test, questions, err)
		}
		got, q := "", questions[0]
		if b := q.To.Balanced; b != nil {
			got = b.Namespace + "/" + b.Name
		}
		if got != test.want || test.want == "demo/first" && test.from == "outside" && q.Backend.String() != "10.244.0.5:8080" {
			t.Errorf("%+v is of %q, backend %s", test, got, q.Backend)
		}
	}
}

// An endpoint in an EndpointSlice that a person wrote is the pod with the address, although the slice does not say so.
func TestEndsOfEndpointsWithoutPods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.5"}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "x",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4}
	for _, address := range []string{"10.244.0.5", "10.244.0.6", "192.0.2.1"} {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	end, err := endsOf(t, pod, slice, shared("web", "10", 80, 0)).read(t.Context(), "svc/demo/web")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"10.244.0.5": "other/web on n1", "10.244.0.6": "/ on n1", "192.0.2.1": "/ on "} {
		e := end.Balanced.Pods[netip.MustParseAddr(address)]
		if got := e.Namespace + "/" + e.Pod + " on " + e.Node; got != want {
			t.Errorf("endpoint %s is %s, want %s", address, got, want)
		}
	}
}

// A pod has the routers of the ExternalRoutes that select it.
func TestEndsOfRoutedPods(t *testing.T) {
	route := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "phones"}}
	route.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "voice"}}
	route.Status.NextHops = []networkv1alpha1.ExternalNextHop{{Address: "172.18.0.201", BFD: true}, {Address: "198.51.100.1", BFD: true}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", Labels: map[string]string{"app": "voice"}},
		Spec: corev1.PodSpec{NodeName: "n1"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "other"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	e := endsOf(t, route, pod, other, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	end, err := e.read(t.Context(), "web")
	if err != nil || len(end.Routers) != 1 || end.Routers[0].Route != "phones" || !end.Routers[0].BFD ||
		end.Routers[0].Address != netip.MustParseAddr("172.18.0.201") {
		t.Errorf("routers %v, error %v; want the one on the node's segment", end.Routers, err)
	}
	if end, err := e.read(t.Context(), "other"); err != nil || len(end.Routers) != 0 {
		t.Errorf("routers of another pod %v, error %v", end.Routers, err)
	}
}

// An endpoint without a pod, as that of the API server, is a candidate.
func TestEndpointOutside(t *testing.T) {
	service := shared("api", "1", 443, 0)
	port, name := int32(6443), ""
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "api",
		Labels: map[string]string{discoveryv1.LabelServiceName: "api"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.10"}}}, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}
	e := endsOf(t, service, slice)
	questions, err := (&traceCommand{protocol: "tcp", family: "IPv4"}).questions(t.Context(), e, "node/n1", "svc/demo/api")
	if err != nil || len(questions) != 1 || questions[0].Backend.String() != "192.0.2.10:6443" {
		t.Errorf("questions %+v, error %v", questions, err)
	}
}

// A note names what of a policy cannot be read, and what holds meanwhile. Policies of other pods are left out.
func TestUnreadablePolicies(t *testing.T) {
	policy := func(name, app, cidr string) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		p.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}}}
		return p
	}
	api := fakeAPI(t, policy("bad", "web", "10.0.0.0/99"), policy("good", "web", "10.0.0.0/8"), policy("others", "db", "nonsense"))
	notes, err := unreadablePolicies(t.Context(), api, "demo", map[string]string{"app": "web"})
	if err != nil || len(notes) != 1 {
		t.Fatalf("notes %q, error %v", notes, err)
	}
	for _, want := range []string{"NetworkPolicy demo/bad: spec.ingress[0].from[0].ipBlock.cidr", "10.0.0.0/99", "allows nothing",
		"the rest of the policy holds"} {
		if !strings.Contains(notes[0], want) {
			t.Errorf("note %q lacks %q", notes[0], want)
		}
	}
}
