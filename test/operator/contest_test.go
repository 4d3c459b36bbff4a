package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// balancedBy creates a LoadBalancerPool with one address, and a Service that requests it.
func (w *world) balancedBy(pool, service string, address networkv1alpha1.LoadBalancerRange) *corev1.Service {
	w.Helper()
	p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	p.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{address}
	w.must(api.Create(w.Context(), p))
	w.Cleanup(func() { _ = api.Delete(context.Background(), p) })
	return w.service(service, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(networkv1alpha1.DefaultLoadBalancerClass)
	})
}

// poolReady waits for the condition Ready of an IPPool and its ranges in force, and returns the condition's message.
func (w *world) poolReady(name, reason string, inForce ...string) (message string) {
	w.Helper()
	w.until(func() error {
		var p networkv1alpha1.IPPool
		if err := view.Get(w.Context(), client.ObjectKey{Name: name}, &p); err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.Reason != reason || c.ObservedGeneration != p.Generation || !slices.Equal(p.Status.Ranges, inForce) {
			return fmt.Errorf("IPPool %s has %v in force and condition %+v, want %v and %s", name, p.Status.Ranges, c, inForce, reason)
		}
		message = c.Message
		return nil
	})
	return message
}

// lacks waits until the condition AddressesReady of a Service has exactly these sentences, in any order. Without a sentence, the
// Service has all its addresses.
func (w *world) lacks(service string, want ...string) {
	w.Helper()
	slices.Sort(want)
	w.until(func() error {
		var s corev1.Service
		if err := view.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: service}, &s); err != nil {
			return err
		}
		var have []string
		if c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceAddressesReady); c != nil && c.Message != "" {
			have = strings.Split(c.Message, "; ")
		}
		if slices.Sort(have); !slices.Equal(have, want) {
			return fmt.Errorf("Service %s lacks %q, want %q", service, have, want)
		}
		return nil
	})
}

// balancesOn waits until a Service is balanced on exactly its cluster IP and these addresses.
func (w *world) balancesOn(s *corev1.Service, addresses ...string) {
	w.Helper()
	vips := map[string]string{}
	for _, a := range append(addresses, s.Spec.ClusterIP) {
		vips[a+":80"] = ""
	}
	w.balances(s.Name, map[string]map[string]string{"tcp": vips})
}

// An external IP that is added to an old Service takes no address from another object, whatever the ages, and closes no IPPool. The
// Service gets the address when the object lets go.
func TestAnExternalIPTakesNoAddress(t *testing.T) {
	const ofBalancer, ofPool, ofEgress = "192.0.2.220", "192.0.2.40", "192.0.2.100"
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	w.mayCarry(true, "n1")
	old := w.service("a-old")
	w.balancesOn(old)
	lb := w.balancedBy("edge", "lb", ofBalancer)
	w.balanced(lb, networkv1alpha1.ReasonAsExpected, ofBalancer)
	pool := w.pool("nat", networkv1alpha1.LocationNAT, "192.0.2.40-192.0.2.47")
	w.poolReady("nat", networkv1alpha1.ReasonAsExpected, "192.0.2.40-192.0.2.47")
	holder := w.inPool("holder", "n1", "nat", "", nil)
	w.holders(map[string]string{ofPool: "holder"})
	translation := ofPool + " " + w.addresses(w.port(holder))[0].String()
	out := w.egressIP("out", ofEgress)
	w.carried(out, ofEgress+" n1")

	holdersKeep := func(sentences ...string) {
		t.Helper()
		w.lacks("a-old", sentences...)
		o.settle()
		w.balancesOn(old)
		w.balancesOn(lb, ofBalancer)
		w.balanced(lb, networkv1alpha1.ReasonAsExpected, ofBalancer)
		w.poolReady("nat", networkv1alpha1.ReasonAsExpected, "192.0.2.40-192.0.2.47")
		if have := w.natOf(); !slices.Equal(have, []string{translation}) {
			t.Errorf("translations %v, want %s", have, translation)
		}
	}
	patch(w, old, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{ofBalancer, ofPool, ofEgress} })
	balancer := "TCP 192.0.2.220:80 belongs to service default/lb"
	nat, egress := "TCP 192.0.2.40:80 is reserved for IPPool nat", "TCP 192.0.2.100:80 is reserved for EgressIP out"
	holdersKeep(balancer, nat, egress)
	w.carried(out, ofEgress+" n1")

	w.mayCarry(false, "n1") // no node carries the address for a moment
	w.carried(out)
	holdersKeep(balancer, nat, egress)
	if held := out.Status.Held; !slices.Equal(held, []networkv1alpha1.IP{ofEgress}) {
		t.Errorf("the EgressIP holds %v", held)
	}
	w.mayCarry(true, "n2")
	w.carried(out, ofEgress+" n2")
	holdersKeep(balancer, nat, egress)
	o.stop()
	o = w.start()
	o.settle()
	holdersKeep(balancer, nat, egress)
	w.carried(out, ofEgress+" n2")

	w.must(api.Delete(w.Context(), lb))
	w.lacks("a-old", nat, egress)
	w.balancesOn(old, ofBalancer)
	patch(w, pool, func(p *networkv1alpha1.IPPool) { p.Spec.Ranges[0].Addresses = "192.0.2.41-192.0.2.47" })
	w.poolReady("nat", networkv1alpha1.ReasonRangeInUse, "192.0.2.40-192.0.2.47")
	w.delete(holder)
	w.poolReady("nat", networkv1alpha1.ReasonAsExpected, "192.0.2.41-192.0.2.47")
	w.lacks("a-old", egress)
	w.balancesOn(old, ofBalancer, ofPool)
	w.must(api.Delete(w.Context(), out))
	w.lacks("a-old")
	w.balancesOn(old, ofBalancer, ofPool, ofEgress)
}

// A working external IP stays under a new LoadBalancerPool, a new IPPool, a wider range of an older IPPool and a new EgressIP. Each says
// who has the address, and gets it when the Service lets go.
func TestAWorkingExternalIPStays(t *testing.T) {
	const ofBalancer, ofPool, ofWider, ofEgress = "192.0.2.220", "192.0.2.60", "192.0.2.44", "192.0.2.100"
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1")
	w.mayCarry(true, "n1")
	pool := w.pool("nat", networkv1alpha1.LocationNAT, "192.0.2.40-192.0.2.43")
	w.poolReady("nat", networkv1alpha1.ReasonAsExpected, "192.0.2.40-192.0.2.43")
	out := w.egressIP("out", "192.0.2.90")
	w.carried(out, "192.0.2.90 n1")
	external := []string{ofBalancer, ofPool, ofWider, ofEgress}
	web := w.service("web", func(s *corev1.Service) { s.Spec.ExternalIPs = external })
	w.balancesOn(web, external...)

	lb := w.balancedBy("edge", "lb", ofBalancer)
	w.balanced(lb, networkv1alpha1.ReasonPoolExhausted)
	w.pool("new", networkv1alpha1.LocationNAT, ofPool)
	w.says(w.poolReady("new", networkv1alpha1.ReasonRangeOverlaps), ofPool+" of Service default/web")
	patch(w, pool, func(p *networkv1alpha1.IPPool) { p.Spec.Ranges[0].Addresses = "192.0.2.40-192.0.2.47" })
	w.says(w.poolReady("nat", networkv1alpha1.ReasonRangeOverlaps, "192.0.2.40-192.0.2.43"), ofWider+" of Service default/web")
	w.edit(out, func() { out.Spec.EgressIPs = []networkv1alpha1.EgressAddress{ofEgress} })
	w.says(w.assigned(out, networkv1alpha1.ReasonAddressInUse), ofEgress+": service default/web is balanced on it")
	w.carried(out, "192.0.2.90 n1")
	o.settle()
	w.lacks("web")
	w.balancesOn(web, external...)

	patch(w, web, func(s *corev1.Service) { s.Spec.ExternalIPs = nil })
	w.balanced(lb, networkv1alpha1.ReasonAsExpected, ofBalancer)
	w.poolReady("new", networkv1alpha1.ReasonAsExpected, ofPool)
	w.poolReady("nat", networkv1alpha1.ReasonAsExpected, "192.0.2.40-192.0.2.47")
	w.carried(out, ofEgress+" n1")
	w.balancesOn(web)
}

// An external IP that is an address of a node takes no node port of another service, and no host port of a pod there. It has the node's
// other ports, and gets these when they are free.
func TestAnExternalIPTakesNoPortOfANode(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.joinShared("n1", "n2")
	const one, two = "172.18.0.10", "172.18.0.11"
	for name, address := range map[string]networkv1alpha1.IP{"n1": one, "n2": two} {
		w.setStatus(name, func(nn *networkv1alpha1.NodeNetwork) { nn.Status.HostAddresses = []networkv1alpha1.IP{address} })
	}
	const port = 30123
	taker := w.service("a-taker", func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{one, two}
		s.Spec.Ports = []corev1.ServicePort{{Name: "node", Port: port}, {Name: "host", Port: 8080}, {Name: "free", Port: 80}}
	})
	has := func(vips ...string) {
		t.Helper()
		want := map[string]string{}
		for _, p := range taker.Spec.Ports {
			want[fmt.Sprint(taker.Spec.ClusterIP, ":", p.Port)] = ""
		}
		for _, vip := range append(vips, one+":80", two+":80") {
			want[vip] = ""
		}
		w.balances("a-taker", map[string]map[string]string{"tcp": want})
	}
	has(one+":30123", two+":30123", one+":8080", two+":8080")
	w.lacks("a-taker")

	victim := w.service("victim", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, port
	})
	has(one+":8080", two+":8080")
	ofNodes := []string{"TCP 172.18.0.10:30123 is reserved for the node port of service default/victim",
		"TCP 172.18.0.11:30123 is reserved for the node port of service default/victim"}
	w.lacks("a-taker", ofNodes...)
	host := pod("d", "n2")
	host.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	w.run(host)
	ofHost := "TCP 172.18.0.11:8080 is reserved for the host port of pod default/d"
	has(one + ":8080")
	w.lacks("a-taker", append(ofNodes, ofHost)...)

	o.stop()
	o = w.start()
	o.settle()
	has(one + ":8080")
	w.delete(victim)
	has(one+":30123", two+":30123", one+":8080")
	w.lacks("a-taker", ofHost)
	w.phase(host, corev1.PodSucceeded)
	has(one+":30123", two+":30123", one+":8080", two+":8080")
	w.lacks("a-taker")
}
