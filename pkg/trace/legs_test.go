package trace

import (
	"net/netip"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func twoNodes() World {
	w := World{}
	for name, at := range map[string]string{"n1": "1", "n2": "2"} {
		n := facts.Gateway{Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex", SNAT: true,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("172.18.0.1" + at + "/24")},
			HostAddresses: []netip.Addr{netip.MustParseAddr("172.18.0.1" + at)}}
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
