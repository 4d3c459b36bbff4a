package operator

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// annotated returns a pod with an annotation.
func annotated(name, node, annotation, value string) *corev1.Pod {
	p := pod(name, node)
	p.Annotations = map[string]string{annotation: value}
	return p
}

// macOf returns the MAC of a pod's port, with which the pod must be able to send.
func (w *world) macOf(p *corev1.Pod) string {
	w.Helper()
	port := w.port(p)
	mac, _, _ := strings.Cut(port.Addresses[0], " ")
	if len(port.PortSecurity) != 1 || !strings.HasPrefix(port.PortSecurity[0], mac+" ") {
		w.Errorf("port %s has MAC %s and port_security %q", port.Name, mac, port.PortSecurity)
	}
	return mac
}

func TestPodGetsRequestedMAC(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1", "n2")
	const wanted = "52:54:00:12:34:56"
	request := func(name, node string) *corev1.Pod {
		return annotated(name, node, networkv1alpha1.RequestedMACAnnotation, wanted)
	}

	first, second, elsewhere := request("first", "n1"), request("second", "n1"), request("elsewhere", "n2")
	w.run(first)
	if got := w.macOf(first); got != wanted {
		t.Fatalf("the pod has %s, want %s", got, wanted)
	}
	w.run(second, elsewhere)
	w.says(w.event("second", "FailedAddressAllocation"), wanted, "in use", "node n1")
	if got := w.macOf(elsewhere); got != wanted {
		t.Errorf("on another switch the pod has %s, want %s", got, wanted)
	}
	// A pod with a MAC keeps it, even if its request changes later, and over a restart of the operator.
	patch(w, first, func(p *corev1.Pod) { p.Annotations[networkv1alpha1.RequestedMACAnnotation] = "52:54:00:00:00:01" })
	w.operators[0].stop()
	w.start()
	w.port(w.create("n1", "third")[0]) // the new operator has restored all ports
	if got := w.macOf(first); got != wanted {
		t.Errorf("after a restart the pod has %s, want it to keep %s", got, wanted)
	}
	if _, err := w.findPort(second); !errors.Is(err, errAbsent) {
		t.Errorf("the second pod has a port: %v", err)
	}
	w.delete(first)
	if got := w.macOf(second); got != wanted {
		t.Errorf("the pod that waited has %s, want %s", got, wanted)
	}
}

func TestPodWithAnImpossibleMAC(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1")
	requests := map[string]struct{ mac, says string }{
		"group":     {"01:00:5e:00:00:01", "group"},
		"router":    {"0a:58:0a:f4:00:01", "0a:58"},
		"infini":    {"02:00:5e:10:00:00:00:01", networkv1alpha1.RequestedMACAnnotation},
		"not-a-mac": {"web", networkv1alpha1.RequestedMACAnnotation},
		"empty":     {"", networkv1alpha1.RequestedMACAnnotation},
	}
	pods := map[string]*corev1.Pod{}
	for name, request := range requests {
		pods[name] = annotated(name, "n1", networkv1alpha1.RequestedMACAnnotation, request.mac)
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
	patch(w, pods["router"], func(p *corev1.Pod) { p.Annotations[networkv1alpha1.RequestedMACAnnotation] = "52-54-00-00-00-01" })
	if got := w.macOf(pods["router"]); got != "52:54:00:00:00:01" {
		t.Errorf("the pod has %s", got)
	}
}
