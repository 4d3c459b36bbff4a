package egressip

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// leaving is a Service with addresses that is the source of its pods.
func leaving(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web",
		Annotations: map[string]string{networkv1alpha1.EgressSourceAnnotation: networkv1alpha1.EgressSourceLoadBalancer}}}
	s.Spec.Type, s.Spec.Selector = corev1.ServiceTypeLoadBalancer, map[string]string{"app": "web"}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.80"}, {IP: "2001:db8::80"}}
	for _, c := range change {
		c(s)
	}
	return s
}

// answers is a pool whose addresses nodes answer for: "192.0.2.80 n1".
func answers(texts ...string) *networkv1alpha1.LoadBalancerPool {
	p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	for _, text := range texts {
		address, node, _ := strings.Cut(text, " ")
		p.Status.Announcements = append(p.Status.Announcements,
			networkv1alpha1.LoadBalancerAnnouncement{Address: networkv1alpha1.IP(address), Node: node})
	}
	return p
}

func TestServicesThatAreTheSourceOfTheirPods(t *testing.T) {
	annotation := networkv1alpha1.EgressSourceAnnotation
	for name, c := range map[string]struct {
		service *corev1.Service
		pool    *networkv1alpha1.LoadBalancerPool
		// translated are the addresses with their routers: "192.0.2.80 GR_n1".
		translated []string
		sets       int
		condition  string
		event      bool
		other      *corev1.Service // has one of the addresses, too
		local      bool            // the nodes are in Local mode
	}{
		"by the hosts": {service: leaving(), pool: answers("192.0.2.80 n1", "2001:db8::80 n2"), sets: 2, local: true,
			translated: []string{"192.0.2.80 ER_n1", "2001:db8::80 ER_n2"}, condition: "True AsExpected "},
		"both families": {service: leaving(), pool: answers("192.0.2.80 n1", "2001:db8::80 n2"), sets: 2,
			translated: []string{"192.0.2.80 GR_n1", "2001:db8::80 GR_n2"}, condition: "True AsExpected "},
		"one address without a node": {service: leaving(), pool: answers("192.0.2.80 n1"), sets: 2, event: true,
			translated: []string{"192.0.2.80 GR_n1"}, condition: "False NotAnswered no node answers for 2001:db8::80"},
		"no address yet": {service: leaving(func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil }), pool: answers(),
			event: true, condition: "False NotAnswered the service has no address yet"},
		"an address shared with another namespace": {service: leaving(), pool: answers("192.0.2.80 n1", "2001:db8::80 n2"), sets: 1,
			other: sharing("bank"), translated: []string{"2001:db8::80 GR_n2"}, event: true,
			condition: "False AddressShared 192.0.2.80 is shared with service bank/web, which does not allow namespace demo by annotation " +
				networkv1alpha1.SharedIPNamespacesAnnotation},
		"a Service of another namespace allows it": {service: leaving(), pool: answers("192.0.2.80 n1", "2001:db8::80 n2"), sets: 2,
			other:      sharing("bank", annotated(networkv1alpha1.SharedIPNamespacesAnnotation, "shop,demo")),
			translated: []string{"192.0.2.80 GR_n1", "2001:db8::80 GR_n2"}, condition: "True AsExpected "},
		"an external IP of another namespace": {service: leaving(), pool: answers("192.0.2.80 n1", "2001:db8::80 n2"), sets: 2,
			other: sharing("bank", func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress, s.Spec.ExternalIPs = nil, []string{"192.0.2.80"}
			}), translated: []string{"192.0.2.80 GR_n1", "2001:db8::80 GR_n2"}, condition: "True AsExpected "},
		"another type": {service: leaving(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }), pool: answers(),
			event: true, condition: "False InvalidAnnotation annotation " + annotation + ": the service is not of type LoadBalancer"},
		"no selector": {service: leaving(func(s *corev1.Service) { s.Spec.Selector = nil }), pool: answers("192.0.2.80 n1"),
			event: true, condition: "False InvalidAnnotation annotation " + annotation + ": the service has no selector"},
		"another value": {service: leaving(func(s *corev1.Service) { s.Annotations[annotation] = "Network" }), pool: answers(),
			event: true, condition: "False InvalidAnnotation annotation " + annotation + `: "Network" is not "LoadBalancer"`},
		"never requested": {service: leaving(func(s *corev1.Service) { s.Annotations = nil }), pool: answers("192.0.2.80 n1"),
			condition: "none"},
		"not requested any more": {service: leaving(func(s *corev1.Service) {
			s.Annotations = nil
			s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceEgressSource, Status: metav1.ConditionTrue,
				Reason: networkv1alpha1.ReasonAsExpected}}
		}), pool: answers("192.0.2.80 n1"), condition: "False NotRequested "},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			var gateways []unit.Unit
			for _, id := range []int{1, 2} {
				node, nn := kindtest.Node(t, id, "46")
				if gateway := nn.Status.Gateway; c.local {
					gateway.Mode, gateway.Bridge, gateway.MACAddress, gateway.AnswersForAddresses = networkv1alpha1.GatewayLocal, "", "", true
				}
				objects = append(objects, node, nn)
				read, err := facts.ParseGateway(nn, node)
				if read.Leaving = true; err != nil {
					t.Fatal(err)
				}
				gateways = append(gateways, topology.GatewayUnit(read))
			}
			if c.other != nil {
				objects = append(objects, c.other)
			}
			b := newBed(t, nil, append(objects, c.service, c.pool)...)
			b.Seed(gateways...)
			key := topology.EgressIPKey(facts.EgressNameOf("demo", "web"))
			outcome := b.ReconcileKind(topology.KindEgressService, "demo", "web")
			var translated []string
			sets := 0
			for _, line := range outcome.Units[key] {
				if strings.HasPrefix(line, "AddressSet ") {
					sets++
				}
				for _, router := range []string{"GR_n1", "GR_n2", "ER_n1", "ER_n2"} {
					if strings.HasPrefix(line, "Logical_Router "+router+": nat += ") && !strings.Contains(line, "$inside") {
						translated = append(translated, externalOf(outcome.Units[key], line)+" "+router)
					}
				}
			}
			slices.Sort(translated)
			if !slices.Equal(translated, c.translated) || sets != c.sets {
				t.Errorf("translated %q and %d sets, want %q and %d, in\n%s", translated, sets, c.translated, c.sets,
					strings.Join(outcome.Units[key], "\n"))
			}
			condition := "none"
			if have := meta.FindStatusCondition(kindtest.Get(b, leaving()).Status.Conditions, networkv1alpha1.ServiceEgressSource); have != nil {
				condition = fmt.Sprintf("%s %s %s", have.Status, have.Reason, have.Message)
			}
			if condition != c.condition || len(outcome.Events) > 0 != c.event {
				t.Errorf("condition %q, want %q; events %q", condition, c.condition, outcome.Events)
			}
		})
	}
}

// sharing is the Service "web" of a namespace with the address 192.0.2.80.
func sharing(namespace string, change ...func(*corev1.Service)) *corev1.Service {
	s := leaving(change...)
	s.Namespace = namespace
	delete(s.Annotations, networkv1alpha1.EgressSourceAnnotation)
	if len(s.Status.LoadBalancer.Ingress) > 0 {
		s.Status.LoadBalancer.Ingress = s.Status.LoadBalancer.Ingress[:1]
	}
	return s
}

func annotated(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[name] = value }
}

// A Service that leaves with an address is reconciled when a Service of another namespace gets the address, loses it, or allows it.
func TestSharedAddressesWakeTheServicesThatLeave(t *testing.T) {
	b := newBed(t, nil, leaving())
	allows := sharing("bank", annotated(networkv1alpha1.SharedIPNamespacesAnnotation, "*"))
	without := sharing("bank")
	without.Status.LoadBalancer.Ingress = nil
	for name, step := range map[string]struct{ before, after *corev1.Service }{
		"created": {nil, sharing("bank")}, "deleted": {sharing("bank"), nil}, "gets it": {without, sharing("bank")},
		"loses it": {sharing("bank"), without}, "allows": {sharing("bank"), allows}, "allows no more": {allows, sharing("bank")},
	} {
		if have := woken(t, b, step.before, step.after); !slices.Contains(have, "demo/web") {
			t.Errorf("%s: %q", name, have)
		}
	}
	if have := woken(t, b, without, without); len(have) > 0 {
		t.Errorf("nothing changes: %q", have)
	}
}

// woken lists the Services that an event of another one enqueues.
func woken(t *testing.T, b *kindtest.Bed, before, after *corev1.Service) (names []string) {
	passes, r := sharedChanged(), &Services{Client: b.Env.Client}
	var of []client.Object
	switch {
	case before == nil && passes.Create(event.CreateEvent{Object: after}):
		of = append(of, after)
	case after == nil && passes.Delete(event.DeleteEvent{Object: before}):
		of = append(of, before)
	case before != nil && after != nil && passes.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}):
		of = append(of, before, after)
	}
	for _, o := range of {
		for _, request := range r.sharing(t.Context(), o) {
			names = append(names, request.String())
		}
	}
	return names
}

// externalOf returns the external address of the translation that a line adds to a router.
func externalOf(lines []string, added string) string {
	_, match, _ := strings.Cut(added, "nat += ")
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "NAT "+match+" external_ip="); ok {
			address, _, _ := strings.Cut(rest, " ")
			return address
		}
	}
	return ""
}
