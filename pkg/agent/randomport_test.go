package agent_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// exposed is a pod of the API server that requests random host ports.
type exposed struct {
	pod
	*node
}

// newExposed creates a pod with the ports TCP 80, UDP 80 and SCTP 80, and its port on the cluster network.
func (n *node) newExposed(name string, slot int, annotations map[string]string) *exposed {
	n.Helper()
	n.must(ignoreExists(api.Create(n.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})))
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "none",
			Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 80, Protocol: "UDP"},
				{ContainerPort: 80, Protocol: "SCTP"}}}}}}
	n.must(api.Create(n.Context(), object))
	n.Cleanup(func() { n.must(client.IgnoreNotFound(api.Delete(cleanup(), object, client.GracePeriodSeconds(0)))) })
	e := &exposed{pod: n.newPod(name, slot), node: n}
	e.uid = string(object.UID)
	e.operate()
	return e
}

// object reads the pod from the API server.
func (e *exposed) object() *corev1.Pod {
	e.Helper()
	var object corev1.Pod
	e.must(api.Get(e.Context(), types.NamespacedName{Namespace: "demo", Name: e.name}, &object))
	return &object
}

// operate writes the pod's port as the operator does for its present annotations.
func (e *exposed) operate() {
	e.Helper()
	object := e.object()
	want := topology.Pod{Namespace: "demo", Name: e.name, UID: e.uid, Node: nodeName, Chassis: e.status().Chassis,
		Addresses: e.addresses(), MAC: e.mac(), Slot: e.slot}
	var err error
	want.HostPorts, _ = facts.HostPorts(object)
	want.RandomHostPorts, err = facts.RandomHostPorts(object)
	e.must(err)
	e.apply(topology.PodUnit(want))
}

// given returns the host ports that the pod's annotation has: "TCP 20001 80; UDP 20000 80".
func (e *exposed) given() string {
	e.Helper()
	ports, err := networkv1alpha1.ParseHostPorts(e.object().Annotations[networkv1alpha1.HostPortsAnnotation])
	e.must(err)
	var texts []string
	for _, p := range ports {
		texts = append(texts, fmt.Sprintf("%s %d %d", p.Protocol, p.HostPort, p.ContainerPort))
	}
	return strings.Join(texts, "; ")
}

// addMapped sends an ADD, and maps the ports that the agent chooses.
func (e *exposed) addMapped(before string) {
	e.Helper()
	answers, _ := e.startAdd(e.pod)
	e.until("the host ports of "+e.name, func() error { return isTrue(e.given() != before, e.given()) })
	e.awaitWait(e.pod, answers, "the operator has not mapped")
	e.operate()
	if a := <-answers; a.err != nil {
		e.Fatalf("ADD of %s: %v", e.name, a.err)
	}
}

// setHostPortRange sets spec.hostPorts, as the operator does, and waits until the agent has read it.
func (n *node) setHostPortRange(ports networkv1alpha1.PortRange) {
	n.Helper()
	nn := n.edit(func(spec *networkv1alpha1.NodeNetworkSpec) { spec.HostPorts.Range = ports })
	n.until("the range", func() error { return isTrue(n.status().ObservedGeneration == nn.Generation, "not observed") })
}

// isBound returns nil if a process has a port of the node: "tcp4", 20001.
func isBound(network string, port int) error {
	at := fmt.Sprintf(":%d", port)
	var err error
	if strings.HasPrefix(network, "tcp") {
		var l net.Listener
		if l, err = net.Listen(network, at); err == nil {
			return errors.Join(fmt.Errorf("%s port %d is free", network, port), l.Close())
		}
	} else {
		var l net.PacketConn
		if l, err = net.ListenPacket(network, at); err == nil {
			return errors.Join(fmt.Errorf("%s port %d is free", network, port), l.Close())
		}
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil
	}
	return err
}

// wantBound waits until the agent has the ports of the first pod, or no longer has them.
func (n *node) wantBound(want bool) {
	n.Helper()
	for network, port := range map[string]int{"tcp4": 20001, "tcp6": 20001, "udp4": 20000, "udp6": 20000} {
		n.until(fmt.Sprintf("%s port %d bound: %t", network, port, want), func() error {
			err := isBound(network, port)
			return isTrue((err == nil) == want, fmt.Sprint(err))
		})
	}
}

// A pod gets ports that neither a process of the node nor another pod has, keeps them over restarts and sandboxes, and
// gives them back.
func TestRandomHostPortsLastAsLongAsThePod(t *testing.T) {
	n := readyNode(t)
	n.setGateway(sharedGateway)
	n.setHostPortRange("20000-20001")
	listener, err := net.Listen("tcp", "127.0.0.1:20000")
	n.must(err)
	defer listener.Close()
	datagrams, err := net.ListenPacket("udp6", "[::]:20001")
	n.must(err)
	defer datagrams.Close()

	asked := map[string]string{networkv1alpha1.RandomHostPortsAnnotation: `["80/TCP", "80/UDP"]`}
	web := n.newExposed("exposed", 5, asked)
	const ports = "TCP 20001 80; UDP 20000 80"
	web.addMapped("")
	if got := web.given(); got != ports {
		t.Fatalf("host ports %q, want %q", got, ports)
	}
	n.wantBound(true)
	n.awaitHostPort(web.pod, 20001, true)

	t.Run("no port is left", func(t *testing.T) {
		late := n.newExposed("late", 6, asked)
		answers, _ := n.startAdd(late.pod)
		if a := <-answers; a.err == nil || !strings.Contains(a.err.Error(), "container port TCP/80: no TCP port of 20000-20001 is free") {
			t.Errorf("ADD: %v", a.err)
		}
		if got := late.given(); got != "" {
			t.Errorf("host ports %q", got)
		}
		n.awaitPods(web.pod)
	})
	written := web.object().ResourceVersion
	t.Run("a restart", func(t *testing.T) {
		n.stopAgent()
		n.wantBound(false)
		n.startAgent()
		n.until("STATUS", n.ready)
		n.wantBound(true)
	})
	t.Run("another sandbox", func(t *testing.T) {
		again := web.pod
		again.container, again.netNS = "sandbox-again", n.newNetNS("sandbox-again")
		n.add(again)
		n.del(web.pod)
		n.awaitPods(again)
		n.wantBound(true)
		web.pod = again
	})
	if got := web.object().ResourceVersion; web.given() != ports || got != written {
		t.Errorf("host ports %q and version %s, want %q and %s", web.given(), got, ports, written)
	}
	t.Run("a port that became free", func(t *testing.T) {
		n.must(errors.Join(listener.Close(), datagrams.Close()))
		next := n.newExposed("next", 7, asked)
		next.addMapped("")
		if got, want := next.given(), "TCP 20000 80; UDP 20001 80"; got != want {
			t.Errorf("host ports %q, want %q", got, want)
		}
		n.del(next.pod)
	})
	n.del(web.pod)
	n.wantBound(false)
	t.Run("a pod that is gone", func(t *testing.T) {
		n.apply(unit.Unit{Key: topology.PodKey("demo", web.name)})
		n.apply(unit.Unit{Key: topology.PodKey("demo", "next")})
		last := n.newExposed("last", 8, map[string]string{networkv1alpha1.GalaxyPortMappingAnnotation: ""})
		last.addMapped("")
		if got := strings.Fields(last.given()); len(got) != 9 {
			t.Errorf("host ports %q", got)
		}
		galaxy := last.object().Annotations[networkv1alpha1.GalaxyPortMappingAnnotation]
		if want := `,"containerPort":80,"protocol":"TCP","podName":"last","podIP":"10.244.1.8"}`; !strings.Contains(galaxy, want) {
			t.Errorf("Galaxy's annotation is %s, want an element %s", galaxy, want)
		}
	})
}

// A port that the operator does not map is not chosen again, nor a port of another pod's binding.
func TestRandomHostPortsThatAreRefused(t *testing.T) {
	n := readyNode(t)
	n.setGateway(sharedGateway)
	n.setHostPortRange("20000-20002")
	n.giveHostPort(n.newPod("named", 5), 20000) // it has no interface yet
	web := n.newExposed("refused", 6, map[string]string{networkv1alpha1.RandomHostPortsAnnotation: `["80/TCP"]`})
	answers, cancel := n.startAdd(web.pod)
	n.until("the first choice", func() error { return isTrue(web.given() != "", "none") })
	n.awaitWait(web.pod, answers, "the operator has not mapped")
	first := web.given()
	cancel()
	<-answers
	n.awaitPods()
	web.addMapped(first)
	second := web.given()
	if first == second || strings.Contains(first+second, "20000") {
		t.Errorf("the choices are %q and %q", first, second)
	}
	n.awaitPods(web.pod)
}

// bound lists the TCP ports of 20000-20002 that a process of the node has in both families.
func bound() (found []string) {
	for port := 20000; port <= 20002; port++ {
		if isBound("tcp4", port) == nil && isBound("tcp6", port) == nil {
			found = append(found, fmt.Sprintf("TCP %d 80", port))
		}
	}
	return found
}

// wantHeld waits until exactly the ports of these pods are bound, and each pod has its own.
func (n *node) wantHeld(pods ...*exposed) {
	n.Helper()
	var want []string
	for _, e := range pods {
		want = append(want, e.given())
	}
	slices.Sort(want)
	n.until("held ports", func() error {
		return isTrue(slices.Equal(bound(), want), fmt.Sprintf("%q are bound, want %q", bound(), want))
	})
}

// Wherever an ADD with random host ports is killed, no port stays bound and no two pods have one, once the runtime has
// sent its next request.
func TestTheAgentDiesWithRandomHostPorts(t *testing.T) {
	d := &death{}
	d.at("")
	n := readyNodeWith(t, func(o *agent.Options) { o.AddFailpoint(d.failpoint) })
	n.setHostPortRange("20000-20002")
	asked := map[string]string{networkv1alpha1.RandomHostPortsAnnotation: `["80/TCP"]`}
	other, web := n.newExposed("other", 5, asked), n.newExposed("web", 6, asked)
	other.addMapped("")
	next := web.pod
	next.container = "sandbox-web-2"
	next.netNS = n.newNetNS(next.container)
	for _, point := range []string{"ADD address", "ADD link", "ADD port", "ADD flows", "ADD host-ports"} {
		n.dies(d, point, web.request(n, cniwire.Add))
		n.del(web.pod)
		n.wantHeld(other)
		web.operate() // of what the killed ADD has written

		if web.given() == "" {
			web.addMapped("")
		} else {
			n.add(web.pod)
		}
		n.wantHeld(other, web)
		n.del(web.pod)
		n.wantHeld(other)

		n.dies(d, point, web.request(n, cniwire.Add))
		n.add(next)
		n.wantHeld(other, web)
		n.del(next)
		n.wantHeld(other)
	}
}
