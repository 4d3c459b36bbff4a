//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
)

// watchedRouter is BIRD with BFD, and a BGPPeer for each of its families.
type watchedRouter struct {
	birdRouter
	nodes []lab.Machine
	peers []*networkv1alpha1.BGPPeer
}

// birdProcess is BIRD's loader, which runs it with its own C library.
const birdProcess = "ld-linux-x86-64.so.2"

// startWatched starts BIRD with two sessions for each node: NODE4 and NODE6.
func startWatched(t *testing.T) watchedRouter {
	t.Helper()
	nodes, err := bed.Nodes()
	must(t, err)
	config := "protocol bfd { interface \"*\" { interval 300 ms; multiplier 3; }; }\n"
	session := func(name string, node netip.Addr) {
		config += fmt.Sprintf("protocol bgp %s {\n local as %d;\n neighbor %s as %d;\n passive on;\n error wait time 1, 1;\n"+
			" graceful restart on;\n bfd on;\n"+
			" ipv4 { import all; export none; };\n ipv6 { import all; export none; };\n}\n", name, routersASN, node, nodesASN)
	}
	for _, n := range nodes {
		session(n.Name+"4", n.IPv4.Addr())
		session(n.Name+"6", n.IPv6.Addr())
	}
	r := watchedRouter{birdRouter: runBIRD(t, config), nodes: nodes}
	for name, a := range map[string]netip.Addr{"e2e4": lab.Router().IPv4.Addr(), "e2e6": lab.Router().IPv6.Addr()} {
		r.peers = append(r.peers, &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkv1alpha1.BGPPeerSpec{
			PeerAddress: networkv1alpha1.EgressAddress(a.String()), PeerASN: routersASN, MyASN: nodesASN, BFD: &networkv1alpha1.BGPPeerBFD{}}})
	}
	return r
}

// bfdSessions returns the state of each BFD session of BIRD by the node's address.
func (r watchedRouter) bfdSessions(t *testing.T) map[netip.Addr]string {
	t.Helper()
	text, err := r.ask(t.Context(), "show", "bfd", "sessions")
	must(t, err)
	found := map[netip.Addr]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 2 {
			if a, err := netip.ParseAddr(words[0]); err == nil {
				found[a] = words[2]
			}
		}
	}
	return found
}

// awaitBFD waits until BIRD's sessions with the addresses of all nodes are up, but those with down.
func (r watchedRouter) awaitBFD(t *testing.T, down string) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		have := r.bfdSessions(t)
		for _, n := range r.nodes {
			for _, a := range []netip.Addr{n.IPv4.Addr(), n.IPv6.Addr()} {
				if up := have[a] == "Up"; up == (n.Name == down) {
					return fmt.Errorf("BFD of %s must be up: %t: %v", n.Name, n.Name != down, have)
				}
			}
		}
		return nil
	})
}

// reported waits until the BGPPeers report BFD on so many nodes.
func (r watchedRouter) reported(t *testing.T, up int) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		var errs []error
		for _, p := range r.peers {
			must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(p), p))
			is := meta.IsStatusConditionTrue(p.Status.Conditions, networkv1alpha1.ConditionBFDUp)
			if p.Status.BFDUp == nil || int(*p.Status.BFDUp) != up || is != (up == len(r.nodes)) {
				errs = append(errs, fmt.Errorf("BGPPeer %s: %+v, want BFD on %d nodes", p.Name, p.Status, up))
			}
		}
		return errors.Join(errs...)
	})
}

// TestBGPWithBFD shows that a router notices a silent node by BFD, long before the hold time of 90 s, that the end of an agent is
// no silence, and that a node notices a silent router. The nodes' bridges let BFD of both families pass.
func TestBGPWithBFD(t *testing.T) {
	r := startWatched(t)
	t.Cleanup(func() {
		if t.Failed() {
			text, err := bed.Kubectl(cleanup(), "-n", "weft-system", "logs", "daemonset/weft-agent", "--all-pods", "--prefix", "--timestamps",
				"--tail=200")
			t.Logf("the agents' logs: %v\n%s", err, text)
		}
	})
	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "e2e-bfd"}}
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"198.18.1.0/28", "2001:db8:301::/124"}
	pool.Spec.AnnounceOnSegment = new(false)
	bed.create(t, pool, r.peers[0], r.peers[1], &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: "e2e-bfd"},
		Spec: networkv1alpha1.BGPAdvertisementSpec{LoadBalancers: &networkv1alpha1.BGPLoadBalancers{Pools: []string{pool.Name}}}})
	bed.run(t, labelled(bed.peerPod("bfd-n2", "n2"), "lb"))
	s := balanced("bfd", corev1.ServiceExternalTrafficPolicyCluster)
	bed.create(t, s)
	addresses := routed(t, s)
	everywhere := []string{"n14", "n16", "n24", "n26"}
	r.await(t, addresses, everywhere...)
	r.awaitBFD(t, "")
	r.reported(t, len(r.nodes))
	t.Run("agent ended", func(t *testing.T) { r.testEnded(t, addresses) })
	r.await(t, addresses, everywhere...)
	r.awaitBFD(t, "")
	t.Run("silent node", func(t *testing.T) {
		signalProgram(t, "n1", syscall.SIGSTOP, "weft-agent", "")
		t.Cleanup(func() { signalProgram(t, "n1", syscall.SIGCONT, "weft-agent", "") })
		r.awaitBFD(t, "n1")
		r.await(t, addresses, "n24", "n26")
	})
	r.await(t, addresses, everywhere...)
	r.awaitBFD(t, "")
	t.Run("silent router", func(t *testing.T) {
		signalProgram(t, lab.Router().Name, syscall.SIGSTOP, birdProcess, r.socket)
		t.Cleanup(func() {
			signalProgram(t, lab.Router().Name, syscall.SIGCONT, birdProcess, r.socket)
			must(t, r.process.Signal(syscall.SIGCONT)) // nsenter stops itself when its child stops
		})
		r.reported(t, 0)
		for _, n := range r.nodes {
			r.blames(t, n.Name)
		}
	})
	r.await(t, addresses, everywhere...)
	r.reported(t, len(r.nodes))
}

// blames waits until a node has closed its sessions and says that BFD is why.
func (r watchedRouter) blames(t *testing.T, node string) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: node}}
		must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(nn), nn))
		c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionRoutesAnnounced)
		if c == nil || c.Reason != networkv1alpha1.ReasonSessionsDown || !strings.Contains(c.Message, "BFD down: no packet of the router") {
			return fmt.Errorf("node %s: %+v, sessions %+v", node, c, nn.Status.BGP)
		}
		return nil
	})
}

// testEnded ends an agent as an upgrade does. The router must keep the routes of each session until the next agent has
// established it. What the next agent announces depends on whether its node is ready.
func (r watchedRouter) testEnded(t *testing.T, addresses []netip.Addr) {
	before := map[string]string{}
	for _, session := range []string{"n14", "n16"} {
		line, err := r.sessionOf(t.Context(), session)
		must(t, err)
		before[session] = line
	}
	signalProgram(t, "n1", syscall.SIGTERM, "weft-agent", "")
	eventually(t, recoveryTimeout, func() error {
		var errs []error
		for session, was := range before {
			kept := r.keeps(t, session, addresses)
			now, err := r.sessionOf(t.Context(), session)
			must(t, err)
			if now != was && strings.Contains(now, "Established") {
				continue
			}
			if !kept {
				t.Fatalf("the router forgot the routes of %s while the agent restarts", session)
			}
			errs = append(errs, fmt.Errorf("the session %q, before %q", now, was))
		}
		return errors.Join(errs...)
	})
}

// keeps reports whether the router has the routes of a session to all addresses.
func (r watchedRouter) keeps(t *testing.T, session string, addresses []netip.Addr) bool {
	t.Helper()
	for _, a := range addresses {
		have, err := r.announcing(t.Context(), a)
		must(t, err)
		if !slices.Contains(have, session) {
			return false
		}
	}
	return true
}
