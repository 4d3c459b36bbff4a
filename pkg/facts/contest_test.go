package facts_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// claimant returns a service with an age in seconds, a cluster IP, external IPs and TCP ports.
func claimant(name string, age int, clusterIP string, ports []int32, externalIPs ...string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name,
		CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0))},
		Spec: corev1.ServiceSpec{ClusterIPs: []string{clusterIP}, ExternalIPs: externalIPs}}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p, Protocol: corev1.ProtocolTCP})
	}
	return s
}

// given gives a service an address of a load balancer.
func given(s corev1.Service, address string) corev1.Service {
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	return s
}

// byWeft gives a service an address of a LoadBalancerPool.
func byWeft(s corev1.Service, address string) corev1.Service {
	s = given(s, address)
	s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady}}
	return s
}

func inNamespace(s corev1.Service, namespace string) corev1.Service {
	s.Namespace = namespace
	return s
}

func TestAnAddressIsOneServices(t *testing.T) {
	const shared = "192.0.2.10"
	for name, c := range map[string]struct {
		service, other corev1.Service
		yields         bool
	}{
		"the younger yields": {claimant("a", 1, "10.96.0.1", []int32{80}, shared),
			claimant("b", 2, "10.96.0.2", []int32{80}, shared), true},
		"the older does not": {claimant("a", 2, "10.96.0.1", []int32{80}, shared),
			claimant("b", 1, "10.96.0.2", []int32{80}, shared), false},
		"of one age, the name decides": {claimant("b", 1, "10.96.0.1", []int32{80}, shared),
			claimant("a", 1, "10.96.0.2", []int32{80}, shared), true},
		"a service does not yield to itself": {claimant("a", 1, "10.96.0.1", []int32{80}, shared),
			claimant("a", 1, "10.96.0.1", []int32{80}, shared), false},
		"another port is no conflict": {claimant("a", 1, "10.96.0.1", []int32{80}, shared),
			claimant("b", 2, "10.96.0.2", []int32{81}, shared), false},
		"another address is no conflict": {claimant("a", 1, "10.96.0.1", []int32{80}, shared),
			claimant("b", 2, "10.96.0.2", []int32{80}, "192.0.2.11"), false},
		"a cluster IP cannot be taken": {claimant("a", 2, "10.96.0.1", []int32{80}, shared),
			claimant("b", 1, shared, []int32{80}), true},
		"an external IP of an older service takes no address of a load balancer": {claimant("a", 2, "10.96.0.1", []int32{80}, shared),
			given(claimant("b", 1, "10.96.0.2", []int32{80}), shared), true},
		"a service keeps the address of its load balancer": {given(claimant("a", 1, "10.96.0.1", []int32{80}, shared), shared),
			claimant("b", 2, "10.96.0.2", []int32{80}, shared), false},
		"of two with it of a load balancer, the younger yields": {given(claimant("a", 1, "10.96.0.1", []int32{80}), shared),
			given(claimant("b", 2, "10.96.0.2", []int32{80}), shared), true},
		"an external IP of another namespace takes no port of an address that Weft gave": {
			inNamespace(claimant("a", 2, "10.96.0.1", []int32{81}, shared), "other"),
			byWeft(claimant("b", 1, "10.96.0.2", []int32{80}), shared), true},
		"an external IP of the same namespace takes a free port of it": {claimant("a", 2, "10.96.0.1", []int32{81}, shared),
			byWeft(claimant("b", 1, "10.96.0.2", []int32{80}), shared), false},
		"an external IP of another namespace takes a free port that another controller gave": {
			inNamespace(claimant("a", 2, "10.96.0.1", []int32{81}, shared), "other"),
			given(claimant("b", 1, "10.96.0.2", []int32{80}), shared), false},
		"load balancers of two namespaces share an address": {
			inNamespace(byWeft(claimant("a", 1, "10.96.0.1", []int32{81}), shared), "other"),
			byWeft(claimant("b", 2, "10.96.0.2", []int32{80}), shared), false},
		"a cluster IP of another namespace stays beside it": {inNamespace(claimant("a", 1, shared, []int32{81}), "other"),
			byWeft(claimant("b", 2, "10.96.0.2", []int32{80}), shared), false},
		"a load balancer takes no cluster IP": {given(claimant("a", 2, "10.96.0.1", []int32{80}), shared),
			claimant("b", 1, shared, []int32{80}), true},
		"a cluster IP cannot be taken at a port that its service lacks": {claimant("a", 1, "10.96.0.1", []int32{5353}, shared),
			claimant("b", 2, shared, []int32{80}), true},
		"a service keeps its cluster IP at a port that the other lacks": {claimant("a", 1, shared, []int32{5353}),
			claimant("b", 2, "10.96.0.2", []int32{80}, shared), false},
		"a service keeps its cluster IP": {claimant("a", 1, shared, []int32{80}),
			claimant("b", 2, "10.96.0.2", []int32{80}, shared), false},
	} {
		parsed, _ := facts.ParseService(&c.service, nil, nil)
		problems := parsed.Yield(&c.service, []corev1.Service{c.other})
		if (len(problems) > 0) != c.yields {
			t.Errorf("%s: %v", name, problems)
		}
		for _, vip := range parsed.Ports[0].VIPs {
			if vip.Addr() == netip.MustParseAddr(shared) && c.yields {
				t.Errorf("%s: %s is balanced", name, vip)
			}
		}
		if c.yields && (!strings.HasPrefix(problems[0], "TCP "+shared+":") ||
			!strings.Contains(problems[0], " belongs to service demo/"+c.other.Name)) {
			t.Errorf("%s: %v does not name the address and its owner", name, problems)
		}
	}
}
