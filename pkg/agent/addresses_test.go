package agent_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// further are addresses that another program gives the node: a virtual address on the gateway's link, addresses on another link, and
// that of NodeLocal DNSCache.
var further = map[string][]string{
	"br-ex":      {"172.18.0.99/32", "fd00:18::99/128"},
	"second0":    {"192.0.2.5/24", "2001:db8::5/64"},
	"nodelocal0": {"169.254.20.10/32"},
}

// giveFurther gives the node its further addresses, and the host outside the routes to them, and waits until they are reported. It
// returns the addresses at which ports are served.
func (s *segmented) giveFurther() (served []netip.Addr) {
	s.Helper()
	for link, addresses := range further {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = link
		if link != "br-ex" {
			s.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer-" + link}))
		}
		s.must(configure(link, addresses...))
		for _, text := range addresses {
			if a := netip.MustParsePrefix(text).Addr(); !a.IsLinkLocalUnicast() {
				served = append(served, a)
			}
		}
	}
	s.must(inNetNS(s.outside, func() error {
		link, err := netlink.LinkByName(outsideLink)
		if err != nil {
			return err
		}
		for _, a := range served {
			via := net.ParseIP(encapIP)
			if a.Is6() {
				via = net.ParseIP("fd00:18::11")
			}
			if err := netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: via,
				Dst: mustIPNet(netip.PrefixFrom(a, a.BitLen()).String())}); err != nil {
				return err
			}
		}
		return nil
	}))
	s.until("the reported addresses", func() error {
		have := s.status().HostAddresses
		return isTrue(len(have) == len(served)+1 && slices.Contains(have, "169.254.20.10"), fmt.Sprint(have))
	})
	return served
}

// follow writes the rows of the node's gateway from its status, as the operator does.
func (s *segmented) follow() {
	s.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	s.must(api.Get(s.Context(), types.NamespacedName{Name: nodeName}, nn))
	s.giveRouter(nn)
}

// inMode gives the node a mode, and the rows of its gateway.
func (s *segmented) inMode(mode networkv1alpha1.GatewayMode) {
	s.Helper()
	gateway := sharedGateway
	gateway.Mode = mode
	s.setGateway(gateway)
	s.until("the mode", func() error { return isTrue(s.status().Gateway.Mode == mode, "") })
	s.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
	s.follow()
}

// Pods reach all addresses of their node, and its host ports answer at all of them: to clients outside, to pods of the node and to the
// pod itself, in both modes and families.
func TestPortsAtEveryAddressOfTheNode(t *testing.T) {
	s := newSegmented(t)
	db, web := s.newPod("db", 5), s.newPod("web", 6)
	s.give(db, func(*topology.Pod) {})
	s.add(db)
	served := s.giveFurther()
	for _, mode := range []networkv1alpha1.GatewayMode{networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal} {
		s.inMode(mode)
		for _, address := range append(ips("169.254.20.10"), served...) {
			own := db.addresses()[0]
			if address.Is6() {
				own = db.addresses()[1]
			}
			s.wantTalk(fmt.Sprint(mode, ": a pod reaches ", address), thisHost, address, db.netNS, address, own)
		}
		s.give(web, func(p *topology.Pod) {
			p.HostPorts = []facts.HostPort{{Protocol: corev1.ProtocolTCP, Port: 8080, Target: 8080}}
		})
		s.add(web)
		for _, address := range served {
			pod, client := web.addresses()[0], netip.MustParseAddr(nextHop)
			if address.Is6() {
				pod, client = web.addresses()[1], netip.MustParseAddr("fd00:18::1")
			}
			if mode == networkv1alpha1.GatewayShared { // the pod replies to the host
				client = ips(encapIP, "fd00:18::11")[map[bool]int{true: 0, false: 1}[address.Is4()]]
			}
			s.wantTalk(fmt.Sprint(mode, ": outside to ", address), web.netNS, pod, s.outside, address, client)
			s.wantTalk(fmt.Sprint(mode, ": a pod to ", address), web.netNS, pod, db.netNS, address, netip.Addr{})
			s.wantTalk(fmt.Sprint(mode, ": the pod itself to ", address), web.netNS, pod, web.netNS, address, netip.Addr{})
		}
		s.del(web)
		for _, a := range served { // the host's own again
			s.wantTalk(fmt.Sprint(mode, ": without the pod ", a), thisHost, a, s.outside, a, netip.Addr{})
		}
	}
	link, err := netlink.LinkByName("second0")
	s.must(err)
	s.must(netlink.LinkDel(link))
	s.until("the addresses that are left", func() error {
		have := s.status().HostAddresses
		return isTrue(len(have) == 3 && !slices.Contains(have, "192.0.2.5"), fmt.Sprint(have))
	})
}

// Ports are not served at excluded addresses, and a rule that excludes all is named.
func TestNodePortAddresses(t *testing.T) {
	s := newSegmented(t)
	web := s.newPod("web", 6)
	s.give(web, func(p *topology.Pod) {
		p.HostPorts = []facts.HostPort{{Protocol: corev1.ProtocolTCP, Port: 8080, Target: 8080}}
	})
	s.add(web)
	served := s.giveFurther()
	at := func(rule ...networkv1alpha1.NodePortAddress) {
		s.Helper()
		gateway := sharedGateway
		gateway.NodePortAddresses = rule
		s.setGateway(gateway)
	}
	at("192.0.2.0/24", "2001:db8::/32")
	for _, a := range append(ips(encapIP, "fd00:18::11"), served...) {
		answers, pod := thisHost, a
		if slices.Contains(ips("192.0.2.5", "2001:db8::5"), a) {
			answers, pod = web.netNS, web.addresses()[0]
			if a.Is6() {
				pod = web.addresses()[1]
			}
		}
		s.wantTalk(fmt.Sprint("outside to ", a), answers, pod, s.outside, a, netip.Addr{})
	}
	at("10.0.0.0/8")
	s.until("the reason", func() error { return s.reason("GatewayReady", networkv1alpha1.ReasonNoPortAddress) })
	at("primary")
	s.awaitCondition(networkv1alpha1.ConditionGatewayReady, metav1.ConditionTrue)
}

// A node port answers at every address of the node, to the node itself also at 127.0.0.1, in both modes.
func TestNodePortsAtEveryAddressOfTheNode(t *testing.T) {
	s := newSegmented(t)
	db, web := s.newPod("db", 5), s.newPod("web", 6)
	for _, p := range []pod{db, web} {
		s.give(p, func(*topology.Pod) {})
		s.add(p)
	}
	served := s.giveFurther()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "everywhere"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	s.must(api.Create(s.Context(), service))
	t.Cleanup(func() { s.must(api.Delete(context.Background(), service)) })
	s.edit(func(spec *networkv1alpha1.NodeNetworkSpec) {
		spec.ServiceSubnets = []networkv1alpha1.CIDR{"10.0.0.0/24", "fd00:10:96::/112"} // the API server's default
	})
	here := nodeName
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "everywhere-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{web.addresses()[0].String()}, NodeName: &here}}}
	s.must(api.Create(s.Context(), slice))
	t.Cleanup(func() { s.must(api.Delete(context.Background(), slice)) })
	parsed, problems := facts.ParseService(service, []discoveryv1.EndpointSlice{*slice}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s.apply(topology.ServiceUnit(parsed))
	port := uint16(service.Spec.Ports[0].NodePort)
	for _, mode := range []networkv1alpha1.GatewayMode{networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal} {
		s.inMode(mode)
		for _, address := range append(ips(encapIP, "127.0.0.1"), served...) {
			clients := map[string]string{"outside": s.outside, "a pod": db.netNS, "the pod itself": web.netNS, "the node": thisHost}
			if address.Is6() {
				continue // the service has one family
			} else if address.IsLoopback() {
				clients = map[string]string{"the node": thisHost}
			}
			for name, client := range clients {
				s.until(fmt.Sprint(mode, ": ", name, " to ", address), func() error {
					_, err := talkTo(web.netNS, web.addresses()[0], client, netip.AddrPortFrom(address, port))
					return err
				})
			}
		}
	}
}

// A policy of a pod judges the clients that the host serves and hides: its rules see an address of the node. The host itself passes, as
// kubelet's probes do.
func TestPoliciesJudgeClientsThatTheHostHides(t *testing.T) {
	s := newSegmented(t)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
	var selectors []unit.Key
	enforce := func(from ...string) {
		t.Helper()
		policy.Spec.Ingress = nil
		for _, cidr := range from {
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}})
		}
		read, err := facts.ParseNetworkPolicy(policy, nil)
		s.must(err)
		selectors = slices.Collect(maps.Keys(topology.NetworkPolicySelectors(read)))
		for _, key := range selectors {
			s.apply(topology.PodGroupUnit(key))
		}
		s.apply(topology.NetworkPolicyUnit(read))
	}
	enforce()
	db, web := s.newPod("db", 5), s.newPod("web", 6)
	s.give(db, func(*topology.Pod) {})
	s.give(web, func(p *topology.Pod) {
		p.HostPorts, p.Selected = []facts.HostPort{{Protocol: corev1.ProtocolTCP, Port: 8080, Target: 8080}}, selectors
	})
	s.add(db)
	s.add(web)
	served := s.giveFurther()
	for _, mode := range []networkv1alpha1.GatewayMode{networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal} {
		s.inMode(mode)
		for _, address := range served {
			pod, node := web.addresses()[0], encapIP
			if address.Is6() {
				pod, node = web.addresses()[1], "fd00:18::11"
			}
			clients := map[string]string{"a pod": db.netNS}
			if mode == networkv1alpha1.GatewayShared { // in Local mode, clients outside keep their address
				clients["outside"] = s.outside
			}
			enforce()
			s.wantTalk(fmt.Sprint(mode, ": the host to ", address), web.netNS, pod, thisHost, address, netip.Addr{})
			for name, client := range clients {
				s.until(fmt.Sprint(mode, ": ", name, " is denied at ", address), func() error {
					_, err := talk(web.netNS, pod, client, address)
					return isTrue(err != nil, "it is admitted")
				})
			}
			enforce(netip.PrefixFrom(netip.MustParseAddr(node), netip.MustParseAddr(node).BitLen()).String())
			for name, client := range clients {
				s.wantTalk(fmt.Sprint(mode, ": ", name, " is admitted at ", address), web.netNS, pod, client, address, netip.MustParseAddr(node))
			}
		}
	}
}
