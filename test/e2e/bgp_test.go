//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

const nodesASN, routersASN = 64513, 64512

// birdRouter is BIRD on the lab's router, which routes by what it learns.
type birdRouter struct {
	socket  string
	tools   tools.Cache
	process *os.Process // which waits for BIRD
}

// startBIRD starts BIRD with a session for each node.
func startBIRD(t *testing.T) birdRouter {
	t.Helper()
	config := ""
	for _, family := range []string{"ipv4", "ipv6"} {
		config += fmt.Sprintf("protocol kernel { merge paths on; %s { import none; export where source = RTS_BGP; }; }\n", family)
	}
	nodes, err := bed.Nodes()
	must(t, err)
	for _, n := range nodes {
		config += fmt.Sprintf("protocol bgp %s {\n local as %d;\n neighbor %s as %d;\n passive on;\n graceful restart on;\n"+
			" ipv4 { import all; export none; };\n ipv6 { import all; export none; };\n}\n", n.Name, routersASN, n.IPv4.Addr(), nodesASN)
	}
	return runBIRD(t, config)
}

// runBIRD runs BIRD on the lab's router until the test ends.
func runBIRD(t *testing.T, config string) birdRouter {
	t.Helper()
	cache, err := tools.DefaultCache()
	must(t, err)
	dir := t.TempDir()
	r := birdRouter{socket: filepath.Join(dir, "bird.ctl"), tools: cache}
	file, log := filepath.Join(dir, "bird.conf"), filepath.Join(dir, "bird.log")
	config = fmt.Sprintf("log \"%s\" all;\ndebug protocols { states, events };\nrouter id %s;\nprotocol device {}\n%s",
		log, lab.Router().IPv4.Addr(), config)
	must(t, os.WriteFile(file, []byte(config), 0o600))
	cmd, err := bed.Command(cleanup(), lab.Router().Name, cache.BIRD("bird"), "-f", "-c", file, "-s", r.socket)
	must(t, err)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	must(t, cmd.Start())
	r.process = cmd.Process
	t.Cleanup(func() {
		if _, err := r.ask(cleanup(), "down"); err != nil { // removes the routes
			t.Error(err)
		}
		_ = cmd.Wait() // it ends by the command
		if t.Failed() {
			text, err := os.ReadFile(log)
			t.Logf("BIRD's log: %v\n%s", err, text)
		}
	})
	return r
}

func (r birdRouter) ask(ctx context.Context, words ...string) (string, error) {
	cmd, err := bed.Command(ctx, lab.Router().Name, append([]string{r.tools.BIRD("birdc"), "-s", r.socket}, words...)...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sessionOf returns BIRD's line about the session with a node.
func (r birdRouter) sessionOf(ctx context.Context, node string) (string, error) {
	text, err := r.ask(ctx, "show", "protocols", node)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, node+" ") {
			return strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("no session %s in %q", node, text)
}

// announcing returns the nodes that announce an address, sorted.
func (r birdRouter) announcing(ctx context.Context, a netip.Addr) (nodes []string, err error) {
	text, err := r.ask(ctx, "show", "route", netip.PrefixFrom(a, a.BitLen()).String())
	if err != nil && strings.Contains(text, "Network not found") { // birdc fails if nothing is found
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if _, after, ok := strings.Cut(line, "unicast ["); ok {
			nodes = append(nodes, strings.Fields(after)[0])
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}

// await waits until exactly these nodes announce every address.
func (r birdRouter) await(t *testing.T, addresses []netip.Addr, want ...string) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		for _, a := range addresses {
			if have, err := r.announcing(t.Context(), a); err != nil || !slices.Equal(have, want) {
				return fmt.Errorf("%s is announced by %v, want %v: %w", a, have, want, err)
			}
		}
		return nil
	})
}

// routed waits until a Service has an address of each family.
func routed(t *testing.T, s *corev1.Service) (addresses []netip.Addr) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		addresses = nil
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			addresses = append(addresses, netip.MustParseAddr(ingress.IP))
		}
		if len(addresses) != 2 {
			return fmt.Errorf("service %s has %+v", s.Name, s.Status)
		}
		return nil
	})
	return addresses
}

// TestBGP announces addresses outside of the nodes' network to a router. Clients behind it reach Services, the routes
// follow endpoints and cordoned nodes, and they stay while an agent restarts.
func TestBGP(t *testing.T) {
	r := startBIRD(t)
	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "e2e-bgp"}}
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"198.18.0.0/28", "2001:db8:300::/124"}
	pool.Spec.AnnounceOnSegment = new(false)
	peer := &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}, Spec: networkv1alpha1.BGPPeerSpec{
		PeerAddress: networkv1alpha1.EgressAddress(lab.Router().IPv4.Addr().String()), PeerASN: routersASN, MyASN: nodesASN}}
	advertisement := &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}, Spec: networkv1alpha1.BGPAdvertisementSpec{
		LoadBalancers: &networkv1alpha1.BGPLoadBalancers{Pools: []string{pool.Name}}}}
	bed.create(t, pool, peer, advertisement)
	b := balancing{pool: pool, pods: map[string]*corev1.Pod{}}
	for _, node := range []string{"n1", "n2"} {
		b.pods[node] = labelled(bed.peerPod("bgp-"+node, node), "lb")
	}
	bed.run(t, b.pods["n1"], b.pods["n2"])
	cluster := balanced("bgp-cluster", corev1.ServiceExternalTrafficPolicyCluster)
	local := balanced("bgp-local", corev1.ServiceExternalTrafficPolicyLocal)
	bed.create(t, cluster, local)
	everywhere, near := routed(t, cluster), routed(t, local)
	r.await(t, everywhere, "n1", "n2")
	r.await(t, near, "n1", "n2")
	b.reached(t, slices.Concat(everywhere, near))
	t.Run("endpoints", func(t *testing.T) {
		bed.relabel(t, b.pods["n1"], "app", "other")
		r.await(t, near, "n2")
		b.reached(t, slices.Concat(everywhere, near))
		bed.relabel(t, b.pods["n1"], "app", "lb")
		r.await(t, near, "n1", "n2")
	})
	t.Run("cordon", func(t *testing.T) {
		must(t, bed.cordon("n1", true)(t.Context()))
		defer func() { must(t, bed.cordon("n1", false)(cleanup())) }()
		r.await(t, everywhere, "n2")
		b.reached(t, everywhere)
	})
	r.await(t, everywhere, "n1", "n2")
	t.Run("agent killed", func(t *testing.T) { r.testKilled(t, b, slices.Concat(everywhere, near)) })
	t.Run("withdrawn", func(t *testing.T) {
		must(t, bed.api.Delete(t.Context(), advertisement))
		r.await(t, slices.Concat(everywhere, near))
	})
}

// reached waits until clients behind the router reach the addresses.
func (b balancing) reached(t *testing.T, addresses []netip.Addr) {
	t.Helper()
	for _, a := range addresses {
		eventually(t, recoveryTimeout, func() error { return b.answered(t.Context(), a) })
	}
}

// testKilled kills an agent. Until the next one has its session, every route and every connection must work.
func (r birdRouter) testKilled(t *testing.T, b balancing, addresses []netip.Addr) {
	before, err := r.sessionOf(t.Context(), "n1")
	must(t, err)
	signalProgram(t, "n1", syscall.SIGKILL, "weft-agent", "")
	eventually(t, recoveryTimeout, func() error {
		for _, a := range addresses {
			have, err := r.announcing(t.Context(), a)
			must(t, errors.Join(err, b.answered(t.Context(), a)))
			if !slices.Equal(have, []string{"n1", "n2"}) {
				t.Fatalf("%s is announced by %v while the agent of n1 restarts", a, have)
			}
		}
		now, err := r.sessionOf(t.Context(), "n1")
		if err != nil || now == before || !strings.Contains(now, "Established") {
			return fmt.Errorf("the session of n1 is %q, before %q: %w", now, before, err)
		}
		return nil
	})
}
