//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// balancing is the fixture of the tests of LoadBalancerPools.
type balancing struct {
	mode networkv1alpha1.GatewayMode
	pool *networkv1alpha1.LoadBalancerPool
	pods map[string]*corev1.Pod // by node
}

// poolRange is a range of free addresses in the nodes' network, in both families.
func poolRange(t *testing.T) []networkv1alpha1.LoadBalancerRange {
	t.Helper()
	nodes, err := bed.Nodes()
	must(t, err)
	v4, v6 := nodes[0].IPv4.Addr().As4(), nodes[0].IPv6.Addr().As16()
	v4[3], v6[14], v6[15] = 210, 3, 0
	last := v4
	last[3] = 219
	return []networkv1alpha1.LoadBalancerRange{
		networkv1alpha1.LoadBalancerRange(fmt.Sprintf("%s-%s", netip.AddrFrom4(v4), netip.AddrFrom4(last))),
		networkv1alpha1.LoadBalancerRange(netip.PrefixFrom(netip.AddrFrom16(v6), 124).String())}
}

// balanced is a Service of the pool.
func balanced(name string, policy corev1.ServiceExternalTrafficPolicy) *corev1.Service {
	return service(name, "lb", func(s *corev1.ServiceSpec) {
		s.Type, s.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(networkv1alpha1.DefaultLoadBalancerClass)
		s.ExternalTrafficPolicy = policy
	})
}

// TestLoadBalancer gives Services addresses of a pool. Clients outside reach them, one machine answers ARP and neighbour
// discovery for each, and another node takes over when that machine is lost.
func TestLoadBalancer(t *testing.T) {
	shared := column{networkv1alpha1.GatewayShared, networkv1alpha1.UplinkBridge}
	t.Cleanup(func() { bed.setGateway(t, cleanup(), shared) })
	for _, c := range []column{shared, {networkv1alpha1.GatewayLocal, networkv1alpha1.UplinkBridge}} {
		t.Run(string(c.mode), func(t *testing.T) {
			bed.setGateway(t, t.Context(), c)
			testLoadBalancer(t, c.mode)
		})
	}
}

func testLoadBalancer(t *testing.T, mode networkv1alpha1.GatewayMode) {
	b := balancing{mode: mode, pool: &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}},
		pods: map[string]*corev1.Pod{}}
	b.pool.Spec.Addresses = poolRange(t)
	bed.create(t, b.pool)
	for _, node := range []string{"n1", "n2"} {
		b.pods[node] = labelled(bed.peerPod("lb-"+node, node), "lb")
	}
	bed.run(t, b.pods["n1"], b.pods["n2"])
	cluster := balanced("lb-cluster", corev1.ServiceExternalTrafficPolicyCluster)
	local := balanced("lb-local", corev1.ServiceExternalTrafficPolicyLocal)
	bed.create(t, cluster, local)
	t.Run("foreign hosts", func(t *testing.T) { b.testForeign(t) })
	t.Run("reached", func(t *testing.T) { b.testReached(t, cluster, local) })
	t.Run("leaves with it", func(t *testing.T) { b.testLeaves(t, cluster, local) })
	t.Run("moves", func(t *testing.T) { b.testMoves(t, cluster) })
	t.Run("follows the endpoints", func(t *testing.T) { b.testFollows(t, local) })
	t.Run("released", func(t *testing.T) { b.testReleased(t, cluster) })
}

// testForeign gives the router the next addresses of the pool and an egress IP, so that it is a foreign host that has them. Services get
// other addresses. Who requests an address of the router gets it when the router has released it.
func (b balancing) testForeign(t *testing.T) {
	router, pool := lab.Router(), b.pool.Spec.Addresses
	first, _, _ := strings.Cut(string(pool[0]), "-")
	second, _, _ := strings.Cut(string(pool[1]), "/")
	v4, v6 := netip.MustParseAddr(first), netip.MustParseAddr(second)
	for range 4 { // two are in use, two are for Services without a request, and a third one passes over the router's
		v4, v6 = v4.Next(), v6.Next()
	}
	foreign := []netip.Addr{v4, v6, v4.Next(), v6.Next(), egressAddresses(t)[0], egressAddresses(t)[1]}
	release := func(ctx context.Context) {
		for _, a := range foreign {
			_, _ = bed.Exec(ctx, router.Name, "ip", "address", "delete", a.String(), "dev", "eth0") // it may be gone
		}
	}
	t.Cleanup(func() { release(cleanup()) })
	for _, a := range foreign {
		bed.mustExec(t, router.Name, "ip", "address", "add", netip.PrefixFrom(a, a.BitLen()).String(), "dev", "eth0", "nodad")
	}
	requesting := balanced("lb-foreign", corev1.ServiceExternalTrafficPolicyCluster)
	requesting.Annotations = map[string]string{networkv1alpha1.LoadBalancerIPsAnnotation: v4.String() + "," + v6.String()}
	e := egressIP(t, "foreign", "foreign")
	bed.assignable(t, "n1", true)
	t.Cleanup(func() { bed.unassignable() })
	bed.create(t, requesting, e)
	named := func(conditions *[]metav1.Condition, o client.Object, kind, reason string) {
		t.Helper()
		eventually(t, recoveryTimeout, func() error {
			must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			c := meta.FindStatusCondition(*conditions, kind)
			if c == nil || c.Reason != reason || !strings.Contains(c.Message, router.MAC.String()) {
				return fmt.Errorf("%s: condition %+v, want reason %s and MAC %s", o.GetName(), c, reason, router.MAC)
			}
			return nil
		})
	}
	named(&requesting.Status.Conditions, requesting, networkv1alpha1.ServiceLoadBalancerReady, networkv1alpha1.ReasonAddressUnavailable)
	named(&e.Status.Conditions, e, networkv1alpha1.ConditionAssigned, networkv1alpha1.ReasonAddressInUse)
	named(&b.pool.Status.Conditions, b.pool, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAddressInUse)
	for i := range 3 {
		free := balanced(fmt.Sprint("lb-free-", i), corev1.ServiceExternalTrafficPolicyCluster)
		bed.create(t, free)
		for a, node := range b.addressed(t, free) {
			if slices.Contains(foreign, a) {
				t.Errorf("Service %s has %s, which the router has", free.Name, a)
			}
			b.answeredBy(t, a, node)
		}
	}
	release(t.Context())
	for a := range b.addressed(t, requesting) {
		if a != v4 && a != v6 {
			t.Errorf("the Service that requests addresses of the router has %s", a)
		}
	}
	bed.carried(t, e, "n1")
	must(t, errors.Join(bed.api.Delete(t.Context(), requesting), bed.api.Delete(t.Context(), e)))
	bed.awaitConsistent(t)
}

// addressed waits until a Service has an address of each family, and a node answers for each. It returns the addresses and
// their nodes.
func (b balancing) addressed(t *testing.T, s *corev1.Service) map[netip.Addr]string {
	t.Helper()
	speakers := map[netip.Addr]string{}
	eventually(t, recoveryTimeout, func() error {
		clear(speakers)
		if err := errors.Join(bed.api.Get(t.Context(), client.ObjectKeyFromObject(s), s),
			bed.api.Get(t.Context(), client.ObjectKeyFromObject(b.pool), b.pool)); err != nil {
			return err
		}
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			for _, a := range b.pool.Status.Announcements {
				if string(a.Address) == ingress.IP {
					speakers[netip.MustParseAddr(ingress.IP)] = a.Node
				}
			}
		}
		if len(speakers) != 2 {
			return fmt.Errorf("service %s has %+v, the pool %+v", s.Name, s.Status, b.pool.Status)
		}
		return nil
	})
	return speakers
}

func (b balancing) testReached(t *testing.T, cluster, local *corev1.Service) {
	m := &matrix{mode: string(b.mode)}
	for _, s := range []*corev1.Service{cluster, local} {
		for a, node := range b.addressed(t, s) {
			servers, seen := []string{b.pods["n1"].Name, b.pods["n2"].Name}, bed.joinOf(t, node)
			if b.mode == networkv1alpha1.GatewayLocal {
				seen = bed.managementOf(t, node)
			}
			for _, host := range []lab.Machine{lab.Outside(), lab.Far()} {
				if s == local {
					servers, seen = []string{b.pods[node].Name}, ofMachine(host)
				}
				m.add(bed.hostCaller(host.Name), "outside and load balancer", loadBalancer, string(s.Spec.ExternalTrafficPolicy),
					[]netip.Addr{a}, fixed(80), promise{servers, seen})
			}
			b.answeredBy(t, a, node)
		}
	}
	m.try(t)
	writeCells(t, "loadbalancer-"+strings.ToLower(string(b.mode))+"-cells.json", m.cells)
	bed.awaitConsistent(t)
}

// testLeaves makes the addresses of a Service the source of its pods. Hosts outside see them, whichever node the pod is on, and the
// Service works as before. Nodes see the pods as before.
func (b balancing) testLeaves(t *testing.T, cluster, local *corev1.Service) {
	bed.serveOn(t, lab.Outside().Name, "n1", "n2")
	leaves := func(by string) {
		must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
		before := cluster.DeepCopy()
		delete(cluster.Annotations, networkv1alpha1.EgressSourceAnnotation)
		if by != "" {
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, networkv1alpha1.EgressSourceAnnotation, by)
		}
		must(t, bed.api.Patch(t.Context(), cluster, client.MergeFrom(before)))
	}
	sees := func(p *corev1.Pod, at, want netip.Addr) {
		t.Helper()
		eventually(t, recoveryTimeout, func() error {
			if seen, err := sourceOf(t.Context(), p, at); err != nil || seen != want {
				return fmt.Errorf("%s sees %s at %s, want %s: %w", at, p.Name, seen, want, err)
			}
			return nil
		})
	}
	of := func(addresses []netip.Addr, like netip.Addr) netip.Addr {
		return addresses[slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == like.Is4() })]
	}
	leaves(networkv1alpha1.EgressSourceLoadBalancer)
	for a := range b.addressed(t, cluster) {
		for node, p := range b.pods {
			sees(p, of(both(lab.Outside()), a), a)
			for _, other := range []string{"n1", "n2"} {
				if other != node {
					sees(p, of(both(machineOf(t, other)), a), of(both(machineOf(t, node)), a))
				}
			}
		}
	}
	eventually(t, recoveryTimeout, func() error {
		must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, networkv1alpha1.ServiceEgressSource) {
			return fmt.Errorf("the conditions of service %s are %+v", cluster.Name, cluster.Status.Conditions)
		}
		return nil
	})
	b.testReached(t, cluster, local)
	leaves("")
	for node, p := range b.pods {
		for _, a := range both(lab.Outside()) {
			sees(p, a, of(both(machineOf(t, node)), a))
		}
	}
}

// joinOf returns the addresses of a node's gateway router on the join switch, which clients have at backends of any node.
func (b *testbed) joinOf(t *testing.T, node string) source {
	t.Helper()
	var nn networkv1alpha1.NodeNetwork
	must(t, b.api.Get(t.Context(), client.ObjectKey{Name: node}, &nn))
	return source{"the gateway router of " + node, interfaceAddresses(t, nn.Spec.JoinAddresses)}
}

// answeredBy waits until one machine alone answers for an address: the node.
func (b balancing) answeredBy(t *testing.T, a netip.Addr, node string) {
	t.Helper()
	want := machineOf(t, node).MAC.String()
	eventually(t, recoveryTimeout, func() error {
		if macs, err := b.answering(t.Context(), a, 20); err != nil || !slices.Equal(macs, []string{want}) {
			return fmt.Errorf("%s is answered for by %v, want %s of node %s: %w", a, macs, want, node, err)
		}
		return nil
	})
}

// answering returns the MACs that answer for an address on the nodes' segment.
func (b balancing) answering(ctx context.Context, a netip.Addr, count int) ([]string, error) {
	router := lab.Router()
	from := router.IPv4.Addr()
	if a.Is6() {
		from = router.IPv6.Addr()
	}
	return runJSON[[]string](ctx, bed.hostCaller(router.Name), "answers", "--from="+from.String(), "--address="+a.String(),
		fmt.Sprint("--count=", count))
}

func machineOf(t *testing.T, name string) lab.Machine {
	t.Helper()
	nodes, err := bed.Nodes()
	must(t, err)
	i := slices.IndexFunc(nodes, func(m lab.Machine) bool { return m.Name == name })
	return nodes[i]
}

// balancerMove is how long a move took.
type balancerMove struct {
	Fault    string `json:"fault"`
	Address  string `json:"address"`
	StatusMs int64  `json:"statusMs"` // from the fault to the new node in the status
	GapMs    int64  `json:"gapMs"`    // from the fault to the first answered call from outside
}

// testMoves takes the node that answers away: it is cordoned, its link goes down, and its agent and ovn-controller are
// killed. The operator runs on the other node.
func (b balancing) testMoves(t *testing.T, s *corev1.Service) {
	home := bed.operatorNode(t)
	if bed.bare && home != bed.central {
		bed.operatorTo(t, bed.central)
		home = bed.central
	}
	victim := other(home)
	// Kubernetes notices late that a backend there is lost.
	bed.relabel(t, b.pods[victim], "app", "other")
	defer bed.relabel(t, b.pods[victim], "app", "lb")
	var report []balancerMove
	t.Cleanup(func() { writeReport(t, "loadbalancer-"+strings.ToLower(string(b.mode))+".json", report) })
	for _, fault := range []struct {
		name         string
		inject, heal func(ctx context.Context) error
	}{
		{"cordon", bed.cordon(victim, true), bed.cordon(victim, false)},
		{"cable", bed.link(victim, "down"), bed.link(victim, "up")},
	} {
		t.Run(fault.name, func(t *testing.T) {
			moving := b.onNode(t, s, victim)
			healed := false
			heal := func(ctx context.Context) error { healed = true; return fault.heal(ctx) }
			t.Cleanup(func() {
				if !healed {
					_ = heal(cleanup()) // the lab is removed anyway
				}
			})
			began := time.Now()
			must(t, fault.inject(t.Context()))
			for _, a := range moving {
				move := balancerMove{Fault: fault.name, Address: a.String()}
				move.StatusMs = b.awaitSpeaker(t, a, home, began)
				eventually(t, recoveryTimeout, func() error { return b.answered(t.Context(), a) })
				move.GapMs = time.Since(began).Milliseconds()
				report = append(report, move)
				b.answeredBy(t, a, home)
			}
			must(t, heal(t.Context()))
			for _, a := range moving {
				b.awaitSpeaker(t, a, victim, time.Now())
				b.answeredBy(t, a, victim)
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		moving := b.onNode(t, s, victim)
		bed.signal(t, victim, controller, syscall.SIGKILL)
		signalProgram(t, victim, syscall.SIGKILL, "weft-agent", "")
		// The daemons start again. The node may answer again, or still, but never two.
		for _, a := range moving {
			eventually(t, recoveryTimeout, func() error { return b.answered(t.Context(), a) })
			b.addressed(t, s) // reads the pool
			for _, at := range b.pool.Status.Announcements {
				if string(at.Address) == a.String() { // it may be a further Service's
					b.answeredBy(t, a, at.Node)
				}
			}
		}
	})
	t.Logf("%+v", report)
}

// onNode makes a node answer for the addresses of a Service, if it is not that already, and returns those. With a node
// selector the pool has that node alone; then it selects both again, and the other addresses go back.
func (b balancing) onNode(t *testing.T, s *corev1.Service, node string) (addresses []netip.Addr) {
	t.Helper()
	for a, at := range b.addressed(t, s) {
		if at == node {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) > 0 {
		return addresses
	}
	// Neither address is there. Further Services have others.
	for i := range 4 {
		more := balanced(fmt.Sprint("lb-more-", i), corev1.ServiceExternalTrafficPolicyCluster)
		bed.create(t, more)
		for a, at := range b.addressed(t, more) {
			if at == node {
				addresses = append(addresses, a)
			}
		}
		if len(addresses) > 0 {
			return addresses
		}
	}
	t.Fatalf("node %s has no address", node)
	return nil
}

// awaitSpeaker waits until a node answers for an address by the pool's status, and returns the milliseconds since a time.
func (b balancing) awaitSpeaker(t *testing.T, a netip.Addr, node string, since time.Time) int64 {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(b.pool), b.pool); err != nil {
			return err
		}
		want := networkv1alpha1.LoadBalancerAnnouncement{Address: networkv1alpha1.IP(a.String()), Node: node}
		if !slices.Contains(b.pool.Status.Announcements, want) {
			return fmt.Errorf("%s is not at %s: %+v", a, node, b.pool.Status.Announcements)
		}
		return nil
	})
	return time.Since(since).Milliseconds()
}

// answered makes a call from outside.
func (b balancing) answered(ctx context.Context, a netip.Addr) error {
	all, err := bed.hostCaller(lab.Outside().Name).call(ctx, "tcp", netip.AddrPortFrom(a, 80), 1)
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].Error != "" {
		return fmt.Errorf("%s: %+v", a, all)
	}
	return nil
}

// cordon returns a function that makes a node unschedulable, or schedulable again.
func (b *testbed) cordon(node string, yes bool) func(context.Context) error {
	return func(ctx context.Context) error {
		return b.api.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)))
	}
}

// link returns a function that sets the state of a node's link.
func (b *testbed) link(node, state string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.Exec(ctx, node, "ip", "link", "set", "eth0", state)
		return err
	}
}

// testFollows lets a Service with externalTrafficPolicy Local lose its endpoint on one node, and then on the other.
func (b balancing) testFollows(t *testing.T, s *corev1.Service) {
	bed.relabel(t, b.pods["n1"], "app", "other")
	for a := range b.addressed(t, s) {
		b.awaitSpeaker(t, a, "n2", time.Now())
		b.answeredBy(t, a, "n2")
	}
	bed.relabel(t, b.pods["n2"], "app", "other")
	must(t, poll.Slowly(t.Context(), recoveryTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(b.pool), b.pool); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.pool.Status.Conditions, networkv1alpha1.ConditionAnnounced)
		if c == nil || c.Reason != networkv1alpha1.ReasonNoLocalEndpoints || !strings.Contains(c.Message, "no ready endpoint is on n1, n2") {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	}))
	for _, pod := range b.pods {
		bed.relabel(t, pod, "app", "lb")
	}
	for a, node := range b.addressed(t, s) {
		b.answeredBy(t, a, node)
	}
}

// testReleased changes the type of a Service: nobody answers for its addresses any more, and another Service can request
// them.
func (b balancing) testReleased(t *testing.T, s *corev1.Service) {
	former := b.addressed(t, s)
	var texts []string
	for a := range former {
		texts = append(texts, a.String())
	}
	slices.Sort(texts)
	must(t, bed.api.Patch(t.Context(), s, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"type":"ClusterIP","loadBalancerClass":null,"externalTrafficPolicy":null}}`))))
	for a := range former {
		eventually(t, recoveryTimeout, func() error {
			if macs, err := b.answering(t.Context(), a, 1); err != nil || len(macs) > 0 {
				return fmt.Errorf("%s is still answered for by %v: %w", a, macs, err)
			}
			return nil
		})
	}
	next := balanced("lb-next", corev1.ServiceExternalTrafficPolicyCluster)
	next.Annotations = map[string]string{"metallb.io/loadBalancerIPs": strings.Join(texts, ",")}
	bed.create(t, next)
	have := b.addressed(t, next)
	for a := range former {
		if have[a] == "" {
			t.Errorf("the next Service has %v, want %v", have, texts)
		}
		eventually(t, recoveryTimeout, func() error { return b.answered(t.Context(), a) })
	}
}
