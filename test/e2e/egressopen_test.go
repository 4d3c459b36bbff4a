//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// TestOpenConnectionsLoseTheirSource holds connections of ICMP, UDP and TCP to outside, in both families, from a pod on the node that
// carries egress IPs, and from a pod on the other node. Whatever takes a source from the pods, no packet with it arrives from then on,
// and connections of another pod of the EgressIP go on.
func TestOpenConnectionsLoseTheirSource(t *testing.T) {
	bed.setGateway(t, t.Context(), column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge})
	o := makeOutside(t)
	const carrier = "n1"
	bed.assignable(t, carrier, true)
	t.Cleanup(func() { bed.unassignable() })
	beside := bed.peerPod("eip-beside", carrier)
	bed.run(t, beside)
	bed.relabel(t, beside, "egress", "yes")
	create := func(name, app string, addresses []netip.Addr) *networkv1alpha1.EgressIP {
		e := egressIP(t, name, app)
		e.Spec.EgressIPs = nil
		for _, a := range addresses {
			e.Spec.EgressIPs = append(e.Spec.EgressIPs, networkv1alpha1.EgressAddress(a.String()))
		}
		bed.create(t, e)
		bed.carried(t, e, carrier)
		return e
	}
	first := source{"the egress IP", egressAddresses(t)}
	second := source{"the other egress IP", []netip.Addr{first.Addresses[0].Next(), first.Addresses[1].Next()}}
	e := create("first", "yes", first.Addresses)
	create("second", "second", second.Addresses)
	other := openOutside(t, beside, lab.Far(), first)
	loses := func(pod *corev1.Pod, what string, before source, change func()) {
		held := openOutside(t, pod, lab.Outside(), before)
		t.Run(what, func(t *testing.T) { held.loses(t, change) })
		held.end()
	}
	for _, n := range o.nodes {
		pod := o.pods[n.Name]
		loses(pod, n.Name+", it gets one", ofMachine(n), func() { bed.relabel(t, pod, "egress", "yes") })
		loses(pod, n.Name+", it gets another", first, func() { bed.relabel(t, pod, "egress", "second") })
		loses(pod, n.Name+", it has none, while no agent runs", second, func() {
			killAgent(t) // kubelet restarts it
			bed.relabel(t, pod, "egress", "no")
		})
		bed.relabel(t, pod, "egress", "yes")
	}
	other.goesOn(t)
	var held []*heldOutside
	for _, n := range o.nodes {
		held = append(held, openOutside(t, o.pods[n.Name], lab.Outside(), first))
	}
	for _, n := range o.nodes {
		bed.relabel(t, o.pods[n.Name], "egress", "second")
	}
	bed.remove(t, e)
	create("third", "third", first.Addresses)
	for _, h := range held {
		h.loses(t, func() {})
	}
}

// heldOutside is a pod's open connections to a host outside.
type heldOutside struct {
	opener   *dialogue
	receiver *dialogue // counts packets with the source that the connections began with
}

// openOutside opens connections to a host outside, which begin with a source.
func openOutside(t *testing.T, from *corev1.Pod, to lab.Machine, with source) *heldOutside {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		if !sees(t.Context(), bed.podCaller(from), with.Addresses[0]) {
			return fmt.Errorf("packets of %s do not leave with %s", from.Name, with.Name)
		}
		return nil
	})
	hold, tally := []string{"hold"}, []string{"tally"}
	for _, a := range ofMachine(to).Addresses {
		hold = append(hold, "--to="+a.String())
	}
	for _, a := range with.Addresses {
		tally = append(tally, "--from="+a.String())
	}
	h := &heldOutside{receiver: startDialogue(t, bed.hostCaller(to.Name), tally...)}
	h.opener = startDialogue(t, bed.podCaller(from), hold...)
	h.goesOn(t)
	return h
}

// end ends the connections.
func (h *heldOutside) end() { _, _ = h.opener.kill(), h.receiver.kill() }

// kinds are the connections that hold opens.
var kinds = []string{"icmp4", "icmp6", "udp4", "udp6", "tcp4", "tcp6"}

// grown sends over the connections, and returns of which kinds packets with the source have arrived.
func (h *heldOutside) grown(t *testing.T) (kinds []string) {
	t.Helper()
	count := func() (counts map[string]int) {
		must(t, json.Unmarshal([]byte(h.receiver.next(t)), &counts))
		return counts
	}
	before := count()
	h.opener.next(t)
	for kind, after := range count() {
		if after > before[kind] {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// goesOn checks that packets of all connections arrive with the source.
func (h *heldOutside) goesOn(t *testing.T) {
	t.Helper()
	if have, want := h.grown(t), slices.Sorted(slices.Values(kinds)); !slices.Equal(have, want) {
		t.Errorf("packets of %v arrive with the source, want %v", have, want)
	}
}

// loses waits until no packets arrive with the source after a change.
func (h *heldOutside) loses(t *testing.T, change func()) {
	t.Helper()
	change()
	took := eventually(t, recoveryTimeout, func() error {
		if have := h.grown(t); len(have) > 0 {
			return fmt.Errorf("packets of %v arrive with the former source", have)
		}
		return nil
	})
	t.Logf("none after %v", took)
}
