package desired_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/facts"
)

func addrs(texts ...string) (parsed []netip.Addr) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParseAddr(text))
	}
	return parsed
}

func nets(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

func TestGateway(t *testing.T) {
	link := desired.Link{
		Name: "br-ex", MAC: "02:00:00:18:00:11",
		Addresses: nets("198.51.100.7/32", "172.18.0.11/24", "fd00:99::1/64", "fd00:18::11/64"),
		NextHops:  addrs("172.18.0.1", "172.18.0.254", "fe80::1"),
	}
	const both = "198.51.100.7/32 fd00:99::1/64 "
	shared := networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, Uplink: networkv1alpha1.UplinkBridge}
	for name, test := range map[string]struct {
		mode     networkv1alpha1.GatewayMode
		nextHops []networkv1alpha1.IP
		former   []networkv1alpha1.IP
		link     func(*desired.Link)
		internal []netip.Addr
		want     string // addresses, then next hops
		unusable string
		wantErr  string
	}{
		"the Node's addresses before others": {
			internal: addrs("172.18.0.11", "fd00:18::11"), want: "172.18.0.11/24 fd00:18::11/64 172.18.0.1 fe80::1",
		},
		"else the first of a family": {
			internal: addrs("10.0.0.1"), want: "198.51.100.7/32 fd00:99::1/64 172.18.0.1 fe80::1",
		},
		"next hops of spec": {
			nextHops: []networkv1alpha1.IP{"fd00:18::fe", "172.18.0.9"},
			internal: addrs("172.18.0.11"), want: "172.18.0.11/24 fd00:99::1/64 172.18.0.9 fd00:18::fe",
		},
		"no next hop of a family without an address": {
			link:     func(l *desired.Link) { l.Addresses = l.Addresses[:2] },
			internal: addrs("172.18.0.11"), want: "172.18.0.11/24 172.18.0.1",
		},
		"IPv6 alone": {link: func(l *desired.Link) { l.Addresses = l.Addresses[3:] }, want: "fd00:18::11/64 fe80::1"},
		"no route": {
			link:     func(l *desired.Link) { l.NextHops = nil },
			internal: addrs("172.18.0.11"), want: "172.18.0.11/24 fd00:99::1/64",
		},
		"no address": {link: func(l *desired.Link) { l.Addresses = nil }, wantErr: "link br-ex has no address"},
		"a bad address": {
			nextHops: []networkv1alpha1.IP{"there"}, want: both + "172.18.0.1 fe80::1", unusable: "spec.gateway.nextHops[0] there: ",
		},
		"a next hop of one family": {nextHops: []networkv1alpha1.IP{"172.18.0.9"}, want: both + "172.18.0.9 fe80::1"},
		"a next hop elsewhere": {
			nextHops: []networkv1alpha1.IP{"172.19.0.9"}, want: both + "172.18.0.1 fe80::1",
			unusable: "spec.gateway.nextHops[0] 172.19.0.9: it is in no subnet of link br-ex",
		},
		"a next hop elsewhere, and a former one": {
			nextHops: []networkv1alpha1.IP{"172.19.0.9"}, former: []networkv1alpha1.IP{"172.18.0.9"}, want: both + "172.18.0.9 fe80::1",
			unusable: "172.19.0.9",
		},
		"a next hop and a former one elsewhere": {
			nextHops: []networkv1alpha1.IP{"172.19.0.9"}, former: []networkv1alpha1.IP{"172.19.0.1"}, want: both + "172.18.0.1 fe80::1",
			unusable: "172.19.0.9",
		},
		"the node itself as next hop": {
			nextHops: []networkv1alpha1.IP{"fe80::2", "172.18.0.11"}, want: both + "172.18.0.1 fe80::2",
			unusable: "spec.gateway.nextHops[1] 172.18.0.11: it is an address of link br-ex itself",
		},
		"a next hop of a family without an address": {
			link:     func(l *desired.Link) { l.Addresses = l.Addresses[:2] },
			nextHops: []networkv1alpha1.IP{"172.18.0.9", "2001:db8::1"}, internal: addrs("172.18.0.11"),
			want: "172.18.0.11/24 172.18.0.9", unusable: "spec.gateway.nextHops[1] 2001:db8::1: it is in no subnet",
		},
		"a next hop that a default route of the host has": {
			link:     func(l *desired.Link) { l.Addresses, l.NextHops = nets("192.0.2.7/32"), addrs("172.31.1.1") },
			nextHops: []networkv1alpha1.IP{"172.31.1.1"}, want: "192.0.2.7/32 172.31.1.1",
		},
		"the host's routes decide": {
			mode: networkv1alpha1.GatewayLocal, nextHops: []networkv1alpha1.IP{"172.19.0.9"}, want: both + "172.19.0.9 fe80::1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec, link := shared, link
			spec.NextHops, spec.Mode = test.nextHops, cmp.Or(test.mode, spec.Mode)
			if test.link != nil {
				test.link(&link)
			}
			got, unusable, err := desired.Gateway(spec, link, test.internal, test.former)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error is %v", err)
				}
				return
			}
			var texts []string
			for _, a := range got.Addresses {
				texts = append(texts, string(a))
			}
			for _, h := range got.NextHops {
				texts = append(texts, string(h))
			}
			if err != nil || strings.Join(texts, " ") != test.want || got.Mode != spec.Mode || got.Uplink != "Bridge" ||
				string(got.MACAddress) != link.MAC {
				t.Errorf("got %+v, %v", got, err)
			}
			if (unusable == nil) != (test.unusable == "") || unusable != nil && !strings.Contains(unusable.Error(), test.unusable) {
				t.Errorf("unusable are %v", unusable)
			}
		})
	}
}

// loadBalancer returns a service with every kind of outside address.
func loadBalancer() *corev1.Service {
	proxy := corev1.LoadBalancerIPModeProxy
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", Labels: map[string]string{"a": "b"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.7", "fd00:10:96::7"},
			ExternalIPs:              []string{"192.0.2.9", "2001:db8::9"},
			ExternalTrafficPolicy:    corev1.ServiceExternalTrafficPolicyLocal,
			LoadBalancerSourceRanges: []string{"198.51.100.0/24", "203.0.113.9/32"},
			HealthCheckNodePort:      32000, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "198.51.100.7"}, {Hostname: "example.com"}, {IP: "198.51.100.8", IPMode: &proxy}}}},
	}
}

func TestFrontends(t *testing.T) {
	frontend := func(clusterIP, address string, port uint16, sources ...string) desired.Frontend {
		f := desired.Frontend{
			Protocol: corev1.ProtocolTCP, Port: port, ClusterIP: netip.MustParseAddr(clusterIP), ClusterPort: 80,
			NodePort: 30080, Sources: nets(sources...), Local: true,
		}
		if address != "" {
			f.Address = netip.MustParseAddr(address)
		}
		return f
	}
	want := []desired.Frontend{
		frontend("10.96.0.7", "192.0.2.9", 80), frontend("fd00:10:96::7", "2001:db8::9", 80),
		frontend("10.96.0.7", "198.51.100.7", 80, "198.51.100.0/24", "203.0.113.9/32"),
		frontend("10.96.0.7", "", 30080), frontend("fd00:10:96::7", "", 30080),
	}
	equal := cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}, netip.AddrPort{})
	if diff := gocmp.Diff(want, usable(loadBalancer()), equal); diff != "" {
		t.Errorf("frontends (-want +got):\n%s", diff)
	}
	stripped := desired.StripService(loadBalancer())
	if stripped.Labels != nil || stripped.Spec.Selector != nil || stripped.Spec.HealthCheckNodePort != 32000 {
		t.Errorf("stripped is %+v", stripped)
	}
	given := loadBalancer()
	given.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady, Status: metav1.ConditionTrue}}
	if lbpool.IsOurs(stripped) || !lbpool.IsOurs(desired.StripService(given)) {
		t.Error("a stripped Service does not say whether the operator gave it its addresses")
	}
}

// frontends returns the frontends of a service, as an agent in a place sees its slices.
func frontends(service *corev1.Service, place desired.Place, slices ...discoveryv1.EndpointSlice) []desired.Frontend {
	var stripped []discoveryv1.EndpointSlice
	for i := range slices {
		stripped = append(stripped, *desired.StripSlice(&slices[i], place.Node.Name))
	}
	parsed, _ := facts.ParseService(desired.StripService(service), desired.Unmerged(stripped), nil)
	return desired.Frontends(parsed, place)
}

// on returns the place n1 in a mode, with these addresses.
func on(mode networkv1alpha1.GatewayMode, addresses ...string) desired.Place {
	return desired.Place{Mode: mode, Pods: nets("10.244.0.0/16", "fd00:10:244::/48"),
		Node: facts.ServiceNode{Name: "n1", Zone: "a", Addresses: addrs(addresses...)}}
}

// usable returns the frontends of a service with a pod of both families on the node.
func usable(service *corev1.Service) []desired.Frontend {
	return frontends(service, on(networkv1alpha1.GatewayShared, "172.18.0.11"),
		endpoints(service, "10.244.1.5@n1"), endpoints(service, "fd00:10:244:1::5@n1"))
}

// endpoints returns a slice with the port 8080 of a service's first port. An endpoint is "<address>" or "<address>@<node>", and
// "<address>@<node>!" while it ends.
func endpoints(service *corev1.Service, texts ...string) discoveryv1.EndpointSlice {
	port := &service.Spec.Ports[0]
	slice := discoveryv1.EndpointSlice{
		Ports: []discoveryv1.EndpointPort{{Name: &port.Name, Port: new(int32(8080)), Protocol: &port.Protocol}}}
	for _, text := range texts {
		text, ends := strings.CutSuffix(text, "!")
		address, node, placed := strings.Cut(text, "@")
		e := discoveryv1.Endpoint{Addresses: []string{address}}
		if placed {
			e.NodeName = &node
		}
		if ends {
			e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return slice
}

func TestHeadlessServicesHaveNoFrontends(t *testing.T) {
	service := loadBalancer()
	service.Spec.ClusterIPs = []string{"None"}
	if got := usable(service); got != nil {
		t.Errorf("frontends: %+v", got)
	}
}

// The host itself sends packets to its own endpoint, both its own and those from outside, because OVN cannot.
func TestTheHostsOwnEndpoint(t *testing.T) {
	own := addrs("172.18.0.11", "fd00:18::11")
	place := on(networkv1alpha1.GatewayShared, "172.18.0.11", "fd00:18::11")
	all := frontends(loadBalancer(), place, endpoints(loadBalancer(), "10.244.1.5@n1", "172.18.0.11@n1"))
	for _, f := range all {
		var want, outside []netip.AddrPort
		if f.ClusterIP.Is4() {
			want = []netip.AddrPort{netip.MustParseAddrPort("10.244.1.5:8080"), netip.MustParseAddrPort("172.18.0.11:8080")}
		}
		if !slices.Equal(f.Inside, want) {
			t.Errorf("the host's own connections to %+v", f)
		}
		if f.ClusterIP.Is4() && !f.IsClusterIP { // pods would not see the client's address
			outside = want[1:]
		}
		if !slices.Equal(f.Outside, outside) {
			t.Errorf("connections from outside to %+v", f)
		}
	}
	rules := desired.HostRules{Mode: networkv1alpha1.GatewayShared, Addresses: nodeWith(own...), Frontends: all}.Table()
	for _, set := range rules.Sets {
		switch set.Name {
		case "cluster4": // cluster IP, node port, external IP, load balancer
			if len(set.Elements) != 4 || set.Elements["10.96.0.7 . tcp . 80"] != "10.244.1.5 . 8080" ||
				set.Elements["172.18.0.11 . tcp . 30080"] != "10.244.1.5 . 8080" {
				t.Errorf("the host's own connections: %v", set.Elements)
			}
		case "outside4":
			if len(set.Elements) != 3 || set.Elements["192.0.2.9 . tcp . 80"] != "172.18.0.11 . 8080" {
				t.Errorf("connections from outside: %v", set.Elements)
			}
		case "cluster6":
			if set.Elements["fd00:18::11 . tcp . 30080"] != "fd00:10:96::7 . 80" {
				t.Errorf("the host's own connections over IPv6: %v", set.Elements)
			}
		case "outside6":
			if len(set.Elements) != 0 {
				t.Errorf("connections from outside over IPv6: %v", set.Elements)
			}
		}
	}
	bridge := desired.ExternalBridge{Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: own, Ports: own, Frontends: all}
	for _, f := range bridge.Flows() {
		if strings.Contains(f.Match, "ct_nw_dst=172.18.0.11") && f.Actions != "LOCAL" {
			t.Errorf("flow %+v", f)
		}
	}
}

// hostEndpoints returns endpoints of the load balancer in the host networks of n1 and further nodes.
func hostEndpoints(nodes int) discoveryv1.EndpointSlice {
	var texts []string
	for i := range nodes {
		texts = append(texts, fmt.Sprintf("172.18.0.%d@n%d", 11+i, i+1))
	}
	return endpoints(loadBalancer(), texts...)
}

// choiceFor returns what the rules of a chain do that choose an endpoint for connections to an address: a line for each endpoint.
func choiceFor(table desired.NftTable, chain, address string) (lines string) {
	for _, c := range table.Chains {
		for _, rule := range c.Rules {
			if _, does, ok := strings.Cut(rule, " tcp dport "); ok && c.Name == chain && strings.HasPrefix(rule, "ip daddr "+address+" ") {
				_, does, _ = strings.Cut(does, " ")
				lines += does + "\n"
			}
		}
	}
	return lines
}

// If the host has an endpoint of a service, it chooses among all endpoints, as far as the service permits it.
func TestTheHostChoosesAmongAllEndpoints(t *testing.T) {
	const both = "numgen random mod 2 0 dnat ip to 172.18.0.11:8080\ndnat ip to 172.18.0.12:8080\n"
	local := corev1.ServiceInternalTrafficPolicyLocal
	type choice struct {
		change func(*corev1.ServiceSpec)
		// Which connections are spread: the host's own to the cluster IP and to the node port, and those from outside.
		inside, nodePort, externals bool
	}
	for name, test := range map[string]choice{
		"Cluster": {func(*corev1.ServiceSpec) {}, true, true, true},
		"external policy Local": {
			func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }, true, true, false,
		},
		"internal policy Local": {func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = &local }, false, true, true},
		"affinity": {
			func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }, false, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := loadBalancer()
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
			test.change(&service.Spec)
			place := on(networkv1alpha1.GatewayShared, "172.18.0.11")
			all := frontends(service, place, hostEndpoints(2))
			table := desired.HostRules{Mode: place.Mode, Addresses: nodeWith(place.Node.Addresses...), Frontends: all}.Table()
			for _, rule := range []struct {
				chain, address string
				want           bool
			}{
				{"output", "10.96.0.7", test.inside}, {"output", "172.18.0.11", test.nodePort},
				{"output", "192.0.2.9", test.nodePort}, {"prerouting", "10.96.0.7", false},
				{"prerouting", "172.18.0.11", test.externals}, {"prerouting", "198.51.100.7", test.externals},
			} {
				if got := choiceFor(table, rule.chain, rule.address); (got == both) != rule.want || !rule.want && got != "" {
					t.Errorf("%s to %s: %q", rule.chain, rule.address, got)
				}
			}
			forwards := func(f desired.Frontend) bool { return f.ForwardsOutside(place.Node.Addresses) }
			if got := slices.ContainsFunc(all, forwards); got != test.externals {
				t.Errorf("ForwardsOutside is %v", got)
			}
			for _, set := range table.Sets {
				_, hidden := set.Elements["172.18.0.12 . tcp . 8080"]
				if set.Name == "beyond4" && (hidden != (test.inside || test.nodePort) || len(set.Elements) > 1) {
					t.Errorf("clients are hidden from %v", set.Elements)
				}
			}
		})
	}
}

// The host chooses among a part of very many endpoints. It does not choose if it has none itself, because then OVN does.
func TestTheHostChoosesAmongSome(t *testing.T) {
	place, slice := on(networkv1alpha1.GatewayShared, "172.18.0.11"), hostEndpoints(40)
	for _, f := range frontends(loadBalancer(), place, slice) {
		if want := f.ClusterIP.Is4(); (len(f.Inside) == 16) != want || !want && len(f.Inside) > 0 {
			t.Errorf("%+v chooses among %d", f, len(f.Inside))
		}
	}
	slice.Endpoints = slice.Endpoints[1:]
	for _, f := range frontends(loadBalancer(), place, slice) {
		if len(f.Inside) > 0 || len(f.Outside) > 0 || f.Dropped != (f.ClusterIP.Is4() && !f.IsClusterIP) {
			t.Errorf("without an own endpoint: %+v", f)
		}
	}
}

// Only in Local mode does the host itself send packets to an endpoint elsewhere that is not a pod.
func TestAnEndpointElsewhereThatIsNoPod(t *testing.T) {
	name := "https"
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIPs: []string{"10.96.0.1"}, Ports: []corev1.ServicePort{{Name: name, Protocol: corev1.ProtocolTCP, Port: 443}},
	}}
	slice := endpoints(service, "172.18.0.2")
	slice.Ports[0].Port = new(int32(6443))
	for mode, want := range map[networkv1alpha1.GatewayMode]string{
		networkv1alpha1.GatewayLocal: "172.18.0.2 . 6443", networkv1alpha1.GatewayShared: "",
	} {
		place := on(mode, "172.18.0.11")
		table := desired.HostRules{Mode: mode, Addresses: nodeWith(place.Node.Addresses...), Frontends: frontends(service, place, slice)}.Table()
		for _, set := range table.Sets {
			_, masqueraded := set.Elements["172.18.0.2 . tcp . 6443"]
			switch {
			case set.Name == "cluster4" && set.Elements["10.96.0.1 . tcp . 443"] != want,
				set.Name == "outside4" && len(set.Elements) > 0, set.Name == "beyond4" && masqueraded != (want != ""):
				t.Errorf("%s: %s has %v", mode, set.Name, set.Elements)
			}
		}
	}
}

// Changed lists the UDP destinations of services that were added, removed or changed.
func TestDatagramsThatGoElsewhereNow(t *testing.T) {
	service := loadBalancer()
	service.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	rules := desired.HostRules{Mode: networkv1alpha1.GatewayLocal, Addresses: nodeWith(addrs("172.18.0.11")...)}
	none := rules.UDP()
	rules.Frontends = usable(service)
	all := rules.UDP()
	if got := desired.Changed(none, all); len(got) != 4 || got[0] != netip.MustParseAddrPort("172.18.0.11:30080") {
		t.Errorf("after a service was added: %v", got)
	}
	if got := desired.Changed(all, none); len(got) != 4 {
		t.Errorf("after a service was removed: %v", got)
	}
	service.Spec.ClusterIPs[0] = "10.96.0.8"
	rules.Frontends = usable(service)
	if got := desired.Changed(all, rules.UDP()); len(got) != 3 { // of IPv4
		t.Errorf("after a service was changed: %v", got)
	}
	if got := desired.Changed(all, all); len(got) != 0 {
		t.Errorf("without a change: %v", got)
	}
}

// If two services have the same address and port, the first one gets it.
func TestFlowsMatchOnce(t *testing.T) {
	all := usable(loadBalancer())
	b := desired.ExternalBridge{
		Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: addrs("172.18.0.11", "fd00:18::11"),
		Ports: addrs("172.18.0.11", "fd00:18::11"),
	}
	without := len(b.Flows())
	b.Frontends = append(all, all...)
	seen := map[desired.Flow]bool{}
	for _, f := range b.Flows() {
		f.Actions = ""
		if seen[f] {
			t.Errorf("two flows match the same: %+v", f)
		}
		seen[f] = true
	}
	if got := len(seen) - without; got != 7 { // one for each address, and two sources of the limited address
		t.Errorf("%d flows for the service", got)
	}
}

// After conntrack the flows match the MAC again, because conntrack releases expired fragments together with any packet.
func TestNothingLeavesWithAnotherPacket(t *testing.T) {
	b := desired.ExternalBridge{
		Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: addrs("172.18.0.11", "fd00:18::11"),
		Ports:     addrs("172.18.0.11", "fd00:18::11"),
		Frontends: usable(loadBalancer()),
	}
	checked := 0
	for _, f := range b.Flows() {
		outside := strings.HasSuffix(f.Actions, "output:1") || f.Actions == "NORMAL" || strings.HasSuffix(f.Actions, ",NORMAL")
		switch {
		case outside && strings.Contains(f.Actions, "ct("):
			t.Errorf("flow %+v lets out every packet that conntrack releases", f)
		case outside && f.Table > 0 && !strings.Contains(f.Match, "dl_src="+b.MAC):
			t.Errorf("flow %+v lets out any MAC", f)
		case outside && f.Table > 0:
			checked++
		}
	}
	if checked != 2 {
		t.Errorf("%d flows let out packets after conntrack, want the router's and the host's", checked)
	}
}

// With the node's address, other nodes would accept a pod's datagram to a tunnel as the node's own.
func TestNoTunnelLeavesThroughTheRouterOrTheHost(t *testing.T) {
	b := desired.ExternalBridge{
		Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: addrs("172.18.0.11", "fd00:18::11"),
		Ports: addrs("172.18.0.11", "fd00:18::11"),
	}
	for _, family := range []string{"udp", "udp6"} {
		want := desired.Flow{Priority: 110, Match: "in_port=2," + family + ",tp_dst=6081", Actions: "drop"}
		if !slices.Contains(b.Flows(), want) {
			t.Errorf("flow %+v is missing", want)
		}
	}
	for _, mode := range []networkv1alpha1.GatewayMode{networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal} {
		services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}
		chains := desired.HostRules{Mode: mode, Services: services, Router: "0a:58:0a:f4:01:01"}.Table().Chains
		i := slices.IndexFunc(chains, func(c desired.NftChain) bool { return c.Hook == "forward" })
		if i < 0 {
			t.Fatalf("mode %s: no chain for forwarded packets", mode)
		}
		for _, rule := range []string{
			`iifname "ovn-k8s-mp0" udp dport 6081 drop`,
			"ct status dnat udp dport 6081 ip daddr . meta l4proto . th dport @beyond4 drop",
			`oifname "ovn-k8s-mp0" icmp type redirect drop`,
			`iifname "ovn-k8s-mp0" ip daddr 10.96.0.0/16 ct original ip daddr 10.96.0.0/16 drop`,
			`iifname "ovn-k8s-mp0" ip6 daddr fd00:10:96::/112 ct original ip6 daddr fd00:10:96::/112 drop`,
			`iifname "ovn-k8s-mp0" ether saddr != 0a:58:0a:f4:01:01 drop`,
		} {
			if !slices.Contains(chains[i].Rules, rule) {
				t.Errorf("mode %s: rule %q is missing in %q", mode, rule, chains[i].Rules)
			}
		}
	}
}

// While encryption is required, tunnels' packets without IPsec neither leave nor enter the host.
func TestNoTunnelIsInTheClear(t *testing.T) {
	guards := map[string]string{"output": "udp dport 6081 rt ipsec missing drop", "input": "udp dport 6081 meta ipsec missing drop"}
	for hook, rule := range guards {
		if !slices.ContainsFunc(desired.TunnelGuard().Chains, func(c desired.NftChain) bool {
			return c.Type == "filter" && c.Hook == hook && slices.Contains(c.Rules, rule)
		}) {
			t.Errorf("rule %q is missing", rule)
		}
	}
}

// In Shared mode the host serves clients that reach it and not the router, except for services that must preserve the clients'
// addresses. Source ranges hold there, too.
func TestTheHostServesWhereTheRouterDoesNot(t *testing.T) {
	service := loadBalancer()
	for policy, want := range map[corev1.ServiceExternalTrafficPolicy]int{
		corev1.ServiceExternalTrafficPolicyCluster: 3, corev1.ServiceExternalTrafficPolicyLocal: 0,
	} {
		service.Spec.ExternalTrafficPolicy = policy
		rules := desired.HostRules{
			Mode: networkv1alpha1.GatewayShared, Addresses: nodeWith(addrs("172.18.0.11")...),
			Frontends: usable(service),
		}
		for _, set := range rules.Table().Sets {
			switch {
			case set.Name == "outside4" && len(set.Elements) != want,
				set.Name == "cluster4" && set.Elements["172.18.0.11 . tcp . 30080"] != "10.96.0.7 . 80",
				set.Name == "limited4" && len(set.Elements) != 1, set.Name == "refused4" && len(set.Elements) > 0:
				t.Errorf("policy %s: %s has %v", policy, set.Name, set.Elements)
			}
		}
	}
}

// A bridge that only OVN uses lets out translated packets with the router's MAC, and nothing else of the router. It drops packets
// from outside to cluster IPs, and from clients outside of a service's source ranges.
func TestALinkOfItsOwn(t *testing.T) {
	limited := func(port uint16, sources ...netip.Prefix) desired.Frontend {
		return desired.Frontend{Address: netip.MustParseAddr("192.0.2.80"), Port: port, Protocol: corev1.ProtocolTCP,
			Sources: append([]netip.Prefix{}, sources...)}
	}
	b := desired.ExternalBridge{
		Alone: true, Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Hidden: nets("10.244.0.0/16"), Services: nets("10.96.0.0/16"),
		Frontends: append(usable(loadBalancer()), limited(80, nets("203.0.113.0/24", "2001:db8::/64")...), limited(81)),
		Silent:    addrs("172.18.0.201", "fd00:18::201"),
	}
	want := []desired.Flow{
		{Priority: 1, Actions: "NORMAL"},
		{Priority: 100, Match: "in_port=2,dl_src=02:00:00:18:00:11", Actions: "output:1"},
		{Priority: 90, Match: "in_port=2", Actions: "drop"},
		{Priority: 50, Match: "in_port=1,dl_dst=02:00:00:18:00:11", Actions: "output:2"},
		{Priority: 60, Match: "in_port=1,ip,nw_dst=10.96.0.0/16", Actions: "drop"},
		{Priority: 70, Match: "in_port=1,ip,nw_dst=198.51.100.7,nw_proto=6,tp_dst=80", Actions: "drop"},
		{Priority: 80, Match: "in_port=1,ip,nw_dst=198.51.100.7,nw_proto=6,tp_dst=80,dl_dst=02:00:00:18:00:11,nw_src=198.51.100.0/24",
			Actions: "output:2"},
		{Priority: 80, Match: "in_port=1,ip,nw_dst=198.51.100.7,nw_proto=6,tp_dst=80,dl_dst=02:00:00:18:00:11,nw_src=203.0.113.9/32",
			Actions: "output:2"},
		{Priority: 70, Match: "in_port=1,ip,nw_dst=192.0.2.80,nw_proto=6,tp_dst=80", Actions: "drop"},
		{Priority: 80, Match: "in_port=1,ip,nw_dst=192.0.2.80,nw_proto=6,tp_dst=80,dl_dst=02:00:00:18:00:11,nw_src=203.0.113.0/24",
			Actions: "output:2"},
		{Priority: 70, Match: "in_port=1,ip,nw_dst=192.0.2.80,nw_proto=6,tp_dst=81", Actions: "drop"},
		{Priority: 109, Match: "in_port=2,ip,nw_dst=10.96.0.0/16", Actions: "drop"},
		{Priority: 105, Match: "in_port=2,ip,nw_src=10.244.0.0/16", Actions: "drop"},
		{Priority: 107, Match: "in_port=2,arp,arp_spa=172.18.0.201", Actions: "drop"},
		{Priority: 107, Match: "in_port=2,icmp6,icmp_type=136,icmp_code=0,nd_target=fd00:18::201", Actions: "drop"},
	}
	if diff := gocmp.Diff(want, b.Flows()); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}

// The bridge lets out packets of pods with routers of their own, and new connections to them in. BFD of the routers reaches the
// gateway router.
func TestPodsWithRoutersOfTheirOwn(t *testing.T) {
	b := desired.ExternalBridge{Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: addrs("172.18.0.11", "fd00:18::11"),
		Ports:  addrs("172.18.0.11", "fd00:18::11"),
		Hidden: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, Routed: addrs("10.244.0.5", "fd00:10:244::5"),
		Services: []netip.Prefix{netip.MustParsePrefix("fd00:10:96::/112")},
		Watched:  addrs("172.18.0.201", "fd00:18::201")}
	for _, want := range []struct{ priority, match, actions string }{
		{"105", "in_port=2,ip,nw_src=10.244.0.0/16", "drop"},
		{"109", "in_port=2,ipv6,ipv6_dst=fd00:10:96::/112", "drop"},
		{"108", "in_port=2,ip,dl_src=02:00:00:18:00:11,nw_src=10.244.0.5", "ct(commit,table=2,"},
		{"108", "in_port=2,ipv6,dl_src=02:00:00:18:00:11,ipv6_src=fd00:10:244::5", "ct(commit,table=2,"},
		{"40", "ct_state=+new+trk,ip,ct_nw_dst=10.244.0.5", "output:2"},
		{"203", "in_port=1,udp,dl_dst=02:00:00:18:00:11,nw_src=172.18.0.201,nw_dst=172.18.0.11,tp_dst=3784", "output:2"},
		{"203", "in_port=1,udp6,dl_dst=02:00:00:18:00:11,ipv6_src=fd00:18::201,ipv6_dst=fd00:18::11,tp_dst=3784", "output:2"},
	} {
		if !slices.ContainsFunc(b.Flows(), func(f desired.Flow) bool {
			return strconv.Itoa(f.Priority) == want.priority && f.Match == want.match && strings.Contains(f.Actions, want.actions)
		}) {
			t.Errorf("no flow of priority %s with %s to %s", want.priority, want.match, want.actions)
		}
	}
	b.Alone = true
	want := desired.Flow{Priority: 108, Match: "in_port=2,ip,dl_src=02:00:00:18:00:11,nw_src=10.244.0.5", Actions: "output:1"}
	if !slices.Contains(b.Flows(), want) {
		t.Errorf("without the host, flow %+v is missing", want)
	}
}

// nodeWith returns a node's addresses, at all of which ports are served.
func nodeWith(addresses ...netip.Addr) desired.Addresses {
	return desired.Addresses{Own: addresses, Ports: addresses}
}
