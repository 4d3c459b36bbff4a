package desired_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

// Which endpoints the host chooses among, at the cluster IP, an external IP and the node port: "own connections / from outside".
// "-" means that OVN chooses.
func TestWhichEndpointsAHostChooses(t *testing.T) {
	const local = networkv1alpha1.GatewayLocal
	node, affinity := corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceAffinityClientIP
	both := func(s *corev1.Service, texts ...string) []discoveryv1.EndpointSlice { // in two slices
		return []discoveryv1.EndpointSlice{endpoints(s, texts[:1]...), endpoints(s, texts[1:]...)}
	}
	hinted := func(slice discoveryv1.EndpointSlice, zones ...string) discoveryv1.EndpointSlice {
		for i := range slice.Endpoints {
			slice.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zones[i]}}}
		}
		return slice
	}
	for name, c := range map[string]struct {
		mode             networkv1alpha1.GatewayMode
		change           func(*corev1.Service)
		slices           func(*corev1.Service) []discoveryv1.EndpointSlice
		inside, external string
		nodePort         string // as external if empty
	}{
		"pods": {slices: func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "10.244.1.5@n1", "10.244.2.5@n2") },
			external: "- / -"},
		"the host and a pod elsewhere, in two slices": {
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "172.18.0.11@n1", "10.244.2.5@n2") },
			inside:   "10.244.2.5 172.18.0.11",
			external: "10.244.2.5 172.18.0.11 / 10.244.2.5 172.18.0.11"},
		"an own endpoint that ends, beside a ready one in another slice": {
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return both(s, "172.18.0.11@n1!", "10.244.2.5@n2")
			},
			external: "- / -"},
		"the same, with affinity": {
			change: func(s *corev1.Service) { s.Spec.SessionAffinity = affinity },
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return both(s, "172.18.0.11@n1!", "10.244.2.5@n2")
			},
			external: "- / -"},
		"all end": {
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return both(s, "172.18.0.11@n1!", "10.244.2.5@n2!")
			},
			inside:   "10.244.2.5 172.18.0.11",
			external: "10.244.2.5 172.18.0.11 / 10.244.2.5 172.18.0.11"},
		"affinity": {
			change:   func(s *corev1.Service) { s.Spec.SessionAffinity = affinity },
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "172.18.0.11@n1", "10.244.2.5@n2") },
			inside:   "172.18.0.11",
			external: "172.18.0.11 / 172.18.0.11"},
		"hints without an annotation": {
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return []discoveryv1.EndpointSlice{hinted(endpoints(s, "172.18.0.11@n1", "10.244.2.5@n2", "10.244.3.5@n3"), "a", "a", "b")}
			},
			inside:   "10.244.2.5 172.18.0.11",
			external: "10.244.2.5 172.18.0.11 / 10.244.2.5 172.18.0.11"},
		"hints for another zone": {
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return []discoveryv1.EndpointSlice{hinted(endpoints(s, "172.18.0.11@n1", "10.244.2.5@n2"), "b", "a")}
			}, external: "- / -"},
		"internal policy Local and pods": { // the cluster IP has other endpoints than the external addresses
			change:   func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &node },
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "10.244.1.5@n1", "10.244.2.5@n2") },
			external: "10.244.1.5 10.244.2.5 / 10.244.1.5 10.244.2.5"},
		"internal policy Local and pods, in Local mode": {mode: local,
			change:   func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &node },
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "10.244.1.5@n1", "10.244.2.5@n2") },
			external: "10.244.1.5 10.244.2.5 / 10.244.1.5 10.244.2.5"},
		"internal policy Local and the host": {
			change: func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &node },
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return both(s, "172.18.0.11@n1", "172.18.0.12@n2")
			},
			inside:   "172.18.0.11",
			external: "172.18.0.11 172.18.0.12 / 172.18.0.11 172.18.0.12"},
		"external policy Local and the host beside a pod of the node": { // the pod would not see the client's address
			change: func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return both(s, "172.18.0.11@n1", "10.244.1.5@n1", "10.244.2.5@n2")
			},
			inside:   "10.244.1.5 10.244.2.5 172.18.0.11",
			external: "10.244.1.5 10.244.2.5 172.18.0.11 / 172.18.0.11"},
		"external policy Local and the host beside a pod of the node, in Local mode": {mode: local,
			change: func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			slices: func(s *corev1.Service) []discoveryv1.EndpointSlice {
				return both(s, "172.18.0.11@n1", "10.244.1.5@n1", "10.244.2.5@n2")
			},
			inside:   "10.244.1.5 10.244.2.5 172.18.0.11",
			external: "10.244.1.5 10.244.2.5 172.18.0.11 / 10.244.1.5 172.18.0.11"},
		"external policy Local without node ports, in Local mode": {mode: local,
			change: func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy, s.Spec.Ports[0].NodePort = corev1.ServiceExternalTrafficPolicyLocal, 0
			},
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "10.244.1.5@n1", "10.244.2.5@n2") },
			external: "- / 10.244.1.5", nodePort: "none"},
		"API servers on no node, in Local mode": {mode: local,
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "172.18.0.2", "172.18.0.3") },
			inside:   "172.18.0.2 172.18.0.3",
			external: "172.18.0.2 172.18.0.3 / 172.18.0.2 172.18.0.3"},
		"API servers on no node": {
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "172.18.0.2", "172.18.0.3") },
			external: "- / -"},
		"an endpoint without a node is on none": {
			change:   func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &node },
			slices:   func(s *corev1.Service) []discoveryv1.EndpointSlice { return both(s, "172.18.0.11", "172.18.0.12") },
			external: "172.18.0.11 172.18.0.12 / 172.18.0.11 172.18.0.12"},
	} {
		t.Run(name, func(t *testing.T) {
			service := loadBalancer()
			service.Spec.Type, service.Spec.ClusterIPs = corev1.ServiceTypeNodePort, []string{"10.96.0.7"}
			service.Spec.ExternalIPs = []string{"192.0.2.9"}
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
			if c.change != nil {
				c.change(service)
			}
			mode := networkv1alpha1.GatewayShared
			if c.mode != "" {
				mode = c.mode
			}
			have := map[string]string{}
			for _, f := range frontends(service, on(mode, "172.18.0.11"), c.slices(service)...) {
				switch {
				case f.IsClusterIP:
					have["inside"] = text(f, true)
				case f.Address.IsValid():
					have["external"] = text(f, true) + " / " + text(f, false)
				default:
					have["node port"] = text(f, true) + " / " + text(f, false)
				}
			}
			want := map[string]string{"external": c.external, "node port": c.external}
			if c.inside != "" {
				want["inside"] = c.inside
			}
			if c.nodePort == "none" {
				delete(want, "node port")
			}
			if fmt.Sprint(have) != fmt.Sprint(want) {
				t.Errorf("the host chooses among %v, want %v", have, want)
			}
		})
	}
}

// text lists the addresses of a frontend's endpoints.
func text(f desired.Frontend, inside bool) string {
	of := f.Outside
	if inside {
		of = f.Inside
	}
	var texts []string
	for _, e := range of {
		if e.Port() != 8080 {
			return "wrong port " + e.String()
		}
		texts = append(texts, e.Addr().String())
	}
	if len(texts) == 0 {
		return "-"
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// Blanks and leading zeros count as the API server accepts them, and what cannot be read admits nobody.
func TestSourceRanges(t *testing.T) {
	for want, ranges := range map[string][]string{
		"203.0.113.0/24": {" 203.0.113.0/24"}, "198.51.100.8/29 203.0.113.0/24": {"203.0.113.9/24 ", "198.51.100.08/29"},
		"10.0.0.0/8": {"10.0.0.0/8", "nobody", "10.1.0.0/16"}, "nobody": {"nobody"}, "all": nil,
	} {
		service := loadBalancer()
		service.Spec.LoadBalancerSourceRanges = ranges
		for _, f := range usable(service) {
			var texts []string
			for _, s := range f.Sources {
				texts = append(texts, s.String())
			}
			have := strings.Join(texts, " ")
			if limited := f.Address.String() == "198.51.100.7"; f.Sources == nil {
				have = "all"
			} else if len(texts) == 0 {
				have = "nobody"
			} else if !limited {
				t.Errorf("clients of %+v are limited", f)
			}
			if f.Address.String() == "198.51.100.7" && have != want {
				t.Errorf("%q admits %s, want %s", ranges, have, want)
			}
		}
	}
}
