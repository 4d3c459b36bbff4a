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
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// joinShared adds nodes with a gateway router in the network 192.0.2.0/24, with the addresses 192.0.2.11 and so on.
func (w *world) joinShared(names ...string) {
	w.Helper()
	w.join(names...)
	for i, name := range names {
		w.until(func() error {
			nn := w.nodeNetwork(name)
			patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
			nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared,
				Uplink: networkv1alpha1.UplinkBridge, Bridge: "br-ex",
				MACAddress: networkv1alpha1.MACAddress(fmt.Sprintf("02:00:00:00:00:%02x", 11+i)),
				NextHops:   []networkv1alpha1.IP{"192.0.2.1"},
				Addresses:  []networkv1alpha1.InterfaceAddress{networkv1alpha1.InterfaceAddress(fmt.Sprintf("192.0.2.%d/24", 11+i))}}
			return api.Status().Patch(w.Context(), nn, patch)
		})
	}
	w.until(func() error { // what a test counts later must not include the gateways' last rows
		for _, name := range names {
			port := "rtoe-GR_" + name
			if len(ovndb.List(w.rows, func(r *nbdb.LogicalRouterPort) bool {
				return r.Name == port && r.Options["gateway_mtu"] != ""
			})) == 0 {
				return fmt.Errorf("port %s is absent, or has no MTU", port)
			}
		}
		return nil
	})
}

// mayCarry sets whether nodes may carry egress IPs.
func (w *world) mayCarry(yes bool, names ...string) {
	w.Helper()
	value := "null"
	if yes {
		value = `""`
	}
	for _, name := range names {
		w.must(api.Patch(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`,
				networkv1alpha1.EgressAssignableLabel, value))))
	}
}

func (w *world) egressIP(name string, addresses ...networkv1alpha1.EgressAddress) *networkv1alpha1.EgressIP {
	w.Helper()
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: name}}
	e.Spec.EgressIPs = addresses
	e.Spec.PodSelector.MatchLabels = map[string]string{"out": "yes"}
	w.must(api.Create(w.Context(), e))
	w.Cleanup(func() { _ = api.Delete(context.Background(), e) })
	return e
}

// carried waits until nodes carry exactly these addresses: "192.0.2.100 n1".
func (w *world) carried(e *networkv1alpha1.EgressIP, want ...string) {
	w.Helper()
	w.until(func() error {
		if err := view.Get(context.Background(), client.ObjectKeyFromObject(e), e); err != nil {
			return err
		}
		var have []string
		for _, item := range e.Status.Items {
			have = append(have, string(item.EgressIP)+" "+item.Node)
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("the assignments are %v, want %v; %+v", have, want, e.Status.Conditions)
		}
		return nil
	})
}

// assigned waits for a condition and returns its message.
func (w *world) assigned(e *networkv1alpha1.EgressIP, reason string) (message string) {
	w.Helper()
	w.until(func() error {
		if err := view.Get(context.Background(), client.ObjectKeyFromObject(e), e); err != nil {
			return err
		}
		c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionAssigned)
		if c == nil || c.Reason != reason || c.ObservedGeneration != e.Generation {
			return fmt.Errorf("condition is %+v, want reason %s", c, reason)
		}
		message = c.Message
		return nil
	})
	return message
}

func outgoing(name, node string) *corev1.Pod {
	p := pod(name, node)
	p.Labels = map[string]string{"out": "yes"}
	return p
}

// TestEgressIPMovesInOneTransaction checks the cost of a pod and of a move, whatever the number of pods.
func TestEgressIPMovesInOneTransaction(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	w.mayCarry(true, "n1")
	e := w.egressIP("team", "192.0.2.100")
	w.carried(e, "192.0.2.100 n1")
	w.event("team", "EgressIPAssigned")
	w.mayCarry(true, "n2")
	o.settle()
	var pods []*corev1.Pod
	for i := range 5 {
		before := o.transactions()
		p := outgoing(fmt.Sprintf("p%d", i), "n2")
		pods = append(pods, p)
		w.run(p)
		w.port(p)
		o.settle()
		if n := o.transactions() - before; n != 1 {
			t.Errorf("a pod took %d transactions", n)
		}
	}
	o.settle()
	rows, before := w.selectRows(), o.transactions()
	w.mayCarry(false, "n1")
	w.carried(e, "192.0.2.100 n2")
	w.event("team", "EgressIPMoved")
	w.until(func() error { // the rows follow the status
		if o.transactions() == before {
			return fmt.Errorf("no transaction yet")
		}
		return nil
	})
	o.settle()
	if n := o.transactions() - before; n != 1 {
		t.Errorf("a move took %d transactions", n)
	}
	moved := differences(rows, w.selectRows())
	if len(moved) != 8 || !strings.Contains(strings.Join(moved, "\n"), "remove Logical_Router GR_n1 nat") {
		t.Errorf("a move changed %d elements: %s", len(moved), strings.Join(moved, "\n"))
	}
	w.mayCarry(true, "n1") // the address does not move back
	o.stop()
	o = w.start()
	w.until(func() error {
		if !o.engine.Connected() || !o.engine.Wanted("egressip/team") || !o.engine.Wanted("pod/default/p4") {
			return fmt.Errorf("not all units were compared")
		}
		return nil
	})
	o.settle()
	w.carried(e, "192.0.2.100 n2")
	if n := o.transactions(); n != 0 || len(o.writes("egressips")) != 0 {
		t.Errorf("a restart took %d transactions and wrote %v", n, o.writes("egressips"))
	}
	w.must(api.Delete(t.Context(), e))
	w.until(func() error {
		for _, line := range w.selectRows().owned("egressip/team") {
			return fmt.Errorf("a row remains: %s", line)
		}
		return nil
	})
	w.port(pods[0]) // pods keep their ports
}

// owned lists the rows of a unit.
func (r rows) owned(owner string) (found []string) {
	for table, all := range r {
		for id, row := range all {
			if slices.Contains(row["external_ids"], "weft.dev/unit="+owner) {
				found = append(found, table+" "+id)
			}
		}
	}
	return found
}

// TestEgressIPSaysWhyNot checks the condition for each reason why no node carries an address.
func TestEgressIPSaysWhyNot(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	e := w.egressIP("a", "192.0.2.100")
	w.says(w.assigned(e, networkv1alpha1.ReasonNoAssignableNode), "192.0.2.100", networkv1alpha1.EgressAssignableLabel)
	w.mayCarry(true, "n1", "n2")
	w.assigned(e, networkv1alpha1.ReasonAsExpected)
	slice := w.endpoints("api", "kubernetes", "192.0.2.200")
	w.Cleanup(func() { _ = api.Delete(context.Background(), slice) })
	n2 := w.node("n2")
	patched := n2.DeepCopy()
	patched.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "203.0.113.2"}}
	w.must(api.Status().Patch(t.Context(), patched, client.MergeFrom(n2)))
	for _, c := range []struct {
		name    string
		address networkv1alpha1.EgressAddress
		reason  string
		words   []string
	}{
		{"b", "192.0.2.100", networkv1alpha1.ReasonAddressInUse, []string{"EgressIP a"}},
		{"own", "192.0.2.11", networkv1alpha1.ReasonAddressInUse, []string{"node n1"}},
		{"router", "192.0.2.1", networkv1alpha1.ReasonAddressInUse, []string{"router"}},
		{"external", "203.0.113.2", networkv1alpha1.ReasonAddressInUse, []string{"node n2"}},
		{"api", "192.0.2.200", networkv1alpha1.ReasonAddressInUse, []string{"an address of the API server"}},
		{"first", "192.0.2.0", networkv1alpha1.ReasonAddressInUse, []string{"all hosts of 192.0.2.0/24"}},
		{"last", "192.0.2.255", networkv1alpha1.ReasonAddressInUse, []string{"all hosts of 192.0.2.0/24"}},
		{"pods", "10.244.0.77", networkv1alpha1.ReasonAddressInUse, []string{"10.244.0.0/16"}},
		{"services", "10.96.0.77", networkv1alpha1.ReasonAddressInUse, []string{"10.96.0.0/16"}},
		{"join", "100.64.0.77", networkv1alpha1.ReasonAddressInUse, []string{"100.64.0.0/16"}},
		{"far", "203.0.113.9", networkv1alpha1.ReasonNotOnNodeNetwork, []string{"n1, n2"}},
	} {
		e := w.egressIP(c.name, c.address)
		w.says(w.assigned(e, c.reason), append(c.words, string(c.address))...)
		w.carried(e)
		w.says(w.event(c.name, c.reason), append(c.words, string(c.address))...)
	}
	many := w.egressIP("many", "192.0.2.110", "192.0.2.111", "192.0.2.112")
	w.says(w.assigned(many, networkv1alpha1.ReasonNoAssignableNode), "192.0.2.112", "carry another IPv4 address")
	w.carried(many, "192.0.2.110 n2", "192.0.2.111 n1")
	w.must(api.Delete(t.Context(), e)) // the next EgressIP uses the same address
	b := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	w.assigned(b, networkv1alpha1.ReasonAsExpected)
}

// TestEgressIPThatBecomesAnothers checks that a carried address is withdrawn when it turns out to be a node's own,
// and returns afterwards. A selector that the API server accepts but that is unreadable selects no pod, and the
// condition reports it.
func TestEgressIPThatBecomesAnothers(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	w.mayCarry(true, "n1")
	e := w.egressIP("team", "192.0.2.100")
	w.carried(e, "192.0.2.100 n1")
	w.addressOf("n2", "192.0.2.100")
	w.says(w.assigned(e, networkv1alpha1.ReasonAddressInUse), "192.0.2.100", "belongs to node n2")
	w.carried(e)
	w.says(w.event("team", "EgressIPUnassigned"), "192.0.2.100", "belongs to node n2")
	w.until(func() error {
		if nats := ovndb.List(w.rows, func(r *nbdb.NAT) bool { return r.ExternalIP == "192.0.2.100" }); len(nats) > 0 {
			return fmt.Errorf("%d translations to an address of a node", len(nats))
		}
		return nil
	})
	w.addressOf("n2", "192.0.2.12")
	w.carried(e, "192.0.2.100 n1")

	w.edit(e, func() {
		e.Spec.PodSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team a",
			Operator: metav1.LabelSelectorOpExists}}}
	})
	w.says(w.assigned(e, networkv1alpha1.ReasonInvalidSpec), "spec.podSelector", "team a")
	w.carried(e)
	w.says(w.event("team", networkv1alpha1.ReasonInvalidSpec), "spec.podSelector", "team a")
}

// TestAWrongEgressIPKeepsTheFormer checks that an address stays in use while the address in its place cannot be used, also after a restart
// of the operator, and that it ends when it is removed.
func TestAWrongEgressIPKeepsTheFormer(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	w.mayCarry(true, "n1", "n2")
	e := w.egressIP("team", "192.0.2.100", "192.0.2.101")
	w.carried(e, "192.0.2.100 n1", "192.0.2.101 n2")
	change := func(addresses ...networkv1alpha1.EgressAddress) {
		w.edit(e, func() { e.Spec.EgressIPs = addresses })
	}
	change("192.0.2.11", "192.0.2.101")
	w.says(w.assigned(e, networkv1alpha1.ReasonAddressInUse), "192.0.2.11: it belongs to node n1", "192.0.2.100, which stays in use")
	o.stop()
	o = w.start()
	o.settle()
	w.carried(e, "192.0.2.100 n1", "192.0.2.101 n2")
	change("192.0.2.102", "192.0.2.101")
	w.carried(e, "192.0.2.101 n2", "192.0.2.102 n1")
	change("192.0.2.11", "192.0.2.101")
	w.assigned(e, networkv1alpha1.ReasonAddressInUse)
	w.carried(e, "192.0.2.101 n2", "192.0.2.102 n1")
	change("192.0.2.101")
	w.carried(e, "192.0.2.101 n2")
}

// An EgressIP says whether it selects no pod, also after the labels of a pod or of its namespace have changed.
func TestAnEgressIPSaysThatItSelectsNoPod(t *testing.T) {
	const none = "nodes carry all addresses; the selectors select no pod"
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1")
	w.mayCarry(true, "n1")
	e := w.egressIP("team", "192.0.2.100")
	says := func(want string) {
		t.Helper()
		w.until(func() error {
			if have := w.assigned(e, networkv1alpha1.ReasonAsExpected); have != want {
				return fmt.Errorf("the message is %q, want %q", have, want)
			}
			return nil
		})
	}
	says(none)
	p := outgoing("p", "n1")
	w.run(p)
	says("nodes carry all addresses")
	label := func(o client.Object, key, value string) {
		t.Helper()
		w.must(api.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value))))
	}
	label(p, "out", `"no"`)
	says(none)
	label(p, "out", `"yes"`)
	says("nodes carry all addresses")
	w.must(api.Get(w.Context(), client.ObjectKeyFromObject(e), e))
	e.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
	w.must(api.Update(w.Context(), e))
	says(none)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	t.Cleanup(func() { label(namespace, "team", "null") })
	label(namespace, "team", `"a"`)
	says("nodes carry all addresses")
	w.must(api.Delete(w.Context(), p, client.GracePeriodSeconds(0)))
	says(none)
}
