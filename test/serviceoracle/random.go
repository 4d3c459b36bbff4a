package serviceoracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// sequence is one random sequence of changes. It has a namespace, addresses and ports of its own, so that many sequences share an API
// server without effect on each other.
type sequence struct {
	number   int
	rng      *rand.Rand
	services map[string]*corev1.Service            // as the API server accepted them
	slices   map[string]*discoveryv1.EndpointSlice // by name
	ever     map[destination]bool                  // all destinations that a service had, and their neighbours
	rejected int
}

func newSequence(seed uint64, number int) *sequence {
	return &sequence{number: number, rng: rand.New(rand.NewPCG(seed, uint64(number))), services: map[string]*corev1.Service{},
		slices: map[string]*discoveryv1.EndpointSlice{}, ever: map[destination]bool{}}
}

func (s *sequence) namespace() string { return fmt.Sprintf("s%d", s.number) }

// chance is true in percent of all cases.
func (s *sequence) chance(percent int) bool { return s.rng.IntN(100) < percent }

func pick[T any](s *sequence, from ...T) T { return from[s.rng.IntN(len(from))] }

func ptr[T any](v T) *T { return &v }

// service returns a random service, with the name of an existing or a new one.
func (s *sequence) service(name string) *corev1.Service {
	v := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name}}
	spec := &v.Spec
	spec.Type = pick(s, corev1.ServiceTypeClusterIP, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer)
	switch {
	case s.chance(4):
		spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		return v
	case s.chance(5):
		spec.Type, spec.ClusterIP = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone
	case s.chance(3):
		v.Labels = map[string]string{pick(s, names.ServiceProxyLabel, corev1.IsHeadlessService): ""}
	}
	spec.IPFamilyPolicy = ptr(corev1.IPFamilyPolicySingleStack)
	spec.IPFamilies = []corev1.IPFamily{pick(s, corev1.IPv4Protocol, corev1.IPv4Protocol, corev1.IPv6Protocol)}
	if s.chance(35) {
		spec.IPFamilyPolicy, spec.IPFamilies = ptr(corev1.IPFamilyPolicyRequireDualStack), nil
	}
	spec.PublishNotReadyAddresses = s.chance(10)
	s.ports(spec)
	if s.chance(20) {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{
			TimeoutSeconds: ptr(pick[int32](s, 5, 10800, 86400))}}
	}
	if s.chance(25) {
		spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.chance(20) {
		spec.TrafficDistribution = ptr(pick(s, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode))
	} else if s.chance(10) {
		v.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
	}
	if spec.ClusterIP != corev1.ClusterIPNone {
		s.external(v)
	}
	return v
}

func (s *sequence) ports(spec *corev1.ServiceSpec) {
	if s.chance(10) && spec.Type == corev1.ServiceTypeLoadBalancer {
		spec.AllocateLoadBalancerNodePorts = ptr(false)
	}
	n := 1 + s.rng.IntN(3)
	for i := range n {
		p := corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(s.port(s.rng.IntN(4))), TargetPort: intstr.FromInt32(8080),
			Protocol: pick(s, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)}
		if n == 1 && s.chance(50) {
			p.Name = ""
		}
		if spec.Type != corev1.ServiceTypeClusterIP && spec.AllocateLoadBalancerNodePorts == nil {
			p.NodePort = int32(30000 + s.number*100 + i*33 + s.rng.IntN(33))
		}
		spec.Ports = append(spec.Ports, p)
	}
}

// port returns one of the sequence's service ports.
func (s *sequence) port(i int) int { return 20000 + s.number*20 + i }

// external sets what concerns clients outside.
func (s *sequence) external(v *corev1.Service) {
	spec := &v.Spec
	if s.chance(30) {
		spec.ExternalIPs = s.addresses()
	}
	if s.chance(40) && (spec.Type != corev1.ServiceTypeClusterIP || len(spec.ExternalIPs) > 0) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if s.chance(35) {
		ranges := []string{"203.0.113.0/24", " 203.0.113.0/24 ", "203.0.113.7/32", "2001:db8:cafe::/48", "192.0.2.0/24", "10.244.0.0/16",
			"198.51.100.0/24", "0.0.0.0/0", "203.000.113.0/24"}
		s.rng.Shuffle(len(ranges), func(i, j int) { ranges[i], ranges[j] = ranges[j], ranges[i] })
		spec.LoadBalancerSourceRanges = ranges[:1+s.rng.IntN(2)]
	}
	for _, text := range s.addresses() {
		ingress := corev1.LoadBalancerIngress{IP: text}
		if s.chance(20) {
			ingress.IPMode = ptr(pick(s, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy))
		}
		v.Status.LoadBalancer.Ingress = append(v.Status.LoadBalancer.Ingress, ingress)
	}
	if s.chance(5) {
		v.Status.LoadBalancer.Ingress = append(v.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: pick(s, "127.0.0.1", "0.0.0.0")})
	}
}

// addresses returns external addresses: mostly the sequence's own, of which services often want the same.
func (s *sequence) addresses() (texts []string) {
	for range 1 + s.rng.IntN(2) {
		text := pick(s, fmt.Sprintf("198.18.%d.%d", s.number, 1+s.rng.IntN(4)), fmt.Sprintf("198.18.%d.%d", s.number, 1+s.rng.IntN(4)),
			fmt.Sprintf("2001:db8:18:%x::%x", s.number, 1+s.rng.IntN(3)))
		switch others := slices.Sorted(maps.Keys(s.services)); {
		case s.chance(5) && len(others) > 0:
			if ip := s.services[pick(s, others...)].Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
				text = ip
			}
		case s.chance(3):
			text = ownAddresses[s.rng.IntN(len(ownAddresses))].String()
		case s.chance(2):
			text = fmt.Sprintf("10.244.9.%d", s.number)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// slice returns a random slice of a service.
func (s *sequence) slice(name string, service *corev1.Service) *discoveryv1.EndpointSlice {
	v := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: name,
		Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}}}
	v.AddressType = pick(s, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	if f := service.Spec.IPFamilies; len(f) == 1 && s.chance(80) {
		v.AddressType = discoveryv1.AddressType(f[0])
	}
	if s.chance(3) {
		v.AddressType = discoveryv1.AddressTypeFQDN
	}
	if s.chance(2) {
		v.Labels[[]string{names.ServiceProxyLabel, corev1.IsHeadlessService}[s.number%2]] = "other"
	}
	for _, p := range service.Spec.Ports {
		port := discoveryv1.EndpointPort{Name: ptr(p.Name), Protocol: ptr(p.Protocol), Port: ptr(int32(8080 + s.rng.IntN(2)))}
		switch {
		case s.chance(8):
			continue
		case s.chance(4):
			port.Name = nil
		case s.chance(2):
			port.Port = nil
		case s.chance(3):
			port.Protocol = nil
		}
		v.Ports = append(v.Ports, port)
	}
	hinted := s.chance(30)
	for range s.rng.IntN(4) {
		e := s.endpoint(v.AddressType, hinted)
		for _, other := range s.entriesOf(e.Addresses[0], v) {
			if terminates(other) == terminates(e) { // kube-proxy would use either
				e = other
			}
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v
}

// entriesOf returns the entries with an address in a slice and in the other slices of its service.
func (s *sequence) entriesOf(address string, slice *discoveryv1.EndpointSlice) (found []discoveryv1.Endpoint) {
	const service = discoveryv1.LabelServiceName
	all := slices.Clone(slice.Endpoints)
	for _, name := range slices.Sorted(maps.Keys(s.slices)) {
		if other := s.slices[name]; name != slice.Name && other.Labels[service] == slice.Labels[service] {
			all = append(all, other.Endpoints...)
		}
	}
	return slices.DeleteFunc(all, func(e discoveryv1.Endpoint) bool { return e.Addresses[0] != address })
}

func terminates(e discoveryv1.Endpoint) bool {
	return e.Conditions.Terminating != nil && *e.Conditions.Terminating
}

func (s *sequence) endpoint(family discoveryv1.AddressType, hinted bool) (e discoveryv1.Endpoint) {
	node := pick(s, "n1", "n1", "n2", "n3")
	e.NodeName = &node
	index, last := node[1:], 10+s.rng.IntN(4)
	addresses := map[discoveryv1.AddressType]string{
		discoveryv1.AddressTypeIPv4: fmt.Sprintf("10.244.%s.%d", index, last),
		discoveryv1.AddressTypeIPv6: fmt.Sprintf("fd00:10:244:%s::%x", index, last),
		discoveryv1.AddressTypeFQDN: fmt.Sprintf("b%d.example.com", last),
	}
	if family != discoveryv1.AddressTypeFQDN {
		switch r := s.rng.IntN(100); {
		case r < 12: // on the host's network
			addresses = map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "192.0.2." + index + "1",
				discoveryv1.AddressTypeIPv6: "2001:db8::" + index + "1"}
		case r < 16: // made by hand
			addresses = map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "192.0.2." + index + "1",
				discoveryv1.AddressTypeIPv6: "2001:db8::" + index + "1"}
			e.NodeName = nil
		case r < 22:
			addresses = map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: fmt.Sprintf("198.19.0.%d", last),
				discoveryv1.AddressTypeIPv6: fmt.Sprintf("2001:db8:19::%x", last)}
			e.NodeName = nil
		}
	}
	e.Addresses = []string{addresses[family]}
	switch r := s.rng.IntN(100); {
	case r < 60:
		e.Conditions.Ready = ptr(true)
	case r < 68: // unset means ready
	case r < 80:
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}
	case r < 87:
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(false), Terminating: ptr(s.chance(50))}
	case r < 91:
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(false)}
	case r < 95:
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false)}
	default: // published although not ready
		e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(true), Serving: ptr(s.chance(50)), Terminating: ptr(true)}
	}
	if hinted && s.chance(90) {
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: pick(s, "za", "zb")}}}
		if s.chance(40) {
			e.Hints.ForNodes = []discoveryv1.ForNode{{Name: node}}
		}
	}
	return e
}
