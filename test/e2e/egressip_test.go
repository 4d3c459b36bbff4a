//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/poll"
)

// egressAddresses are unused addresses in the nodes' network.
func egressAddresses(t *testing.T) []netip.Addr {
	t.Helper()
	nodes, err := bed.Nodes()
	must(t, err)
	v4, v6 := nodes[0].IPv4.Addr().As4(), nodes[0].IPv6.Addr().As16()
	v4[3], v6[14], v6[15] = 200, 2, 0
	return []netip.Addr{netip.AddrFrom4(v4), netip.AddrFrom16(v6)}
}

func egressIP(t *testing.T, name, app string) *networkv1alpha1.EgressIP {
	t.Helper()
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range egressAddresses(t) {
		e.Spec.EgressIPs = append(e.Spec.EgressIPs, networkv1alpha1.EgressAddress(a.String()))
	}
	e.Spec.NamespaceSelector.MatchLabels = map[string]string{"kubernetes.io/metadata.name": namespace}
	e.Spec.PodSelector.MatchLabels = map[string]string{"egress": app}
	return e
}

// TestEgressIP gives pods on both nodes an egress IP and checks which source address each server sees: outside the
// egress IP, inside the cluster the usual addresses. Then the node that carries the egress IP loses its network.
func TestEgressIP(t *testing.T) {
	var cells []*cell
	t.Cleanup(func() { writeCells(t, "egressip-cells.json", cells) })
	shared := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), shared) })
	for _, c := range []column{shared, {networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(string(c.mode), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			cells = append(cells, testEgressIP(t, c)...)
		})
	}
}

func testEgressIP(t *testing.T, c column) (cells []*cell) {
	o := makeOutside(t)
	o.column = c
	o.routePublic(t)
	plain := bed.peerPod("eip-plain", "n1")
	bed.run(t, plain)
	home := bed.operatorNode(t)
	if bed.bare && home != bed.central { // the surviving node must run what reassigns the address
		bed.operatorTo(t, bed.central)
		home = bed.central
	}
	carrier := other(home)
	bed.assignable(t, carrier, true)
	t.Cleanup(func() { bed.unassignable() })
	e := egressIP(t, "e2e", "yes")
	bed.create(t, e)
	bed.carried(t, e, carrier)
	try := func(name string, fill func(*matrix)) {
		t.Run(name, func(t *testing.T) {
			m := &matrix{mode: string(c.mode) + ", " + name}
			fill(m)
			m.try(t)
			cells = append(cells, m.cells...)
			bed.awaitConsistent(t)
		})
	}
	mine := source{"the egress IP", egressAddresses(t)}
	seen := func(who source) func(*matrix) {
		return func(m *matrix) {
			for _, p := range o.pods {
				for _, host := range []lab.Machine{lab.Outside(), lab.Far()} {
					m.add(bed.podCaller(p), "pod and outside", "host", "", ofMachine(host).Addresses, fixed(whoPort),
						promise{[]string{host.Name}, who})
				}
				m.add(bed.podCaller(p), "pod and outside", clusterIP, "", addressList(o.world.Spec.ClusterIPs...),
					fixed(80), promise{[]string{lab.Outside().Name}, who})
			}
			m.add(bed.podCaller(plain), "other pod and outside", "host", "", ofMachine(lab.Outside()).Addresses,
				fixed(whoPort), promise{[]string{lab.Outside().Name}, bed.ofNode("n1")})
		}
	}
	for _, p := range o.pods {
		bed.relabel(t, p, "egress", "yes")
	}
	try("selected", seen(mine))
	try("inside", func(m *matrix) {
		o.addInside(m)
		o.addIngress(t, m) // replies to callers from outside take the way back on which the call came
		o.addHosts(t, m)
	})
	t.Run("failover", func(t *testing.T) { testEgressFailover(t, o, plain, e, carrier, home) })
	try("after it", seen(mine))
	for _, p := range o.pods {
		bed.relabel(t, p, "egress", "no")
	}
	try("no longer selected", o.addOwn)
	for _, p := range o.pods {
		bed.relabel(t, p, "egress", "yes")
	}
	try("selected again", seen(mine))
	must(t, bed.api.Delete(t.Context(), e))
	try("deleted", o.addOwn)
	if c.mode == networkv1alpha1.GatewayLocal {
		second := onSecondLink(t, o, carrier)
		for _, p := range o.pods {
			bed.relabel(t, p, "egress", "second")
		}
		mine = source{"the egress IP of the second link", second}
		try("by the second link", seen(mine))
	}
	return cells
}

// onSecondLink creates an EgressIP in the network of the nodes' second link, to which a node has a default route of low
// preference, and returns its addresses.
func onSecondLink(t *testing.T, o outside, carrier string) []netip.Addr {
	apart := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkInterface}
	for _, router := range ofMachine(apart.at(lab.Router())).Addresses {
		for _, node := range []string{"n1", "n2"} {
			route := []string{"default", "via", router.String(), "dev", secondLink, "metric", "5000"}
			bed.mustExec(t, node, append([]string{"ip", "route", "add"}, route...)...)
			t.Cleanup(func() { _, _ = bed.Exec(cleanup(), node, append([]string{"ip", "route", "del"}, route...)...) })
		}
	}
	e := egressIP(t, "second", "second")
	e.Spec.EgressIPs = nil
	var addresses []netip.Addr
	node := apart.at(o.nodes[0])
	v4, v6 := node.IPv4.Addr().As4(), node.IPv6.Addr().As16()
	v4[3], v6[14], v6[15] = 200, 2, 0
	for _, a := range []netip.Addr{netip.AddrFrom4(v4), netip.AddrFrom16(v6)} {
		addresses = append(addresses, a)
		e.Spec.EgressIPs = append(e.Spec.EgressIPs, networkv1alpha1.EgressAddress(a.String()))
	}
	bed.assignable(t, other(carrier), false)
	bed.create(t, e)
	bed.carried(t, e, carrier)
	return addresses
}

// addInside adds the traffic that egress IPs do not affect: to pods, nodes and services, and everything from
// outside.
func (o outside) addInside(m *matrix) {
	for _, n := range o.nodes {
		pod := o.pods[n.Name]
		from := bed.podCaller(pod)
		for _, to := range o.pods {
			m.add(from, "pod and pod", "pod", "", addressesOf(to), fixed(whoPort), promise{[]string{to.Name}, itself(pod)})
		}
		for _, machine := range o.nodes {
			relation, seen := "pod and own node", itself(pod)
			if machine.Name != n.Name {
				relation, seen = "pod and other node", ofMachine(n)
			}
			m.add(from, relation, "host", "", ofMachine(machine).Addresses, fixed(whoPort), promise{[]string{machine.Name}, seen})
		}
	}
}

// addOwn adds that servers outside see pods under their node's address.
func (o outside) addOwn(m *matrix) {
	for _, n := range o.nodes {
		m.add(bed.podCaller(o.pods[n.Name]), "pod and outside", "host", "", ofMachine(lab.Outside()).Addresses,
			fixed(whoPort), promise{[]string{lab.Outside().Name}, ofMachine(n)})
	}
}

func other(node string) string {
	if node == "n1" {
		return "n2"
	}
	return "n1"
}

// operatorNode returns the node that runs the operator.
func (b *testbed) operatorNode(t *testing.T) string {
	t.Helper()
	p, err := b.pod(t.Context(), operator, "")
	must(t, err)
	return p.Spec.NodeName
}

// operatorTo replaces the operator by one on another node. The operator prefers control plane nodes.
func (b *testbed) operatorTo(t *testing.T, node string) {
	t.Helper()
	preferred := func(yes bool) {
		must(t, b.label(cleanup(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, "node-role.kubernetes.io/control-plane", yes))
	}
	preferred(true)
	defer preferred(false)
	if fresh := replacePod(t, operator, ""); fresh.Spec.NodeName != node {
		t.Fatalf("the operator is on %s, want %s", fresh.Spec.NodeName, node)
	}
}

// assignable sets whether a node may carry egress IPs.
func (b *testbed) assignable(t *testing.T, node string, yes bool) {
	t.Helper()
	must(t, b.label(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, networkv1alpha1.EgressAssignableLabel, yes))
}

func (b *testbed) unassignable() {
	for _, node := range []string{"n1", "n2"} {
		// the lab is removed anyway
		_ = b.label(cleanup(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, networkv1alpha1.EgressAssignableLabel, false)
	}
}

func (b *testbed) label(ctx context.Context, o client.Object, key string, yes bool) error {
	value := "null"
	if yes {
		value = `"yes"`
	}
	return b.api.Patch(ctx, o, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value)))
}

func (b *testbed) relabel(t *testing.T, p *corev1.Pod, key, value string) {
	t.Helper()
	must(t, b.api.Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))))
}

// carried waits until one node carries all addresses.
func (b *testbed) carried(t *testing.T, e *networkv1alpha1.EgressIP, node string) time.Duration {
	t.Helper()
	return eventually(t, recoveryTimeout, func() error {
		if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
			return err
		}
		for _, item := range e.Status.Items {
			if item.Node != node {
				return fmt.Errorf("%s is on %s, want %s", item.EgressIP, item.Node, node)
			}
		}
		if len(e.Status.Items) != len(e.Spec.EgressIPs) {
			return fmt.Errorf("the egress IP carries %v: %v", e.Status.Items, e.Status.Conditions)
		}
		return nil
	})
}

// egressReport holds the times that the failover took.
type egressReport struct {
	StatusMs      int64   `json:"statusMs"`      // from the fault to the new node in the status
	FirstPacketMs int64   `json:"firstPacketMs"` // from the fault to the first answered call of a selected pod with the egress IP
	OtherGapMs    float64 `json:"otherGapMs"`    // the longest gap in a connection of another pod on the surviving node
	BackMs        int64   `json:"backMs"`        // from the link's return until everything is consistent again
}

// testEgressFailover takes down the link of the node that carries the egress IP. A selected pod on the other node
// keeps the egress IP, another pod's connection is not interrupted, and the address does not move when the node
// returns.
func testEgressFailover(t *testing.T, o outside, plain *corev1.Pod, e *networkv1alpha1.EgressIP, carrier, home string) {
	bed.assignable(t, home, true)
	flow := bed.peerPod("eip-flow", home, "--flow="+netip.AddrPortFrom(lab.Outside().IPv4.Addr(), 7000).String())
	bed.run(t, flow)
	eventually(t, 30*time.Second, func() error { return flowing(t.Context(), flow) })
	_, err := getJSON[flowState](t.Context(), bed, flow, "/flow?reset")
	must(t, err)
	var report egressReport
	link := func(state string) { bed.mustExec(t, carrier, "ip", "link", "set", "eth0", state) }
	t.Cleanup(func() { _, _ = bed.Exec(cleanup(), carrier, "ip", "link", "set", "eth0", "up") })
	link("down")
	fault := time.Now()
	first := make(chan error, 1)
	go func() {
		first <- awaitSeen(t.Context(), bed.podCaller(o.pods[home]), egressAddresses(t)[0], &report, fault)
	}()
	bed.carried(t, e, home)
	report.StatusMs = time.Since(fault).Milliseconds()
	must(t, <-first)
	state, err := getJSON[flowState](t.Context(), bed, flow, "/flow")
	must(t, err)
	report.OtherGapMs = state.GapMs
	if !state.Connected { // the length of a gap depends on the machine
		t.Errorf("another pod's connection: %+v", state)
	}
	link("up")
	back := time.Now()
	must(t, poll.Slowly(t.Context(), 2*recoveryTimeout, func() error { return bed.consistent(t.Context()) }))
	report.BackMs = time.Since(back).Milliseconds()
	bed.carried(t, e, home) // it does not move back
	writeReport(t, "egressip.json", report)
	t.Logf("%+v", report)
}

// awaitSeen calls outside repeatedly, without waiting for the answers of earlier calls, until a server sees the
// address.
func awaitSeen(ctx context.Context, from caller, address netip.Addr, report *egressReport, since time.Time) error {
	ctx, stop := context.WithTimeout(ctx, recoveryTimeout)
	defer stop()
	const pause = 250 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	seen, busy := make(chan time.Duration, 1), make(chan struct{}, 6)
	for {
		select {
		case took := <-seen:
			report.FirstPacketMs = took.Milliseconds()
			return nil
		case <-ctx.Done():
			return fmt.Errorf("no server saw %s within %s", address, recoveryTimeout)
		case <-ticker.C:
		}
		select {
		case busy <- struct{}{}:
			go func() {
				defer func() { <-busy }()
				if sees(ctx, from, address) {
					select {
					case seen <- time.Since(since):
					default:
					}
				}
			}()
		default:
		}
	}
}

// sees makes one call and reports whether it was answered by a server that saw the address.
func sees(ctx context.Context, from caller, address netip.Addr) bool {
	all, err := from.call(ctx, "tcp", netip.AddrPortFrom(lab.Outside().IPv4.Addr(), whoPort), 1)
	return err == nil && slices.ContainsFunc(all, func(c called) bool {
		client, err := netip.ParseAddrPort(c.Client)
		return err == nil && client.Addr().Unmap() == address
	})
}

func writeReport(t *testing.T, name string, report any) {
	t.Helper()
	root, err := tools.SourceRoot()
	must(t, err)
	text, err := json.MarshalIndent(report, "", "  ")
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(root, "_out"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "_out", name), append(text, '\n'), 0o644))
}
