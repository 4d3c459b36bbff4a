package operator

import (
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// requesting returns a pod that requests addresses.
func requesting(name, node, addresses string) *corev1.Pod {
	p := pod(name, node)
	p.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: addresses}
	return p
}

func TestPodGetsRequestedAddress(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24), entry("fd00:10:244::/48", 64))
	w.join("n1")
	subnet := netip.MustParsePrefix(string(w.nodeNetwork("n1").Spec.PodSubnets[0]))
	wanted := hostOf(subnet, 77)

	first := requesting("first", "n1", wanted.String())
	w.run(first)
	got := w.addresses(w.port(first))
	if len(got) != 2 || got[0] != wanted || !got[1].Is6() {
		t.Fatalf("the pod has %v, want %s and an IPv6 address", got, wanted)
	}
	second := requesting("second", "n1", wanted.String())
	w.run(second)
	w.says(w.event("second", "FailedAddressAllocation"), wanted.String(), "in use")

	// A pod with an address keeps it, even if its request changes later, and over a restart of the operator.
	patch(w, first, func(p *corev1.Pod) {
		p.Annotations[networkv1alpha1.RequestedIPsAnnotation] = hostOf(subnet, 99).String()
	})
	w.operators[0].stop()
	w.start()
	w.port(w.create("n1", "third")[0]) // the new operator has restored all ports
	if now := w.addresses(w.port(first)); now[0] != wanted {
		t.Errorf("the pod now has %v, want it to keep %s", now, wanted)
	}
	w.delete(first)
	if got := w.addresses(w.port(second)); got[0] != wanted {
		t.Errorf("the pod that waited has %v, want %s", got, wanted)
	}
}

func TestPodWithAnImpossibleRequest(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24), entry("fd00:10:244::/48", 64))
	w.join("n1", "n2")
	n1 := netip.MustParsePrefix(string(w.nodeNetwork("n1").Spec.PodSubnets[0]))
	n2 := netip.MustParsePrefix(string(w.nodeNetwork("n2").Spec.PodSubnets[0]))
	requests := map[string]struct{ addresses, says string }{
		"gateway":    {hostOf(n1, 1).String(), hostOf(n1, 1).String()},
		"management": {hostOf(n1, 2).String(), n1.String()},
		"broadcast":  {hostOf(n1, 255).String(), "not available"},
		"elsewhere":  {hostOf(n2, 77).String(), "node n1"},
		"outside":    {"192.0.2.7", "192.0.2.7"},
		"one-family": {hostOf(n1, 70).String() + "," + hostOf(n1, 71).String(), "one family"},
		"not-one":    {"web", `"web"`},
		"empty":      {"", "requested-ips"},
	}
	pods := map[string]*corev1.Pod{}
	for name, request := range requests {
		pods[name] = requesting(name, "n1", request.addresses)
		w.run(pods[name])
	}
	for name, request := range requests {
		w.says(w.event(name, "FailedAddressAllocation"), request.says)
	}
	o.settle()
	for name, p := range pods {
		if _, err := w.findPort(p); !errors.Is(err, errAbsent) {
			t.Errorf("pod %s: %v, want no port", name, err)
		}
	}
	// The pod gets a port when its request changes or is removed.
	patch(w, pods["gateway"], func(p *corev1.Pod) {
		p.Annotations[networkv1alpha1.RequestedIPsAnnotation] = hostOf(n1, 77).String()
	})
	patch(w, pods["not-one"], func(p *corev1.Pod) { p.Annotations = nil })
	if got := w.addresses(w.port(pods["gateway"])); got[0] != hostOf(n1, 77) {
		t.Errorf("the pod has %v, want %s", got, hostOf(n1, 77))
	}
	w.port(pods["not-one"])
}

// hostOf returns address n of an IPv4 subnet with at most 256 addresses.
func hostOf(subnet netip.Prefix, n byte) netip.Addr {
	address := subnet.Addr().As4()
	address[3] += n
	return netip.AddrFrom4(address)
}
