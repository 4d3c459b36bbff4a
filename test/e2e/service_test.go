//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// service selects pods by their label app, over both protocols and families.
func service(name, app string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	policy := corev1.IPFamilyPolicyRequireDualStack
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, IPFamilyPolicy: &policy,
		Ports: []corev1.ServicePort{
			{Name: "t", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(whoPort)},
			{Name: "u", Port: 80, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(whoPort)},
		},
	}}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

// labelled sets a pod's label app.
func labelled(p *corev1.Pod, app string) *corev1.Pod {
	p.Labels = map[string]string{"app": app}
	return p
}

// Kinds of addresses of a service.
const (
	clusterIP  = "ClusterIP"
	externalIP = "ExternalIP"
)

// nodePort is the kind of address for the node port at a node's address.
func nodePort(node string) string { return "NodePort " + node }

// TestServices calls services from everywhere, over both protocols and families, with both traffic policies. A call
// from a pod or a node to a node port of its own node, or to an external IP, is traffic from within the cluster: it
// goes to all endpoints even if the policy for traffic from outside is Local. A call to a node port of another node
// counts there as traffic from outside.
func TestServices(t *testing.T) {
	b1, b2, alone := labelled(bed.peerPod("svc-b1", "n1"), "svc"), labelled(bed.peerPod("svc-b2", "n2"), "svc"),
		labelled(bed.peerPod("svc-alone", "n1"), "svc-alone")
	near, far := bed.peerPod("svc-near", "n1"), bed.peerPod("svc-far", "n2")
	services := map[string][2]*corev1.Service{ // policy -> service with two backends, service with one
		"Cluster": {service("svc", "svc", published(1)), service("svc-alone", "svc-alone", published(2))},
		"Local":   {service("svc-local", "svc", published(3), local), service("svc-alone-local", "svc-alone", published(4), local)},
	}
	for _, both := range services {
		bed.create(t, both[0], both[1])
	}
	bed.run(t, b1, b2, alone, near, far)

	m := &matrix{}
	for policy, s := range services {
		for kind, to := range entries(t, s[0]) {
			for relation, from := range map[string]*corev1.Pod{"same node and other node": near,
				"other node and same node": far, "hairpin and other node": b1} {
				m.add(bed.podCaller(from), relation, kind, policy, to.addresses, to.port, bed.promised(t, policy, to, from, b1, b2))
			}
		}
		for kind, to := range entries(t, s[1]) {
			for relation, from := range map[string]*corev1.Pod{"same node": near, "other node": far, "hairpin": alone} {
				m.add(bed.podCaller(from), relation, kind, policy, to.addresses, to.port, bed.promised(t, policy, to, from, alone))
			}
		}
		to, onN2 := entries(t, s[1])[clusterIP], []string{alone.Name}
		if policy == "Local" {
			onN2 = nil
		}
		m.add(bed.hostCaller("n1"), "host, same node", clusterIP, policy, to.addresses, to.port,
			promise{[]string{alone.Name}, bed.managementOf(t, "n1")})
		m.add(bed.hostCaller("n2"), "host, other node", clusterIP, policy, to.addresses, to.port, promise{onN2, bed.managementOf(t, "n2")})
	}
	m.try(t)
	writeCells(t, "services.json", m.cells)
}

// promised returns the expected outcome of a pod's calls to one kind of address of a service with these backends.
func (b *testbed) promised(t *testing.T, policy string, to entry, from *corev1.Pod, backends ...*corev1.Pod) promise {
	t.Helper()
	own := from.Spec.NodeName
	where := "" // if set, only this node's backends answer
	switch {
	case policy == "Local" && to.node != "" && to.node != own:
		where = to.node
	case policy == "Local" && to.cluster:
		where = own
	}
	p := promise{Source: itself(from)}
	for _, backend := range backends {
		if where != "" && backend.Spec.NodeName != where {
			continue
		}
		p.Servers = append(p.Servers, backend.Name)
		if backend.Name == from.Name {
			p.Source = hairpin
		}
	}
	switch {
	case to.node != "" && to.node != own && policy == "Local":
		// The call leaves its node like any other traffic, and the receiving node keeps the client's address.
		p.Source = either(itself(from), b.ofNode(own))
	case to.node != "" && to.node != own:
		p.Source = either(either(itself(from), b.anyOf(t, own)), b.anyOf(t, to.node))
	case p.Source.Name == hairpin.Name && len(p.Servers) > 1:
		p.Source = either(itself(from), hairpin)
	}
	return p
}

// published gives a service node ports and two external IPs, with numbers unique to the service. The lab's router
// has no route to them.
func published(number int) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) {
		s.Type = corev1.ServiceTypeNodePort
		s.ExternalIPs = []string{fmt.Sprintf("192.0.2.%d", 70+number), fmt.Sprintf("2001:db8::%d", 70+number)}
	}
}

// local sets both policies to keep traffic on its node.
func local(s *corev1.ServiceSpec) {
	policy := corev1.ServiceInternalTrafficPolicyLocal
	s.InternalTrafficPolicy, s.ExternalTrafficPolicy = &policy, corev1.ServiceExternalTrafficPolicyLocal
}

// entry is one kind of address of a service.
type entry struct {
	addresses []netip.Addr
	port      func(protocol string) uint16
	cluster   bool   // for traffic from within the cluster
	node      string // the node of a node port; else empty
}

// entries returns a service's addresses by kind.
func entries(t *testing.T, s *corev1.Service) map[string]entry {
	t.Helper()
	nodes, err := bed.Nodes()
	must(t, err)
	all := map[string]entry{
		clusterIP:  {addresses: addressList(s.Spec.ClusterIPs...), port: fixed(80), cluster: true},
		externalIP: {addresses: addressList(s.Spec.ExternalIPs...), port: fixed(80)},
	}
	for _, n := range nodes {
		all[nodePort(n.Name)] = entry{addresses: ofMachine(n).Addresses, port: nodePortsOf(s), node: n.Name}
	}
	return all
}

// fixed returns the same port for both protocols.
func fixed(port uint16) func(string) uint16 { return func(string) uint16 { return port } }

func nodePortsOf(s *corev1.Service) func(protocol string) uint16 {
	return func(protocol string) uint16 { return nodePortOf(s, protocol) }
}

// nodePortOf returns a service's node port, or 0.
func nodePortOf(s *corev1.Service, protocol string) uint16 {
	for _, p := range s.Spec.Ports {
		if strings.EqualFold(string(p.Protocol), protocol) {
			return uint16(p.NodePort)
		}
	}
	return 0
}

// hairpin is the address that a pod sees when it reaches itself through a service.
var hairpin = source{"the hairpin address", addressList("169.254.169.5", "fd69::5")}

func itself(p *corev1.Pod) source { return source{"the pod " + p.Name, addressesOf(p)} }

// managementOf returns the addresses of a node's management port, under which pods see the node.
func (b *testbed) managementOf(t *testing.T, node string) source {
	t.Helper()
	nn := nodeNetwork(node)
	must(t, b.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
	return source{"the management port of " + node, interfaceAddresses(t, nn.Spec.ManagementPort.Addresses)}
}

func interfaceAddresses(t *testing.T, texts []networkv1alpha1.InterfaceAddress) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for _, text := range texts {
		prefix, err := text.Prefix()
		must(t, err)
		all = append(all, prefix.Addr())
	}
	return all
}

func either(a, b source) source {
	return source{a.Name + " or " + b.Name, slices.Concat(a.Addresses, b.Addresses)}
}

// TestServiceWithoutEndpoints checks that a service without endpoints immediately refuses calls over all protocols
// and families, and works as soon as it has an endpoint, even for a UDP client that keeps its port.
func TestServiceWithoutEndpoints(t *testing.T) {
	client := bed.peerPod("svc-empty-client", "n2")
	empty := service("svc-empty", "svc-empty")
	bed.create(t, empty)
	bed.run(t, client)
	from := func(protocol string, to netip.AddrPort) ([]called, error) {
		var more []string
		if protocol == "udp" { // the connection tracker's entry survives the backends
			more = append(more, "--from=40077")
		}
		return bed.podCaller(client).call(t.Context(), protocol, to, 1, more...)
	}
	each := func(check func(protocol string, to netip.AddrPort) error) {
		t.Helper()
		for _, text := range empty.Spec.ClusterIPs {
			for _, protocol := range []string{"tcp", "udp"} {
				eventually(t, 20*time.Second, func() error { return check(protocol, netip.AddrPortFrom(netip.MustParseAddr(text), 80)) })
			}
		}
	}
	refused := func(protocol string, to netip.AddrPort) error {
		all, err := from(protocol, to)
		if err != nil {
			return err
		}
		if !all[0].Refused {
			return fmt.Errorf("%s %s: %+v", protocol, to, all[0])
		}
		return nil
	}
	each(refused)
	server := labelled(bed.peerPod("svc-empty-server", "n1"), "svc-empty")
	bed.run(t, server)
	each(func(protocol string, to netip.AddrPort) error {
		all, err := from(protocol, to)
		if err != nil {
			return err
		}
		_, err = answered(all, []string{server.Name})
		return err
	})
	bed.remove(t, server)
	each(refused)
}

// TestLocalServiceFollowsItsEndpoints checks that a service with internal policy Local drops calls, over all protocols and families,
// while the client's node has no endpoint, and works as soon as it has one. That holds for a UDP client that keeps its port, although
// conntrack remembers all packets of a node with a policy. Other ports refuse.
func TestLocalServiceFollowsItsEndpoints(t *testing.T) {
	client := labelled(bed.peerPod("svc-stay-client", "n2"), "svc-stay-client")
	elsewhere := labelled(bed.peerPod("svc-stay-elsewhere", "n1"), "svc-stay")
	stay := service("svc-stay", "svc-stay", func(s *corev1.ServiceSpec) {
		s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	})
	bed.create(t, stay, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "svc-stay"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: app("svc-stay-client"),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}})
	bed.run(t, client, elsewhere)
	each := func(port uint16, check func(one called) error) {
		t.Helper()
		for _, text := range stay.Spec.ClusterIPs {
			for _, protocol := range []string{"tcp", "udp"} {
				var more []string
				if protocol == "udp" {
					more = append(more, "--from=40078")
				}
				to := netip.AddrPortFrom(netip.MustParseAddr(text), port)
				eventually(t, 20*time.Second, func() error {
					all, err := bed.podCaller(client).call(t.Context(), protocol, to, 1, more...)
					if err != nil {
						return err
					}
					if err = check(all[0]); err != nil {
						return fmt.Errorf("%s %s: %w", protocol, to, err)
					}
					return nil
				})
			}
		}
	}
	dropped := func(one called) error {
		if one.Error == "" || one.Refused {
			return fmt.Errorf("%+v, want no answer", one)
		}
		return nil
	}
	refused := func(one called) error {
		if !one.Refused {
			return fmt.Errorf("%+v, want a refusal", one)
		}
		return nil
	}
	for _, name := range []string{"svc-stay-1", "svc-stay-2"} {
		each(80, dropped)
		each(81, refused)
		near := labelled(bed.peerPod(name, "n2"), "svc-stay")
		bed.run(t, near)
		each(80, func(one called) error {
			_, err := answered([]called{one}, []string{near.Name})
			return err
		})
		bed.remove(t, near)
	}
	each(80, dropped)
	bed.remove(t, elsewhere)
	each(80, refused)
}

// TestServiceAffinity checks that a client with affinity stays with a backend at each address of a service, from its
// first connection on, without a retry, while it connects more often than the timeout. After the timeout it is balanced
// again, and also then no connection is lost.
func TestServiceAffinity(t *testing.T) {
	b1, b2 := labelled(bed.peerPod("svc-aff-1", "n1"), "svc-aff"), labelled(bed.peerPod("svc-aff-2", "n2"), "svc-aff")
	near, far := bed.peerPod("svc-aff-near", "n1"), bed.peerPod("svc-aff-far", "n2")
	lasting := service("svc-aff", "svc-aff", published(7), affine(600))
	brief := service("svc-aff-brief", "svc-aff", published(8), affine(3))
	localBrief := service("svc-aff-local", "svc-aff", published(9), affine(3), local)
	bed.create(t, lasting, brief, localBrief)
	bed.run(t, b1, b2, near, far)
	eventually(t, 30*time.Second, func() error { return bed.newAffinity(t, lasting, false, near).stays(3) }) // until all endpoints are there

	t.Run("stays", func(t *testing.T) {
		for _, client := range []*corev1.Pod{near, far, b1, b2} {
			must(t, bed.newAffinity(t, lasting, false, client).stays(10))
		}
	})
	t.Run("stays while it connects", func(t *testing.T) {
		a := bed.newAffinity(t, brief, false, near)
		for range 7 {
			must(t, a.stays(1))
			time.Sleep(time.Second)
		}
	})
	t.Run("ends", func(t *testing.T) {
		for _, client := range []*corev1.Pod{near, b2} {
			a := bed.newAffinity(t, brief, false, client)
			for round := 0; !a.moved(); round++ {
				if round == 30 {
					t.Fatalf("%s: after %d timeouts, these were never balanced again: %s", client.Name, round, a)
				}
				must(t, a.stays(2))
				time.Sleep(4 * time.Second)
				a.forget()
			}
		}
	})
	t.Run("keeps to the node", func(t *testing.T) { // an endpoint of the node, each time
		for client, server := range map[*corev1.Pod]*corev1.Pod{near: b1, far: b2} {
			must(t, bed.newAffinity(t, localBrief, true, client).only(server.Name))
		}
	})
	t.Run("after ovn-controller starts", func(t *testing.T) {
		signalProgram(t, "n1", syscall.SIGKILL, "ovn-controller", "")
		eventually(t, 30*time.Second, func() error { return bed.newAffinity(t, lasting, false, near).stays(3) })
		a := bed.newAffinity(t, brief, false, near)
		for range 3 {
			time.Sleep(4 * time.Second)
			a.forget()
			must(t, a.stays(2))
		}
	})
}

// affine sets session affinity with a timeout in seconds.
func affine(seconds int32) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

// affinity is what a client sees of a service with affinity.
type affinity struct {
	t      *testing.T
	client *corev1.Pod
	calls  []calls
	now    []string          // the server of each call's address; empty until it is called
	seen   []map[string]bool // all servers of each call's address
}

// newAffinity returns the affinity at a service's addresses, or only at its cluster IPs.
func (b *testbed) newAffinity(t *testing.T, s *corev1.Service, onlyCluster bool, client *corev1.Pod) *affinity {
	a := &affinity{t: t, client: client}
	for kind, to := range entries(t, s) {
		if onlyCluster && kind != clusterIP {
			continue
		}
		for _, address := range to.addresses {
			for _, protocol := range []string{"tcp", "udp"} {
				a.calls = append(a.calls, calls{protocol, netip.AddrPortFrom(address, to.port(protocol)).String(), 0, false})
				a.seen = append(a.seen, map[string]bool{})
			}
		}
	}
	a.forget()
	return a
}

// forget ends the expectation that the next call reaches the server of the last one.
func (a *affinity) forget() { a.now = make([]string, len(a.calls)) }

// stays calls each address a number of times: each time the same server must answer.
func (a *affinity) stays(count int) error {
	for i := range a.calls {
		a.calls[i].Count = count
	}
	became, err := bed.podCaller(a.client).callAll(a.t.Context(), a.calls)
	if err != nil {
		return err
	}
	for i, all := range became {
		if a.now[i] == "" {
			a.now[i] = all[0].Server
		}
		if _, err := answered(all, []string{a.now[i]}); err != nil {
			return fmt.Errorf("%s: %s %s: %w", a.client.Name, a.calls[i].Protocol, a.calls[i].To, err)
		}
		a.seen[i][a.now[i]] = true
	}
	return nil
}

// only reports whether one server answered at all addresses.
func (a *affinity) only(server string) error {
	if err := a.stays(5); err != nil {
		return err
	}
	for i, was := range a.now {
		if was != server {
			return fmt.Errorf("%s: %s answered at %s, want %s", a.client.Name, was, a.calls[i].To, server)
		}
	}
	return nil
}

// moved reports whether several servers have answered at each address.
func (a *affinity) moved() bool { return a.String() == "" }

// String returns the addresses with one server.
func (a *affinity) String() (text string) {
	for i, seen := range a.seen {
		if len(seen) < 2 {
			text += a.calls[i].Protocol + " " + a.calls[i].To + " "
		}
	}
	return text
}
