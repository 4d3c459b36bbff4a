package agent_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// multiPolicy lets pods of the app client send to one UDP port of the app web on blue, and nothing else.
func multiPolicy(t *testing.T) facts.MultiNetworkPolicy {
	t.Helper()
	peer := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}}
	o := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: peer}},
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolUDP), Port: new(intstr.FromInt32(allowed))}}}}}}
	read, err := facts.ParseMultiNetworkPolicy(o, []string{"blue"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// newAttached creates a pod of an app with an interface net1 on blue, and its place in the groups and sets of a policy.
// It is not added yet.
func (n *node) newAttached(policy facts.MultiNetworkPolicy, app string, slot int) (r *requester, address netip.Addr) {
	n.Helper()
	address = netip.MustParseAddr(fmt.Sprintf("10.100.0.%d", 60+slot))
	r = n.newRequester(app, slot, fmt.Sprintf(`[{"name":"blue","ips":["%s"]}]`, address))
	for key, selector := range topology.MultiNetworkPolicySelectors(policy) {
		if selector.Matches(facts.SelectedPod{Network: "blue", Namespace: "demo", Labels: labels.Set{"app": app}}) {
			r.selected = append(r.selected, key)
		}
	}
	return r, address
}

// attach adds a pod with its ports.
func (r *requester) attach() {
	r.Helper()
	answers, _ := r.startAdd(r.pod)
	r.givePorts()
	if a := <-answers; a.err != nil {
		r.Fatal(a.err)
	}
}

// A policy of a Network holds from the first packet of a pod's interface there, and eth0 is not concerned.
func TestMultiNetworkPolicyHoldsFromTheFirstPacket(t *testing.T) {
	n, policy := readyNodeWithNetworks(t), multiPolicy(t)
	for key := range topology.MultiNetworkPolicySelectors(policy) {
		if key.Kind() == topology.KindPodGroup {
			n.apply(topology.PodGroupUnit(key))
		} else {
			n.apply(topology.PodSetUnit(key))
		}
	}
	n.apply(topology.MultiNetworkPolicyUnit(policy))
	client, clientAddress := n.newAttached(policy, "client", 6)
	stranger, strangerAddress := n.newAttached(policy, "stranger", 7)
	client.attach()
	stranger.attach()

	web, address := n.newAttached(policy, "web", 8)
	mac := ipam.MAC([]netip.Addr{address})
	permitted, denied := n.newInbox(web.pod, allowed), n.newInbox(web.pod, deniedByGroup)
	defer permitted.conn.Close()
	defer denied.conn.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n.sendOn(ctx, client.pod, "net1", address, mac, deniedByGroup, allowed)
	n.sendOn(ctx, stranger.pod, "net1", address, mac, allowed)
	n.sendPackets(ctx, stranger.pod, web.pod, allowed)
	web.attach()
	arrive := func(what string, box *inbox, from netip.Addr) {
		t.Helper()
		n.until(what, func() error {
			if have := box.count(from); have < packetsToTheEnd {
				return fmt.Errorf("%d packets", have)
			}
			return nil
		})
	}
	arrive("what the rule allows", permitted, clientAddress)
	arrive("packets on the cluster network", permitted, stranger.addresses()[0])
	if port, peer := denied.count(clientAddress), permitted.count(strangerAddress); port+peer > 0 {
		t.Errorf("%d packets to another port and %d of another pod arrived on net1", port, peer)
	}
	n.apply(unit.Unit{Key: topology.MultiNetworkPolicyUnit(policy).Key})
	arrive("another port, without the policy", denied, clientAddress)
	arrive("another pod's packets, without the policy", permitted, strangerAddress)
}
