//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// isolated is the namespace whose pods have policies.
const isolated = "e2e-isolated"

// isle is the fixture of the network policy test.
type isle struct {
	web, client, other *corev1.Pod // in the namespace
	visitor, stranger  *corev1.Pod // in another namespace; visitor has a label
	balanced           *corev1.Service
}

// TestNetworkPolicy sends packets between pods whose policies change, over both families. The target e2e-upstream
// runs Kubernetes' own policy tests.
func TestNetworkPolicy(t *testing.T) {
	before := rowsOfRules(t)
	w := makeIsle(t)
	all := []*corev1.Pod{w.web, w.client, w.other, w.visitor, w.stranger}
	tcp, udp := []string{"tcp"}, []string{"udp"}
	who := intstr.FromInt32(whoPort)

	t.Run("the first packet of a pod under default deny", func(t *testing.T) { testDeniedFromTheFirstPacket(t, w) })
	t.Run("default deny", func(t *testing.T) {
		deny := policy("deny", metav1.LabelSelector{}, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
		bed.create(t, deny)
		for _, p := range all[:3] {
			reach(t, []string{"tcp", "udp"}, p, all, nil)
		}
		reach(t, tcp, w.stranger, all[:3], nil)
		must(t, bed.hostReach(t.Context(), "n1", w.web)) // a pod's own node reaches it
		bed.remove(t, deny)
		reach(t, []string{"tcp", "udp"}, w.web, all, all)
	})
	t.Run("ingress by pods, namespaces and ports", func(t *testing.T) {
		p := policy("web", app("web"), networkingv1.PolicyTypeIngress)
		named := intstr.FromString("who")
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app("client"))},
				{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: ptr(app("visitor"))}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &named}},
		}}
		bed.create(t, p)
		for from, want := range map[*corev1.Pod]bool{w.client: true, w.other: false, w.visitor: true, w.stranger: false} {
			reach(t, tcp, from, []*corev1.Pod{w.web}, only(want, w.web))
			reach(t, udp, from, []*corev1.Pod{w.web}, nil)
		}
		reach(t, tcp, w.web, all, all) // connections that the pod opens, and their replies
		bed.relabel(t, w.stranger, "app", "visitor")
		reach(t, tcp, w.stranger, []*corev1.Pod{w.web}, []*corev1.Pod{w.web})
		bed.relabel(t, w.stranger, "app", "stranger")
		reach(t, tcp, w.stranger, []*corev1.Pod{w.web}, nil)
		bed.remove(t, p)
	})
	t.Run("egress by networks and ports, behind services", func(t *testing.T) {
		out, far := both(lab.Outside()), both(lab.Far())
		p := policy("client", app("client"), networkingv1.PolicyTypeEgress)
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{
			{To: []networkingv1.NetworkPolicyPeer{block(out[0]), block(out[1])}, Ports: []networkingv1.NetworkPolicyPort{{Port: &who}}},
			{To: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app("web"))}}},
		}
		bed.create(t, p)
		f := &fence{inside: w.web}
		f.reachOf(t, tcp, []*corev1.Pod{w.client}, slices.Concat(out, far, addressesOf(w.web),
			addressesOf(w.visitor)), slices.Concat(out, addressesOf(w.web))...)
		service := addressList(w.balanced.Spec.ClusterIPs...) // the service's port differs from its backends', and no pod has its address
		for _, from := range []*corev1.Pod{w.client, w.visitor} {
			var wanted []calls
			for _, a := range service {
				wanted = append(wanted, calls{"tcp", netip.AddrPortFrom(a, 80).String(), 1, false})
			}
			eventually(t, recoveryTimeout, func() error { return reaches(t.Context(), from, wanted, service) })
		}
		bed.relabel(t, w.web, "app", "other") // without a backend, the policy allows nothing
		f.reachOf(t, tcp, []*corev1.Pod{w.client}, slices.Concat(out, addressesOf(w.web)), out...)
		bed.relabel(t, w.web, "app", "web")
		f.reachOf(t, tcp, []*corev1.Pod{w.client}, slices.Concat(out, addressesOf(w.web)), slices.Concat(out, addressesOf(w.web))...)
		replacePod(t, operator, "")
		f.reachOf(t, tcp, []*corev1.Pod{w.client}, slices.Concat(out, far, addressesOf(w.web)), slices.Concat(out, addressesOf(w.web))...)
		bed.remove(t, p)
	})
	t.Run("decisions are logged and counted", func(t *testing.T) { testDecisionsAreLogged(t, w) })
	bed.awaitConsistent(t)
	if left := rowsOfRules(t); !slices.Equal(left, before) {
		t.Errorf("rule rows are %v, were %v before the test", left, before)
	}
}

func ptr[T any](v T) *T { return &v }

func only(yes bool, p *corev1.Pod) []*corev1.Pod {
	if !yes {
		return nil
	}
	return []*corev1.Pod{p}
}

func app(name string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func block(a netip.Addr) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(a, a.BitLen()).String()}}
}

func policy(name string, subject metav1.LabelSelector, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: isolated, Name: name},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: subject, PolicyTypes: types}}
}

func makeIsle(t *testing.T) *isle {
	t.Helper()
	bed.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: isolated}})
	eventually(t, readyTimeout, func() error {
		return bed.api.Get(t.Context(), types.NamespacedName{Namespace: isolated, Name: "default"}, &corev1.ServiceAccount{})
	})
	inside := func(name, node string) *corev1.Pod {
		p := labelled(bed.peerPod(name, node), name)
		p.Namespace = isolated
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "who", ContainerPort: whoPort}}
		return p
	}
	w := &isle{web: inside("web", "n1"), client: inside("client", "n2"), other: inside("other", "n1"),
		visitor:  labelled(bed.peerPod("isle-visitor", "n2"), "visitor"),
		stranger: labelled(bed.peerPod("isle-stranger", "n1"), "stranger")}
	w.balanced = service("web", "web")
	w.balanced.Namespace = isolated
	bed.create(t, w.balanced)
	bed.run(t, w.web, w.client, w.other, w.visitor, w.stranger)
	bed.serveOn(t, lab.Outside().Name, lab.Far().Name)
	return w
}

// reach waits until a pod reaches exactly the wanted pods. Every pod reaches itself.
func reach(t *testing.T, protocols []string, from *corev1.Pod, to, want []*corev1.Pod) {
	t.Helper()
	var all, reached []netip.Addr
	for _, p := range to {
		if p != from {
			all = append(all, addressesOf(p)...)
		}
	}
	for _, p := range want {
		reached = append(reached, addressesOf(p)...)
	}
	(&fence{}).reachOf(t, protocols, []*corev1.Pod{from}, all, reached...)
}

// testDeniedFromTheFirstPacket pings a pod's requested addresses every 2 ms, from before its creation until it is
// Ready. It becomes Ready because kubelet's probe from its own node always passes. The pod itself opens a connection
// as soon as it runs. If the pod is denied, no other packet passes.
func testDeniedFromTheFirstPacket(t *testing.T, w *isle) {
	deny := policy("deny", metav1.LabelSelector{}, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	bed.create(t, deny)
	reach(t, []string{"tcp"}, w.web, []*corev1.Pod{w.stranger}, nil) // the policy is in force
	start := func(namespace, name string) *corev1.Pod {
		p := bed.peerPod(name, "n1", "--flow="+netip.AddrPortFrom(addressesOf(w.visitor)[0], 7000).String())
		p.Namespace = namespace
		p.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: strings.Join(free(t, "n1"), ",")}
		return p
	}
	for _, p := range []*corev1.Pod{start(isolated, "isle-denied"), start(namespace, "isle-allowed")} {
		requested := strings.Split(p.Annotations[networkv1alpha1.RequestedIPsAnnotation], ",")
		answers := startProbing(t, w.visitor, requested)
		bed.run(t, p)
		for _, a := range addressesOf(p) {
			if !slices.Contains(requested, a.String()) {
				t.Fatalf("pod %s has address %s, want one of the requested %v", p.Name, a, requested)
			}
		}
		denied := p.Namespace == isolated
		for _, r := range answers() {
			t.Logf("pod %s: %d of %d requests to %s were not answered", p.Name, r.Lost, r.Sent, r.To)
			if (r.Lost == r.Sent) != denied || r.Sent < 100 {
				t.Errorf("pod %s, denied: %t: %d of %d requests to %s were not answered", p.Name, denied, r.Lost, r.Sent, r.To)
			}
		}
		state, err := getJSON[flowState](t.Context(), bed, p, "/flow")
		must(t, err)
		if (state.Echoes == 0) != denied {
			t.Errorf("pod %s, denied: %t: its own connection: %+v", p.Name, denied, state)
		}
		bed.remove(t, p)
	}
	bed.remove(t, deny)
}

// free returns an unused address of each family in a node's subnets.
func free(t *testing.T, node string) (addresses []string) {
	t.Helper()
	nn := nodeNetwork(node)
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: node}, nn))
	for _, cidr := range nn.Spec.PodSubnets {
		prefix, err := cidr.Prefix()
		must(t, err)
		a := prefix.Addr()
		for range 201 {
			a = a.Next()
		}
		addresses = append(addresses, a.String())
	}
	return addresses
}

// startProbing sends echo requests without waiting for answers. The returned function stops it and returns the
// results.
func startProbing(t *testing.T, from *corev1.Pod, to []string) func() []pinged {
	t.Helper()
	cmd := bed.KubectlCommand(t.Context(), "-n", from.Namespace, "exec", "-i", from.Name, "--", peerPath, "ping",
		"--every=2ms", "--to="+strings.Join(to, ","))
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	must(t, err)
	end, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	return func() (all []pinged) {
		must(t, end.Close())
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() != "ready" {
				must(t, json.Unmarshal(lines.Bytes(), &all))
			}
		}
		if err := cmd.Wait(); err != nil || len(all) != len(to) {
			t.Fatal(fmt.Errorf("pings: %w: %s", err, complaint.String()))
		}
		return all
	}
}
