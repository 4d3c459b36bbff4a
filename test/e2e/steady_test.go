//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	steadyChanges = 200
	steadySeed    = 1
	// steadyPatience is how long a UDP sender may go without an answer of a present endpoint. Then it counts as lost, and gets
	// another port.
	steadyPatience = 10 * time.Second
	// steadyLost is the highest share of UDP senders that a change may lose on average. A few conntrack entries are wrong from the
	// start, with a backend that the service never had, and nothing but the end of the sender ends them.
	steadyLost = 0.01
)

// TestSteadySenders changes the endpoints and the policy of a Service at random, while pods, hosts and a client outside keep
// sending from the ports that they have. After each change every sender reaches one of the endpoints that it must reach now. A few
// UDP senders may be lost.
func TestSteadySenders(t *testing.T) {
	pods := []*corev1.Pod{bed.peerPod("steady-1", "n1"), bed.peerPod("steady-2", "n2"), bed.peerPod("steady-3", "n1")}
	near, far := bed.peerPod("steady-near", "n1"), bed.peerPod("steady-far", "n2")
	bed.run(t, append(slices.Clone(pods), near, far)...)
	bed.serveOn(t, "n1", "n2")
	w := &steadyWorld{T: t, random: rand.New(rand.NewPCG(steadySeed, 0)), service: service("steady", "", published(17))}
	w.service.Spec.Selector = nil
	for _, p := range pods {
		w.backends = append(w.backends, steadyBackend{p.Name, p.Spec.NodeName, addressesOf(p)})
	}
	for _, node := range []string{"n1", "n2"} {
		w.backends = append(w.backends, steadyBackend{node, node, bed.ofNode(node).Addresses})
	}
	bed.create(t, w.service)
	w.publish(w.backends)
	w.begin(bed.podCaller(near), "n1")
	w.begin(bed.podCaller(far), "n2")
	w.begin(bed.hostCaller("n1"), "n1")
	w.begin(bed.hostCaller("n2"), "n2")
	w.begin(bed.hostCaller("out"), "")
	w.settle("the first endpoints")

	var took []time.Duration
	for i := range steadyChanges {
		took = append(took, w.settle(fmt.Sprintf("change %d: %s", i, w.change())))
	}
	slices.Sort(took)
	over := len(took) - len(slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d > time.Second }))
	t.Logf("after %d changes, every sender had an answer of a present endpoint within %s (median), %s (99 %%), %s (longest); "+
		"%d took over 1 s; of %d UDP senders after a change, %d were lost", len(took), milliseconds(took[len(took)/2]),
		milliseconds(took[len(took)*99/100]), milliseconds(took[len(took)-1]), over, w.judged, w.lost)
	if float64(w.lost) > steadyLost*float64(w.judged) {
		t.Errorf("%d of %d UDP senders were lost", w.lost, w.judged)
	}
}

// steadyBackend is a server that may be an endpoint.
type steadyBackend struct {
	name, node string
	addresses  []netip.Addr
}

type steadyWorld struct {
	*testing.T
	random   *rand.Rand
	service  *corev1.Service
	slices   []*discoveryv1.EndpointSlice
	backends []steadyBackend // that may be endpoints
	present  []steadyBackend // the endpoints
	local    bool            // the external policy
	senders  []steadySender

	judged, lost int // UDP senders, summed over changes
}

// steadySender is a running program that sends to all addresses of the Service.
type steadySender struct {
	name, node string            // node is empty outside
	to         map[string]string // target -> node of a node port; empty for another address
	*dialogue
}

// begin starts a sender at a place of a node; an empty node is outside.
func (w *steadyWorld) begin(at caller, node string) {
	w.Helper()
	s := steadySender{name: at.name, node: node, to: map[string]string{}}
	argv := []string{"steady"}
	add := func(to entry) {
		for _, a := range to.addresses {
			for _, protocol := range []string{"udp", "tcp"} {
				target := protocol + "/" + netip.AddrPortFrom(a, to.port(protocol)).String()
				s.to[target] = to.node
				argv = append(argv, "--to="+target)
			}
		}
	}
	for _, to := range entries(w.T, w.service) {
		if to.node != "" || to.cluster && node != "" {
			add(to)
		}
	}
	s.dialogue = startDialogue(w.T, at, argv...)
	w.senders = append(w.senders, s)
}

// expected returns the servers that may answer a sender at a target; none: packets are dropped. A UDP sender stays with its
// endpoint when only the policy changes, as with kube-proxy.
func (w *steadyWorld) expected(s steadySender, target string) (names []string) {
	served := false
	for _, b := range w.present {
		at := s.to[target]
		chosen := !w.local || at == "" || at == s.node || at == b.node
		if chosen || strings.HasPrefix(target, "udp/") {
			names = append(names, b.name)
		}
		served = served || chosen
	}
	if !served {
		return nil
	}
	return names
}

// settle waits until every sender has an answer that it must have now, to a question after the change, and returns how long
// that took.
func (w *steadyWorld) settle(what string) time.Duration {
	w.Helper()
	renewed := map[string]bool{}
	for _, s := range w.senders {
		w.judged += len(s.to) / 2
	}
	changed := time.Now()
	took := eventually(w.T, 3*steadyPatience, func() error {
		var missing []error
		for _, s := range w.senders {
			var have map[string]struct {
				Server string
				Age    int64
			}
			must(w.T, json.Unmarshal([]byte(s.next(w.T)), &have))
			since := time.Since(changed)
			for target := range s.to {
				want := w.expected(s, target)
				got := have[target]
				if len(want) == 0 || slices.Contains(want, got.Server) && got.Age < since.Milliseconds() {
					continue
				}
				missing = append(missing, fmt.Errorf("%s at %s: %s answered %d ms ago, want one of %v",
					s.name, target, got.Server, got.Age, want))
				if strings.HasPrefix(target, "udp/") && since > steadyPatience && !renewed[s.name+target] {
					w.Logf("%s: lost: %v", what, missing[len(missing)-1])
					w.lost++
					renewed[s.name+target] = true
					s.ask(w.T, target)
				}
			}
		}
		return errors.Join(missing...)
	})
	if took > time.Second {
		w.Logf("%s took %s", what, milliseconds(took))
	}
	return took
}

// change makes a random change and describes it.
func (w *steadyWorld) change() string {
	w.Helper()
	if w.random.IntN(4) == 0 {
		w.local = !w.local
		before := client.MergeFrom(w.service.DeepCopy())
		w.service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		if w.local {
			w.service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		must(w.T, bed.api.Patch(w.Context(), w.service, before))
		return "policy " + string(w.service.Spec.ExternalTrafficPolicy)
	}
	var next []steadyBackend
	for len(next) == 0 {
		for _, b := range w.backends {
			if w.random.IntN(5) < 2 {
				next = append(next, b)
			}
		}
	}
	w.publish(next)
	names := make([]string, 0, len(next))
	for _, b := range next {
		names = append(names, b.name)
	}
	return "endpoints " + strings.Join(names, ", ")
}

// publish makes the backends the endpoints.
func (w *steadyWorld) publish(backends []steadyBackend) {
	w.Helper()
	w.present = backends
	for i, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		var endpoints []discoveryv1.Endpoint
		for _, b := range backends {
			for _, a := range b.addresses {
				if a.Is6() == (family == discoveryv1.AddressTypeIPv6) {
					endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, NodeName: new(b.node)})
				}
			}
		}
		if i < len(w.slices) {
			before := client.MergeFrom(w.slices[i].DeepCopy())
			w.slices[i].Endpoints = endpoints
			must(w.T, bed.api.Patch(w.Context(), w.slices[i], before))
			continue
		}
		slice := &discoveryv1.EndpointSlice{AddressType: family, Endpoints: endpoints, ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: fmt.Sprint("steady-", i), Labels: map[string]string{discoveryv1.LabelServiceName: w.service.Name}}}
		for _, p := range w.service.Spec.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Protocol: new(p.Protocol),
				Port: new(p.TargetPort.IntVal)})
		}
		bed.create(w.T, slice)
		w.slices = append(w.slices, slice)
	}
}
