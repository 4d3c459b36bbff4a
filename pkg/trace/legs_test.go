package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func twoNodes() World {
	w := World{}
	for name, at := range map[string]string{"n1": "1", "n2": "2"} {
		n := facts.Gateway{Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex", SNAT: true,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("172.18.0.1" + at + "/24")},
			HostAddresses: []netip.Addr{netip.MustParseAddr("172.18.0.1" + at)}}
		n.Ports = n.HostAddresses
		n.Node.Name, n.Node.Chassis = name, "chassis-"+name
		n.Node.Subnets = []netip.Prefix{netip.MustParsePrefix("10.244." + at + ".0/24")}
		w[name] = n
	}
	return w
}

// A pod that sends to a node port of another node leaves its own node as any packet does, even if the balancer there
// chooses the pod itself.
func TestNodePortOfAnotherNodeThatLeadsBack(t *testing.T) {
	w := twoNodes()
	pod := End{Kind: Pod, Namespace: "demo", Name: "web", Node: "n1", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.3")}}
	b := &Balanced{Pods: map[netip.Addr]Endpoint{pod.Addresses[0]: {Namespace: "demo", Pod: "web", Node: "n1", Ready: true}}}
	legs, err := w.Legs(Question{From: pod, To: NodeEnd("n2", w).NodePort(b), Protocol: TCP, Port: 30080,
		Backend: netip.MustParseAddrPort("10.244.1.3:8080")})
	if err != nil || len(legs) != 2 {
		t.Fatalf("%d legs, error %v; want 2", len(legs), err)
	}
	if p := legs[0].Packet; p.Hairpin || p.Backend != "" {
		t.Errorf("the first leg meets no balancer, and its packet is %+v", p)
	}
	if p := legs[1].Packet; p.Backend != "10.244.1.3:8080" || p.Source != netip.MustParseAddr("172.18.0.11") {
		t.Errorf("the second leg is %+v, want the backend and the first node's address", p)
	}
}

func TestAPodReachesItselfWithoutOVN(t *testing.T) {
	pod := End{Kind: Pod, Namespace: "demo", Name: "web", Node: "n1", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.3")}}
	findings, err := twoNodes().Trace(t.Context(), nil, true, Question{From: pod, To: pod, Protocol: TCP, Port: 80})
	if err != nil || findings[0].Verdict.Result != Allowed {
		t.Errorf("findings %+v, error %v", findings, err)
	}
}

// A node drops packets from outside to cluster IPs, and of clients that a service refuses, also where only OVN uses its link. There the
// gateway router decides about ports that the service lacks.
func TestNodeDropsPacketsFromOutside(t *testing.T) {
	w := twoNodes()
	b := &Balanced{Service: facts.Service{Namespace: "demo", Name: "web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Sources: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}}
	balancer := netip.MustParseAddr("198.51.100.7")
	b.Ports = []facts.ServicePort{{Protocol: facts.TCP, Number: 80,
		VIPs: []facts.VIP{{AddrPort: netip.AddrPortFrom(balancer, 80), Reach: facts.ReachAll, Limited: true}}}}
	for _, address := range []netip.Addr{balancer, b.ClusterIPs[0]} {
		q := Question{From: OutsideEnd(netip.MustParseAddr("192.0.2.1")), Protocol: TCP, Port: 80, Entry: "n1",
			To: End{Kind: Service, Namespace: "demo", Name: "web", Balanced: b}.At(address)}
		for _, alone := range []bool{false, true} {
			n := w["n1"]
			n.Alone = alone
			if v, ok := (World{"n1": n}).byNode(q); !ok || v.Result != Dropped {
				t.Errorf("%s, for OVN alone %t: verdict %+v, %t; want %s", address, alone, v, ok, Dropped)
			}
			other := q
			other.Port = 81
			if _, ok := (World{"n1": n}).byNode(other); address == balancer && ok == alone {
				t.Errorf("a port that the service lacks, for OVN alone %t: the node decides: %t", alone, ok)
			}
		}
	}
}

// A host whose node has an endpoint itself reaches the endpoints without the load balancer.
func TestHostThatChoosesTheEndpoint(t *testing.T) {
	w := twoNodes()
	pod, own := netip.MustParseAddr("10.244.2.3"), w["n1"].HostAddresses[0]
	b := &Balanced{Service: facts.Service{ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}, OnHost: []string{"n1"},
		Pods: map[netip.Addr]Endpoint{pod: {Namespace: "demo", Pod: "web", Node: "n2"}, own: {Namespace: "demo", Pod: "host", Node: "n1"}}}
	q := Question{From: NodeEnd("n1", w), To: End{Kind: Service, Balanced: b, Addresses: b.ClusterIPs}, Protocol: TCP, Port: 80,
		Backend: netip.AddrPortFrom(pod, 8080)}
	legs, err := w.Legs(q)
	if err != nil || len(legs) != 1 || legs[0].Packet.Destination != pod || legs[0].Packet.DestinationPort != 8080 ||
		legs[0].Packet.Backend != "" {
		t.Errorf("legs %+v, error %v; want a packet to the pod", legs, err)
	}
	q.Backend = netip.AddrPortFrom(own, 8080)
	if _, err := w.Legs(q); err == nil {
		t.Error("a packet to the node's own address passes OVN")
	}
}

// The endpoints that a balancer may choose are those with a hint for the client's node or its zone, as for packets.
func TestCandidatesFollowHints(t *testing.T) {
	w := twoNodes()
	for node, zone := range map[string]string{"n1": "east", "n2": "west"} {
		n := w[node]
		n.TopologyZone = zone
		w[node] = n
	}
	backend := func(address string, hint func(*facts.Backend)) facts.Backend {
		b := facts.Backend{AddrPort: netip.MustParseAddrPort(address)}
		hint(&b)
		return b
	}
	forNode := func(name string) func(*facts.Backend) { return func(b *facts.Backend) { b.ForNodes = []string{name} } }
	forZone := func(name string) func(*facts.Backend) { return func(b *facts.Backend) { b.ForZones = []string{name} } }
	const first, second = "10.244.1.3:80", "10.244.2.3:80"
	clusterIP := netip.MustParseAddr("10.96.0.10")
	for name, test := range map[string]struct {
		backends []facts.Backend
		want     string
	}{
		"by node":        {[]facts.Backend{backend(first, forNode("n1")), backend(second, forNode("n2"))}, second},
		"by zone":        {[]facts.Backend{backend(first, forZone("east")), backend(second, forZone("west"))}, second},
		"for none of it": {[]facts.Backend{backend(first, forZone("east"))}, first},
	} {
		b := &Balanced{Service: facts.Service{ClusterIPs: []netip.Addr{clusterIP}}}
		b.Ports = []facts.ServicePort{{Protocol: facts.TCP, Number: 80, Backends: test.backends,
			VIPs: []facts.VIP{{AddrPort: netip.AddrPortFrom(clusterIP, 80), Reach: facts.ReachAll, From: facts.FromNear}}}}
		q := Question{From: End{Kind: Pod, Node: "n2"}, To: End{Kind: Service, Balanced: b, Addresses: b.ClusterIPs}, Protocol: TCP, Port: 80}
		if got := fmt.Sprint(q.Candidates(w)); got != "["+test.want+"]" {
			t.Errorf("%s: candidates %s, want %s", name, got, test.want)
		}
	}
}

// Routers that do not answer BFD decide only if no other router of the family is left, and only about packets that leave with the
// pod's address.
func TestSilentRouters(t *testing.T) {
	router := func(address string, bfd bool) Router {
		return Router{facts.NextHop{Address: netip.MustParseAddr(address), BFD: bfd}, "phones"}
	}
	silent := []netip.Addr{netip.MustParseAddr("172.18.0.201"), netip.MustParseAddr("172.18.0.202")}
	leaves := Trace{Steps: []Step{{}}, Outputs: []Output{{"br-ex_n1", "localnet"}}}
	translated := leaves
	translated.Steps = []Step{{Translated: "172.18.0.11", Source: true}}
	for name, test := range map[string]struct {
		routers []Router
		trace   Trace
		want    Result
	}{
		"one":              {[]Router{router("172.18.0.201", true)}, leaves, Unknown},
		"both":             {[]Router{router("172.18.0.201", true), router("172.18.0.202", true)}, leaves, Unknown},
		"one of two":       {[]Router{router("172.18.0.201", true), router("172.18.0.203", true)}, leaves, Allowed},
		"one unwatched":    {[]Router{router("172.18.0.201", true), router("172.18.0.202", false)}, leaves, Allowed},
		"an egress IP":     {[]Router{router("172.18.0.201", true)}, translated, Allowed},
		"the other family": {[]Router{router("fd00:18::201", true)}, leaves, Allowed},
	} {
		q := Question{From: End{Kind: Pod, Routers: test.routers}, To: OutsideEnd(netip.MustParseAddr("192.0.2.1"))}
		leg := Leg{Packet: Packet{Watches: "rtoe-GR_n1"}, Arrives: []string{"br-ex_n1"}}
		if v := verdictOn(q, leg, path{Trace: test.trace, silent: silent}); v.Result != test.want {
			t.Errorf("%s: %+v, want %s", name, v, test.want)
		}
	}
}

// The host leads packets from outside to a host port in Local mode, where the client keeps its address, and at addresses that the gateway
// router does not have, where it does not. A port that OVN does not lead to the pod is the host's.
func TestHostPortsThatTheHostLeads(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.3"}}
	w, client := twoNodes(), OutsideEnd(netip.MustParseAddr("192.0.2.1"))
	far := End{Kind: Pod, Namespace: "demo", Name: "far", Node: "n2", Addresses: []netip.Addr{netip.MustParseAddr("10.244.2.4")}}
	neighbour := End{Kind: Pod, Namespace: "demo", Name: "near", Node: "n1", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.4")}}
	n, further := w["n1"], netip.MustParseAddr("198.51.100.1")
	n.OtherAddresses = []netip.Addr{further}
	local := n
	local.Mode = networkv1alpha1.GatewayLocal
	for name, test := range map[string]struct {
		from           End
		node           facts.Gateway
		to             netip.Addr
		source, inport string
		destination    string
	}{
		"by the gateway router":     {client, n, n.HostAddresses[0], "192.0.2.1", "br-ex_n1", "172.18.0.11:8080"},
		"at a further address":      {client, n, further, "172.18.0.11", "k8s-n1", "10.244.1.3:80"},
		"in Local mode":             {client, local, n.HostAddresses[0], "192.0.2.1", "k8s-n1", "10.244.1.3:80"},
		"a neighbour":               {neighbour, n, n.HostAddresses[0], "10.244.1.4", "demo_near", "172.18.0.11:8080"},
		"a neighbour further on":    {neighbour, n, further, "172.18.0.11", "k8s-n1", "10.244.1.3:80"},
		"a neighbour in Local mode": {neighbour, local, n.HostAddresses[0], "10.244.1.4", "demo_near", "172.18.0.11:8080"},
		"of another node":           {far, local, further, "172.18.0.12", "k8s-n1", "10.244.1.3:80"},
	} {
		w["n1"] = test.node
		port := facts.HostPort{Protocol: facts.TCP, Port: 8080, Target: 80}
		q := Question{From: test.from, To: NodeEnd("n1", w).At(test.to).HostPort(pod, port), Protocol: TCP, Port: 8080}
		q.Backend = q.Candidates(w)[0]
		legs, err := w.Legs(q)
		if err != nil || len(legs) == 0 {
			t.Fatalf("%s: legs %+v, error %v", name, legs, err)
		}
		last := legs[len(legs)-1]
		p := last.Packet
		to := netip.AddrPortFrom(p.Destination, p.DestinationPort).String()
		if p.Source.String() != test.source || p.Inport != test.inport || to != test.destination {
			t.Errorf("%s: the packet is %+v", name, p)
		}
		if !slices.Equal(last.Arrives, []string{"demo_web"}) {
			t.Errorf("%s: arrives at %v", name, last.Arrives)
		}
		for stage, byACL := range map[string]bool{"lr_in_ip_input": false, "ls_out_acl_eval": true} {
			v := verdictOn(q, last, path{Trace: Trace{Steps: []Step{{Datapath: "n1", Stage: stage}}}})
			says := v.Result == Unknown && strings.Contains(v.Why, "host port TCP/8080 of Pod demo/web is not mapped at 172.18.0.11")
			if says == byACL && p.Backend != "" || p.Backend == "" && v.Result != Dropped {
				t.Errorf("%s, without a load balancer, in %s: %+v", name, stage, v)
			}
		}
	}
}
