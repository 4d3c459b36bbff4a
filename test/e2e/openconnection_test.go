//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// TestOpenConnectionsEnd holds connections of ICMP, UDP and TCP open between two pods, on one node and on two, in both families. Whatever
// denies them, no packet of the opener arrives from then on. When it is undone, packets arrive again, so the connections
// had not ended by themselves.
func TestOpenConnectionsEnd(t *testing.T) {
	w := makeIsle(t)
	installClusterPolicies(t)
	for _, opener := range []*corev1.Pod{w.other, w.client} { // on the node of web, and on the other
		t.Run(opener.Name, func(t *testing.T) { testOpenConnections(t, w, opener) })
	}
}

func testOpenConnections(t *testing.T, w *isle, opener *corev1.Pod) {
	o := openConnections(t, opener, w.web)
	change := func(p *networkingv1.NetworkPolicy, edit func(*networkingv1.NetworkPolicySpec)) {
		before := client.MergeFrom(p.DeepCopy())
		edit(&p.Spec)
		must(t, bed.api.Patch(t.Context(), p, before))
	}
	create := func(object client.Object) (deny, undo func()) {
		return func() { bed.create(t, object) }, func() { bed.remove(t, object) }
	}
	deny := policy("deny", app("web"), networkingv1.PolicyTypeIngress)
	o.check(t, "ingress", deny.DeepCopy(), create)
	o.check(t, "egress", policy("deny", app(opener.Name), networkingv1.PolicyTypeEgress), create)
	for _, tier := range []policyv1alpha2.Tier{policyv1alpha2.AdminTier, policyv1alpha2.BaselineTier} {
		o.check(t, "ingress of the cluster, tier "+string(tier), denyToWeb(tier), create)
	}
	o.check(t, "selector", deny, func(client.Object) (do, undo func()) {
		deny.Spec.PodSelector = app("nobody")
		bed.create(t, deny)
		return func() { change(deny, func(s *networkingv1.NetworkPolicySpec) { s.PodSelector = app("web") }) },
			func() { change(deny, func(s *networkingv1.NetworkPolicySpec) { s.PodSelector = app("nobody") }) }
	})
	o.check(t, "label of the receiver", nil, func(client.Object) (do, undo func()) {
		return func() { bed.relabel(t, w.web, "app", "nobody") }, func() { bed.relabel(t, w.web, "app", "web") }
	})
	bed.remove(t, deny)
	peers := policy("peers", app("web"), networkingv1.PolicyTypeIngress)
	peers.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app(opener.Name))}}}}
	bed.create(t, peers)
	o.check(t, "label of the peer", nil, func(client.Object) (do, undo func()) {
		return func() { bed.relabel(t, opener, "app", "nobody") }, func() { bed.relabel(t, opener, "app", opener.Name) }
	})
	bed.remove(t, peers)
}

// denyToWeb denies packets to pods with the label app=web.
func denyToWeb(tier policyv1alpha2.Tier) *policyv1alpha2.ClusterNetworkPolicy {
	p := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "open"}}
	p.Spec.Tier = tier
	p.Spec.Subject.Pods = &policyv1alpha2.NamespacedPod{PodSelector: app("web"),
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: isolated}}}
	p.Spec.Ingress = []policyv1alpha2.ClusterNetworkPolicyIngressRule{{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
		From: []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Namespaces: &metav1.LabelSelector{}}}}}
	return p
}

// heldOpen are open connections between two pods.
type heldOpen struct {
	from, to *corev1.Pod
	opener   *dialogue // sends
	receiver *dialogue // counts what arrives
}

func openConnections(t *testing.T, from, to *corev1.Pod) *heldOpen {
	t.Helper()
	var toAll, fromAll []string
	for _, a := range addressesOf(to) {
		toAll = append(toAll, "--to="+a.String())
	}
	for _, a := range addressesOf(from) {
		fromAll = append(fromAll, "--from="+a.String())
	}
	o := &heldOpen{from: from, to: to}
	o.receiver = startDialogue(t, bed.podCaller(to), append([]string{"tally"}, fromAll...)...)
	o.opener = startDialogue(t, bed.podCaller(from), append([]string{"hold"}, toAll...)...)
	return o
}

// arrived returns how many packets of each protocol and family arrived so far.
func (o *heldOpen) arrived(t *testing.T) (counts map[string]int) {
	t.Helper()
	must(t, json.Unmarshal([]byte(o.receiver.next(t)), &counts))
	return counts
}

// check denies the connections and allows them again.
func (o *heldOpen) check(t *testing.T, name string, object client.Object, of func(client.Object) (deny, undo func())) {
	t.Helper()
	deny, undo := of(object)
	deny()
	reach(t, []string{"tcp", "udp"}, o.from, []*corev1.Pod{o.to}, nil) // the change is in force
	before := o.arrived(t)
	o.opener.next(t)
	if after := o.arrived(t); !maps.Equal(before, after) {
		t.Errorf("%s: packets of open connections arrived: %v, then %v", name, before, after)
	}
	undo()
	eventually(t, recoveryTimeout, func() error {
		after := o.arrived(t)
		for _, kind := range kinds {
			if after[kind] <= before[kind] {
				return fmt.Errorf("%s: no %s arrives again: %v, then %v", name, kind, before, after)
			}
		}
		return nil
	})
}

// dialogue is a running program that answers each line with a line.
type dialogue struct {
	argv []string
	at   string
	in   io.Writer
	out  *bufio.Scanner
	kill func() error
}

// startDialogue returns when the program is ready. It ends with the test.
func startDialogue(t *testing.T, at caller, argv ...string) *dialogue {
	t.Helper()
	cmd, err := at.command(t.Context(), argv...)
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { end(t, cmd, in) })
	d := &dialogue{argv: argv, at: at.name, in: in, out: bufio.NewScanner(out), kill: cmd.Process.Kill}
	if line := d.line(t); line != "ready" {
		t.Fatalf("peer %q at %s is not ready: %q", argv, at.name, line)
	}
	return d
}

func (d *dialogue) next(t *testing.T) string {
	t.Helper()
	return d.ask(t, "")
}

func (d *dialogue) ask(t *testing.T, line string) string {
	t.Helper()
	_, err := fmt.Fprintln(d.in, line)
	must(t, err)
	return d.line(t)
}

// line returns the program's next line. A program that says nothing is killed.
func (d *dialogue) line(t *testing.T) string {
	t.Helper()
	silent := time.AfterFunc(recoveryTimeout, func() { _ = d.kill() })
	defer silent.Stop()
	if !d.out.Scan() {
		t.Fatalf("peer %q at %s has ended, or said nothing for %s: %v", d.argv, d.at, recoveryTimeout, d.out.Err())
	}
	return d.out.Text()
}
