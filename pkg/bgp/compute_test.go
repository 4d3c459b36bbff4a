package bgp

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// matching returns a selector of a label.
func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// unreadable is a selector that the API server accepts and nobody can parse.
var unreadable = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}

// aNode is a node in Shared mode with both families, and the label name=nN.
func aNode(id int) (corev1.Node, networkv1alpha1.NodeNetwork) {
	name := fmt.Sprint("n", id)
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("192.0.2.1", id)}}
	nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	nn.Spec.NodeID = int32(id)
	nn.Spec.PodSubnets = []networkv1alpha1.CIDR{networkv1alpha1.CIDR(fmt.Sprintf("10.244.%d.0/24", id)),
		networkv1alpha1.CIDR(fmt.Sprintf("fd00:10:244:%d::/64", id))}
	nn.Spec.ManagementPort.MACAddress = "0a:58:0a:f4:00:02"
	nn.Status.Chassis = name
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex",
		MACAddress: "0a:58:00:00:00:01",
		Addresses: []networkv1alpha1.InterfaceAddress{networkv1alpha1.InterfaceAddress(fmt.Sprintf("192.0.2.1%d/24", id)),
			networkv1alpha1.InterfaceAddress(fmt.Sprintf("2001:db8::1%d/64", id))}}
	return node, nn
}

// aService is the Service demo/<name> with addresses of a pool.
func aService(name string, addresses ...string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{"app": name}}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, a := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
	}
	s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady, Status: metav1.ConditionTrue}}
	return s
}

// aWorld has three nodes, the pool "edge", a Service "web" with two addresses, one peer for all nodes, and an
// advertisement of everything that load balancers have.
func aWorld() *World {
	w := &World{NamespaceLabels: func(string) (map[string]string, error) { return map[string]string{"team": "a"}, nil }}
	for id := 1; id <= 3; id++ {
		node, nn := aNode(id)
		w.Nodes, w.Networks = append(w.Nodes, node), append(w.Networks, nn)
	}
	pool := networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{"tier": "edge"}}}
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"198.51.100.0/24", "2001:db8:1::/64"}
	w.Pools = append(w.Pools, pool)
	w.Services = append(w.Services, aService("web", "198.51.100.1", "2001:db8:1::1"))
	w.Peers = append(w.Peers, aPeer("rack", "192.0.2.1"))
	w.Advertisements = append(w.Advertisements, networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: networkv1alpha1.BGPAdvertisementSpec{LoadBalancers: &networkv1alpha1.BGPLoadBalancers{}}})
	w.Endpoints = func(*corev1.Service) ([]discoveryv1.EndpointSlice, error) {
		at := "n2"
		return []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{NodeName: &at}}}}, nil
	}
	return w
}

func aPeer(name, address string) networkv1alpha1.BGPPeer {
	return networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkv1alpha1.BGPPeerSpec{PeerAddress: networkv1alpha1.EgressAddress(address), PeerASN: 64512, MyASN: 64513}}
}

// makeLocal gives the first Service externalTrafficPolicy Local. Its only endpoint is on n2.
func makeLocal(w *World) {
	w.Services[0].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// text is a result in lines: "NODE PREFIX [PREFERENCE] [COMMUNITIES] [>PEERS]", and what is wrong with an object.
func text(r Result) string {
	var lines []string
	for name, node := range r.Nodes {
		if node == nil {
			continue
		}
		for _, route := range node.Routes {
			words := []string{name, route.Prefix}
			if route.LocalPreference != nil {
				words = append(words, fmt.Sprint(*route.LocalPreference))
			}
			words = append(words, route.Communities...)
			if len(route.Peers) > 0 {
				words = append(words, ">"+strings.Join(route.Peers, ","))
			}
			lines = append(lines, strings.Join(words, " "))
		}
	}
	for name, p := range r.Peers {
		if p.Reason != "" {
			lines = append(lines, fmt.Sprintf("%s %s: %s", name, p.Reason, p.Message))
		}
	}
	for name, a := range r.Advertisements {
		if a.Reason != "" {
			lines = append(lines, fmt.Sprintf("%s %s: %s", name, a.Reason, a.Message))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestCompute(t *testing.T) {
	const (
		n1          = "n1 198.51.100.1/32\nn1 2001:db8:1::1/128"
		n2          = "n2 198.51.100.1/32\nn2 2001:db8:1::1/128"
		n3          = "n3 198.51.100.1/32\nn3 2001:db8:1::1/128"
		noPeer      = "all NoPeer: no selected node has a session with a selected BGPPeer"
		notReadable = `InvalidSpec: spec.nodeSelector: "Near" is not a valid label selector operator`
		noNode      = "no node with a session is connected to the outside, has an address of its family, and is selected by the pool"
		none        = "all NothingSelected: nothing is selected: no Service has an address of the pools, " +
			"no node carries one of the EgressIPs, and no node has a pod subnet to announce"
	)
	spec := func(w *World) *networkv1alpha1.BGPAdvertisementSpec { return &w.Advertisements[0].Spec }
	for name, test := range map[string]struct {
		change func(*World)
		want   []string
	}{
		"every node announces": {func(*World) {}, []string{n1, n2, n3}},
		"no peer":              {func(w *World) { w.Peers = nil }, []string{noPeer}},
		"a peer of another name": {func(w *World) { spec(w).Peers = []string{"other"} },
			[]string{noPeer + "; spec.peers: there is no BGPPeer other"}},
		"a peer that is deleted": {func(w *World) { w.Peers[0].DeletionTimestamp = new(metav1.Now()) }, []string{noPeer}},
		"the peer's nodes":       {func(w *World) { w.Peers[0].Spec.NodeSelector = matching("name", "n2") }, []string{n2}},
		"the advertisement's":    {func(w *World) { spec(w).NodeSelector = matching("name", "n3") }, []string{n3}},
		"the pool's":             {func(w *World) { w.Pools[0].Spec.NodeSelector = matching("name", "n1") }, []string{n1}},
		"no node of the pool's": {func(w *World) { w.Pools[0].Spec.NodeSelector = matching("name", "x") }, []string{
			"all NotAnnounced: 198.51.100.1: " + noNode + "; 2001:db8:1::1: " + noNode}},
		"no node of the pool's any more": {func(w *World) {
			w.Pools[0].Spec.NodeSelector, w.Pools[0].Status.NodeSelector = matching("name", "x"), matching("name", "n1")
		}, []string{n1}},
		"a pool that has shrunk": {func(w *World) {
			w.Pools[0].Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"198.51.100.9"}
			w.Pools[0].Status.InUse = []networkv1alpha1.IP{"198.51.100.1", "2001:db8:1::1"}
		}, []string{n1, n2, n3}},
		"no advertisement": {func(w *World) { w.Advertisements = nil }, []string{}},
		"a Local Service":  {func(w *World) { makeLocal(w) }, []string{n2}},
		"a cordoned node":  {func(w *World) { w.Nodes[0].Spec.Unschedulable = true }, []string{n2, n3}},
		"an excluded node": {func(w *World) { w.Nodes[0].Labels[corev1.LabelNodeExcludeBalancers] = "" }, []string{n2, n3}},
		"a node that is unready": {func(w *World) {
			w.Nodes[1].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "Unknown"}}
		}, []string{n1, n3}},
		"a node without a link": {func(w *World) { w.Networks[2].Status.Gateway = nil }, []string{n1, n2}},
		"a node in Local mode":  {func(w *World) { w.Networks[2].Status.Gateway.Mode = networkv1alpha1.GatewayLocal }, []string{n1, n2, n3}},
		"a node without IPv6": {func(w *World) {
			g := w.Networks[0].Status.Gateway
			g.Addresses = g.Addresses[:1]
		}, []string{"n1 198.51.100.1/32", n2, n3}},
		"another pool by name": {func(w *World) { spec(w).LoadBalancers.Pools = []string{"other"} },
			[]string{"all NotAnnounced: spec.loadBalancers.pools: there is no LoadBalancerPool other"}},
		"another pool by label": {func(w *World) { spec(w).LoadBalancers.PoolSelector = matching("tier", "core") }, []string{none}},
		"the pool's label":      {func(w *World) { spec(w).LoadBalancers.PoolSelector = matching("tier", "edge") }, []string{n1, n2, n3}},
		"another Service":       {func(w *World) { spec(w).LoadBalancers.ServiceSelector = matching("app", "db") }, []string{none}},
		"another namespace":     {func(w *World) { spec(w).LoadBalancers.NamespaceSelector = matching("team", "b") }, []string{none}},
		"the namespace":         {func(w *World) { spec(w).LoadBalancers.NamespaceSelector = matching("team", "a") }, []string{n1, n2, n3}},
		"another's Service":     {func(w *World) { w.Services[0].Status.Conditions = nil }, []string{none}},
		"an address of no pool": {func(w *World) { w.Pools[0].Spec.Addresses = w.Pools[0].Spec.Addresses[1:] }, []string{
			"n1 2001:db8:1::1/128", "n2 2001:db8:1::1/128", "n3 2001:db8:1::1/128"}},
		"an unreadable selector": {func(w *World) { spec(w).NodeSelector = unreadable }, []string{"all " + notReadable}},
		"an unreadable peer":     {func(w *World) { w.Peers[0].Spec.NodeSelector = unreadable }, []string{noPeer, "rack " + notReadable}},
		"a peer without nodes": {func(w *World) { w.Peers[0].Spec.NodeSelector = matching("name", "n9") }, []string{noPeer,
			"rack NoNode: spec.nodeSelector selects no node"}},
		"two peers, one address": {func(w *World) { w.Peers = append(w.Peers, aPeer("second", "192.0.2.1")) }, []string{n1, n2, n3,
			"second PeerConflict: node n1: the older BGPPeer rack has the same address and port"}},
		"two peers with BFD, one address": {func(w *World) {
			second := aPeer("second", "192.0.2.1")
			second.Spec.PeerPort, second.Spec.BFD, w.Peers[0].Spec.BFD = 1179, &networkv1alpha1.BGPPeerBFD{}, &networkv1alpha1.BGPPeerBFD{}
			w.Peers = append(w.Peers, second)
		}, []string{n1, n2, n3,
			"second PeerConflict: node n1: the older BGPPeer rack has BFD with the same address: omit spec.bfd in one of them"}},
		"no ready local endpoint": {func(w *World) {
			makeLocal(w)
			spec(w).NodeSelector = matching("name", "n1")
		}, []string{"all NotAnnounced: 198.51.100.1: externalTrafficPolicy is Local, and no announcing node has a ready endpoint; " +
			"2001:db8:1::1: externalTrafficPolicy is Local, and no announcing node has a ready endpoint"}},
		"all cordoned": {func(w *World) {
			for i := range w.Nodes {
				w.Nodes[i].Spec.Unschedulable = true
			}
		}, []string{n1, n2, n3}},
		"a cordoned node with an endpoint": {func(w *World) {
			makeLocal(w)
			w.Nodes[1].Spec.Unschedulable = true
		}, []string{n2}},
		"aggregation": {func(w *World) {
			w.Services = append(w.Services, aService("db", "198.51.100.2", "2001:db8:1::2"))
			spec(w).AggregationLength, spec(w).AggregationLengthV6, spec(w).NodeSelector = 24, 64, matching("name", "n1")
		}, []string{"n1 198.51.100.0/24", "n1 2001:db8:1::/64"}},
		"attributes of two advertisements": {func(w *World) {
			w.Peers = append(w.Peers, aPeer("spine", "192.0.2.2"))
			spec(w).NodeSelector, spec(w).LocalPreference = matching("name", "n1"), new(int64(100))
			spec(w).Communities = []networkv1alpha1.BGPCommunity{"64513:2", "large:64513:1:2"}
			w.Advertisements = append(w.Advertisements, *w.Advertisements[0].DeepCopy())
			second := &w.Advertisements[1]
			second.Name, second.Spec.Peers, second.Spec.LocalPreference = "more", []string{"spine"}, new(int64(200))
			second.Spec.Communities = []networkv1alpha1.BGPCommunity{"64513:1", "64513:2"}
		}, []string{"n1 198.51.100.1/32 100 64513:1:2 64513:2 >rack", "n1 198.51.100.1/32 200 64513:1 64513:1:2 64513:2 >spine",
			"n1 2001:db8:1::1/128 100 64513:1:2 64513:2 >rack", "n1 2001:db8:1::1/128 200 64513:1 64513:1:2 64513:2 >spine"}},
		"pod subnets": {func(w *World) { *spec(w) = networkv1alpha1.BGPAdvertisementSpec{PodSubnets: true} },
			[]string{"n1 10.244.1.0/24\nn1 fd00:10:244:1::/64",
				"n2 10.244.2.0/24\nn2 fd00:10:244:2::/64", "n3 10.244.3.0/24\nn3 fd00:10:244:3::/64"}},
		"egress IPs": {func(w *World) {
			*spec(w) = networkv1alpha1.BGPAdvertisementSpec{EgressIPs: &networkv1alpha1.BGPEgressIPs{Selector: matching("out", "yes")},
				NodeSelector: matching("name", "n1")}
			for i, node := range []string{"n1", "n2", "n1"} {
				e := networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e", i)}}
				if i < 2 {
					e.Labels = map[string]string{"out": "yes"}
				}
				e.Status.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: networkv1alpha1.IP(fmt.Sprint("203.0.113.", i)), Node: node}}
				w.EgressIPs = append(w.EgressIPs, e)
			}
		}, []string{"all NotAnnounced: 203.0.113.1: node n2, which carries it, announces nothing of its family",
			"n1 203.0.113.0/32"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorld()
			test.change(w)
			result, err := Compute(*w)
			if err != nil {
				t.Fatal(err)
			}
			if have, want := text(result), strings.Join(test.want, "\n"); have != want {
				t.Errorf("have\n%s\nwant\n%s", have, want)
			}
		})
	}
}

// The order of the objects does not matter.
func TestComputeHasOneOrder(t *testing.T) {
	w := aWorld()
	w.Peers = append(w.Peers, aPeer("spine", "192.0.2.2"))
	w.Services = append(w.Services, aService("db", "198.51.100.2", "2001:db8:1::2"))
	forth, err := Compute(*w)
	for _, reverse := range []func(){func() { slices.Reverse(w.Peers) }, func() { slices.Reverse(w.Services) },
		func() { slices.Reverse(w.Nodes) }, func() { slices.Reverse(w.Networks) }} {
		reverse()
		back, err2 := Compute(*w)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(forth.Nodes["n1"]) != fmt.Sprint(back.Nodes["n1"]) {
			t.Errorf("have %+v, then %+v", forth.Nodes["n1"], back.Nodes["n1"])
		}
	}
}

// A session has the defaults of the API, and a node without IPv4 has a router ID of its own.
func TestSessionsOfANode(t *testing.T) {
	w := aWorld()
	w.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "2001:db8::11"}}
	w.Networks[0].Status.Gateway.Addresses = w.Networks[0].Status.Gateway.Addresses[1:]
	w.Networks[0].Spec.NodeID = 300
	result, err := Compute(*w)
	if err != nil {
		t.Fatal(err)
	}
	n := result.Nodes["n1"]
	if n.RouterID != "240.0.1.44" || !slices.Equal(n.NextHops, []networkv1alpha1.IP{"2001:db8::11"}) {
		t.Errorf("router ID %s, next hops %v", n.RouterID, n.NextHops)
	}
	if p := n.Peers[0]; p.PeerPort != 179 || p.HoldTimeSeconds != 90 || p.KeepaliveTimeSeconds != 30 || p.GracefulRestartTimeSeconds != 120 {
		t.Errorf("peer %+v", p)
	}
	if n.Peers[0].BFD != nil {
		t.Errorf("BFD %+v", n.Peers[0].BFD)
	}
	if id := result.Nodes["n2"].RouterID; id != "192.0.2.12" {
		t.Errorf("router ID %s of a node with IPv4", id)
	}
}

// BFD has the defaults of the API, and is multi-hop wherever BGP is.
func TestBFDOfANode(t *testing.T) {
	for _, c := range []struct {
		multiHop bool // of BGP
		bfd      networkv1alpha1.BGPPeerBFD
		want     networkv1alpha1.NodeBFD
	}{
		{false, networkv1alpha1.BGPPeerBFD{}, networkv1alpha1.NodeBFD{TransmitIntervalMilliseconds: 300, ReceiveIntervalMilliseconds: 300,
			DetectMultiplier: 3}},
		{true, networkv1alpha1.BGPPeerBFD{TransmitIntervalMilliseconds: 50, ReceiveIntervalMilliseconds: 70, DetectMultiplier: 5},
			networkv1alpha1.NodeBFD{TransmitIntervalMilliseconds: 50, ReceiveIntervalMilliseconds: 70, DetectMultiplier: 5, MultiHop: true}},
		{false, networkv1alpha1.BGPPeerBFD{DetectMultiplier: 4, MultiHop: true}, networkv1alpha1.NodeBFD{TransmitIntervalMilliseconds: 300,
			ReceiveIntervalMilliseconds: 300, DetectMultiplier: 4, MultiHop: true}},
	} {
		w := aWorld()
		w.Peers[0].Spec.EBGPMultiHop, w.Peers[0].Spec.BFD = c.multiHop, &c.bfd
		result, err := Compute(*w)
		if err != nil {
			t.Fatal(err)
		}
		if have := result.Nodes["n1"].Peers[0].BFD; have == nil || *have != c.want {
			t.Errorf("%+v became %+v, want %+v", c.bfd, have, c.want)
		}
	}
}

// Routes beyond the limit are left out and reported.
func TestTooManyRoutes(t *testing.T) {
	w := aWorld()
	w.Pools[0].Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"10.0.0.0/8"}
	w.Services = nil
	for i := range networkv1alpha1.MaxNodeBGPRoutes + 1 {
		w.Services = append(w.Services, aService(fmt.Sprint("s", i), fmt.Sprintf("10.0.%d.%d", i/256, i%256)))
	}
	result, err := Compute(*w)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(result.Nodes["n1"].Routes); n != networkv1alpha1.MaxNodeBGPRoutes {
		t.Errorf("%d routes", n)
	}
	if a := result.Advertisements["all"]; a.Reason != networkv1alpha1.ReasonTooManyRoutes {
		t.Errorf("%s: %s", a.Reason, a.Message)
	}
}

// A name that no object has, of a pool or of a peer, withdraws no route. A Service that is deleted meanwhile still takes its route along,
// and a peer that does not exist any more gets none.
func TestAWrongNameWithdrawsNothing(t *testing.T) {
	for name, change := range map[string]func(*networkv1alpha1.BGPAdvertisementSpec){
		"a pool": func(s *networkv1alpha1.BGPAdvertisementSpec) { s.LoadBalancers.Pools = []string{"egde"} },
		"a peer": func(s *networkv1alpha1.BGPAdvertisementSpec) { s.Peers = []string{"rakc"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorld()
			w.Services = append(w.Services, aService("later", "198.51.100.9"))
			compute := func() Result {
				result, err := Compute(*w)
				if err != nil {
					t.Fatal(err)
				}
				for i := range w.Networks {
					w.Networks[i].Spec.BGP = result.Nodes[w.Networks[i].Name]
				}
				return result
			}
			good := compute()
			if len(good.Nodes["n1"].Routes) < 3 {
				t.Fatalf("routes %+v", good.Nodes["n1"].Routes)
			}
			change(&w.Advertisements[0].Spec)
			for range 2 {
				held := compute()
				if !reflect.DeepEqual(held.Nodes, good.Nodes) {
					t.Errorf("n1 announces %+v, want %+v", held.Nodes["n1"].Routes, good.Nodes["n1"].Routes)
				}
				if a := held.Advertisements["all"]; !strings.Contains(a.Message, "stay until the names are right") {
					t.Errorf("%s: %s", a.Reason, a.Message)
				}
			}
			w.Nodes[0].Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
			if left := compute().Nodes["n1"].Routes; len(left) > 0 {
				t.Errorf("a node that must announce nothing: %+v", left)
			}
			w.Nodes[0].Labels = nil
			for i := range w.Networks {
				w.Networks[i].Spec.BGP = good.Nodes[w.Networks[i].Name]
			}
			w.Services = w.Services[:1]
			if left := compute().Nodes["n1"].Routes; len(left) != len(good.Nodes["n1"].Routes)-1 {
				t.Errorf("after a Service was deleted: %+v", left)
			}
			w.Peers[0].Name = "gone"
			if left := compute().Nodes["n1"]; left != nil && slices.ContainsFunc(left.Routes, func(r networkv1alpha1.NodeBGPRoute) bool {
				return slices.Contains(r.Peers, "rack")
			}) {
				t.Errorf("routes for a peer that does not exist: %+v", left.Routes)
			}
		})
	}
}

// Beyond the limit, new routes wait. They displace none that the node announces, whatever their addresses are.
func TestTooManyRoutesDisplaceNone(t *testing.T) {
	w := aWorld()
	w.Pools[0].Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"10.0.0.0/8"}
	w.Services = []corev1.Service{aService("web", "10.200.0.1")}
	first, err := Compute(*w)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.Networks {
		w.Networks[i].Spec.BGP = first.Nodes[w.Networks[i].Name]
	}
	for i := range networkv1alpha1.MaxNodeBGPRoutes {
		w.Services = append(w.Services, aService(fmt.Sprint("s", i), fmt.Sprintf("10.0.%d.%d", i/256, i%256)))
	}
	second, err := Compute(*w)
	if err != nil {
		t.Fatal(err)
	}
	routes := second.Nodes["n1"].Routes
	if len(routes) != networkv1alpha1.MaxNodeBGPRoutes || routes[len(routes)-1].Prefix != "10.200.0.1/32" {
		t.Errorf("%d routes, the last is %+v", len(routes), routes[len(routes)-1])
	}
	for i := range w.Networks {
		w.Networks[i].Spec.BGP = second.Nodes[w.Networks[i].Name]
	}
	if third, err := Compute(*w); err != nil || !reflect.DeepEqual(third.Nodes, second.Nodes) {
		t.Errorf("the routes change once more: %v", err)
	}
}
