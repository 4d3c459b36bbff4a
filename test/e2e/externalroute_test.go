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
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/lab/tools"
)

// routedCell is one outcome of the ExternalRoute test.
type routedCell struct {
	What   string `json:"what"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Seen   string `json:"seen,omitempty"`
	Router string `json:"router,omitempty"`
	Gap    string `json:"gap,omitempty"`
}

// sideRouter is a router of pods: a link of the lab's router, with a MAC and addresses of its own on the nodes' segment.
type sideRouter struct {
	link   string
	v4, v6 netip.Addr
}

var sideRouters = []sideRouter{
	{"gw1", netip.MustParseAddr("172.30.0.201"), netip.MustParseAddr("fd00:172:30::201")},
	{"gw2", netip.MustParseAddr("172.30.0.202"), netip.MustParseAddr("fd00:172:30::202")},
}

func (s sideRouter) start(t *testing.T) {
	t.Helper()
	on := lab.Router().Name
	bed.mustExec(t, on, "ip", "link", "add", s.link, "link", "eth0", "type", "macvlan", "mode", "bridge")
	t.Cleanup(func() {
		if _, err := bed.Exec(cleanup(), on, "ip", "link", "del", s.link); err != nil {
			t.Error(err)
		}
	})
	for _, key := range []string{"ipv4.conf.all.rp_filter", "ipv4.conf." + s.link + ".rp_filter"} {
		bed.mustExec(t, on, "sysctl", "-qw", "net."+key+"=0")
	}
	bed.mustExec(t, on, "sysctl", "-qw", "net.ipv4.conf."+s.link+".arp_ignore=1")
	bed.mustExec(t, on, "ip", "addr", "add", s.v4.String()+"/24", "dev", s.link, "metric", "2000")
	bed.mustExec(t, on, "ip", "addr", "add", s.v6.String()+"/64", "dev", s.link, "nodad", "metric", "2000")
	bed.mustExec(t, on, "ip", "link", "set", s.link, "up")
}

// leads routes the pods of a node through this router.
func (s sideRouter) leads(t *testing.T, node lab.Machine, pods ...netip.Addr) {
	t.Helper()
	for _, pod := range pods {
		via := node.IPv4.Addr()
		if pod.Is6() {
			via = node.IPv6.Addr()
		}
		bed.mustExec(t, lab.Router().Name, "ip", "route", "replace", pod.String(), "via", via.String(), "dev", s.link)
	}
}

// received returns the number of packets that arrived at the router.
func (s sideRouter) received(t *testing.T) int {
	t.Helper()
	text := bed.mustExec(t, lab.Router().Name, "cat", "/sys/class/net/"+s.link+"/statistics/rx_packets")
	n, err := strconv.Atoi(strings.TrimSpace(text))
	must(t, err)
	return n
}

// externalRouting is the fixture of the test.
type externalRouting struct {
	route     *networkv1alpha1.ExternalRoute
	near, far *corev1.Pod // selected, on n1 and on n2
	plain     *corev1.Pod // not selected, on n1
	cells     []routedCell
	nodes     []lab.Machine
	outside   []netip.Addr
}

// TestExternalRoute lets selected pods leave by two routers. Hosts outside see the pods' addresses, connections are spread over both
// routers, and the replies on a connection from outside return to the router that it came from. Packets to nodes, pods and services
// do not go there. A router that does not answer by BFD gets no packets.
func TestExternalRoute(t *testing.T) {
	nodes, err := bed.Nodes()
	must(t, err)
	r := &externalRouting{nodes: nodes, outside: both(lab.Outside()),
		near: labelled(bed.peerPod("er-near", "n1"), "er"), far: labelled(bed.peerPod("er-far", "n2"), "er"),
		plain: bed.peerPod("er-plain", "n1")}
	t.Cleanup(func() { writeCells(t, "externalroute.json", r.cells) })
	bed.run(t, r.near, r.far, r.plain)
	bed.serveOn(t, lab.Outside().Name, "n2")
	for _, s := range sideRouters {
		s.start(t)
	}
	sideRouters[0].leads(t, nodes[0], addressesOf(r.near)...)
	sideRouters[1].leads(t, nodes[1], addressesOf(r.far)...)
	r.route = &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}}
	r.route.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "er"}}
	r.watch(false)
	bed.create(t, r.route)
	r.ready(t, metav1.ConditionTrue, "routers in use: 4")

	t.Run("the pods' addresses arrive outside", func(t *testing.T) {
		for _, p := range []*corev1.Pod{r.near, r.far} {
			r.sees(t, p, r.outside, addressesOf(p))
		}
		r.sees(t, r.plain, r.outside, both(nodes[0]))
	})
	t.Run("nodes, pods and services as ever", func(t *testing.T) {
		r.sees(t, r.near, both(nodes[1]), addressesOf(r.near))
		r.sees(t, r.plain, both(nodes[1]), both(nodes[0]))
		bed.mustReach(t, r.near, r.far, r.plain)
	})
	t.Run("connections are spread", func(t *testing.T) { r.testSpread(t) })
	t.Run("replies return to the router that asked", func(t *testing.T) { r.testReplies(t) })
	t.Run("clients of a node port", func(t *testing.T) { r.testNodePort(t) })
	t.Run("a pod that starts later", func(t *testing.T) {
		late := labelled(bed.peerPod("er-late", "n2"), "er")
		bed.run(t, late)
		sideRouters[0].leads(t, nodes[1], addressesOf(late)...)
		r.sees(t, late, r.outside, addressesOf(late))
		bed.removeNow(t, late)
	})
	t.Run("BFD", func(t *testing.T) { r.testBFD(t) })
	t.Run("no router", func(t *testing.T) {
		must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(r.route), r.route))
		r.route.Spec.NextHops = networkv1alpha1.ExternalNextHops{Pods: []networkv1alpha1.PodNextHops{
			{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "er-router"}}}}}
		must(t, bed.api.Update(t.Context(), r.route))
		r.ready(t, metav1.ConditionFalse, "no running pod is a router")
		r.sees(t, r.near, r.outside, both(nodes[0]))
	})
	bed.remove(t, r.route)
	r.sees(t, r.near, r.outside, both(nodes[0]))
	bed.awaitConsistent(t)
}

// watch makes the spec have the routers of the test.
func (r *externalRouting) watch(bfd bool) {
	r.route.Spec.NextHops = networkv1alpha1.ExternalNextHops{}
	for _, s := range sideRouters {
		for _, a := range []netip.Addr{s.v4, s.v6} {
			r.route.Spec.NextHops.Static = append(r.route.Spec.NextHops.Static,
				networkv1alpha1.StaticNextHop{Address: networkv1alpha1.EgressAddress(a.String()), BFD: bfd})
		}
	}
}

func (r *externalRouting) ready(t *testing.T, status metav1.ConditionStatus, message string) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(r.route), r.route); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.route.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != r.route.Generation || c.Status != status || !strings.Contains(c.Message, message) {
			return fmt.Errorf("conditions are %+v, want %s with %q", r.route.Status.Conditions, status, message)
		}
		return nil
	})
}

// sees waits until servers see a pod at one of these addresses.
func (r *externalRouting) sees(t *testing.T, from *corev1.Pod, at, want []netip.Addr) {
	t.Helper()
	for _, server := range at {
		cell := routedCell{What: "source", From: from.Name, To: server.String()}
		eventually(t, recoveryTimeout, func() error {
			seen, err := sourceOf(t.Context(), from, server)
			if cell.Seen = seen.String(); err == nil && !slices.Contains(want, seen) {
				err = fmt.Errorf("%s sees %s at %s, want %v", server, from.Name, seen, want)
			}
			return err
		})
		r.cells = append(r.cells, cell)
	}
}

// sourceOf returns the address at which a server sees a pod.
func sourceOf(ctx context.Context, from *corev1.Pod, to netip.Addr) (netip.Addr, error) {
	answers, err := bed.podCaller(from).call(ctx, "tcp", netip.AddrPortFrom(to, whoPort), 1)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(answers) != 1 || answers[0].Error != "" {
		return netip.Addr{}, fmt.Errorf("%s calls %s: %+v", from.Name, to, answers)
	}
	client, err := netip.ParseAddrPort(answers[0].Client)
	return client.Addr(), err
}

// testSpread makes connections. Both routers must have had several.
func (r *externalRouting) testSpread(t *testing.T) {
	const count = 60
	for _, a := range r.outside {
		before := []int{sideRouters[0].received(t), sideRouters[1].received(t)}
		answers, err := bed.podCaller(r.near).call(t.Context(), "tcp", netip.AddrPortFrom(a, whoPort), count)
		must(t, err)
		if len(answers) != count || slices.ContainsFunc(answers, func(c called) bool { return c.Error != "" }) {
			t.Errorf("connections to %s were answered %+v", a, answers)
		}
		for i, s := range sideRouters {
			got := s.received(t) - before[i]
			r.cells = append(r.cells, routedCell{What: fmt.Sprintf("%d connections", count), To: a.String(), Router: s.link,
				Seen: fmt.Sprintf("%d packets", got)})
			// The second router gets the first packet of its connections. What follows goes to the first one, from which the answers come.
			if got < count/5 {
				t.Errorf("router %s got %d packets of %d connections to %s", s.link, got, count, a)
			}
		}
	}
}

// testReplies calls pods from outside by each router in turn. The other router gets none of the packets.
func (r *externalRouting) testReplies(t *testing.T) {
	for i, s := range sideRouters {
		other := sideRouters[1-i]
		s.leads(t, r.nodes[0], addressesOf(r.near)...)
		for _, pod := range addressesOf(r.near) {
			const count = 20
			before, otherBefore := s.received(t), other.received(t)
			answers, err := bed.hostCaller(lab.Outside().Name).call(t.Context(), "tcp", netip.AddrPortFrom(pod, whoPort), count)
			if err != nil || slices.ContainsFunc(answers, func(c called) bool { return c.Error != "" }) {
				t.Errorf("calls from outside to %s: %+v, %v", pod, answers, err)
			}
			got, strays := s.received(t)-before, other.received(t)-otherBefore
			if got < 3*count || strays > count { // neighbour discovery and BFD are few
				t.Errorf("of %d connections to %s by router %s it got %d packets, and router %s %d", count, pod, s.link, got, other.link, strays)
			}
			r.cells = append(r.cells, routedCell{What: "replies", To: pod.String(), Router: s.link,
				Seen: fmt.Sprintf("%d packets, the other router %d", got, strays)})
		}
	}
	sideRouters[0].leads(t, r.nodes[0], addressesOf(r.near)...)
}

// testNodePort calls a selected pod by a node port of its node. The answers go where the client's packets came from.
func (r *externalRouting) testNodePort(t *testing.T) {
	s := service("er-port", "er", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	bed.create(t, s)
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(s), s))
	for _, a := range both(r.nodes[0]) {
		const count = 20
		to := netip.AddrPortFrom(a, uint16(s.Spec.Ports[0].NodePort))
		eventually(t, recoveryTimeout, func() error {
			before := sideRouters[0].received(t) + sideRouters[1].received(t)
			answers, err := bed.hostCaller(lab.Outside().Name).call(t.Context(), "tcp", to, count)
			if err != nil || slices.ContainsFunc(answers, func(c called) bool { return c.Error != "" }) {
				return fmt.Errorf("calls from outside to %s: %+v, %w", to, answers, err)
			}
			got := sideRouters[0].received(t) + sideRouters[1].received(t) - before
			r.cells = append(r.cells, routedCell{What: "node port", To: to.String(), Seen: fmt.Sprintf("%d packets at the routers", got)})
			if got > count {
				return fmt.Errorf("of %d connections to %s the routers got %d packets", count, to, got)
			}
			return nil
		})
	}
	bed.remove(t, s)
}

// testBFD watches the routers with BIRD's BFD, and silences one of them.
func (r *externalRouting) testBFD(t *testing.T) {
	bird := r.startBFD(t)
	must(t, bed.api.Get(t.Context(), client.ObjectKeyFromObject(r.route), r.route))
	r.watch(true)
	must(t, bed.api.Update(t.Context(), r.route))
	r.ready(t, metav1.ConditionTrue, "routers in use: 4")
	r.sessions(t, "up", 8)
	r.sees(t, r.near, r.outside, addressesOf(r.near))

	sideRouters[1].leads(t, r.nodes[0], addressesOf(r.near)...) // answers of the silent router would keep connections there
	bird.answerFor(t, r.nodes, sideRouters[1])
	silent := time.Now()
	r.sessions(t, "down", 4)
	for _, a := range r.outside {
		eventually(t, recoveryTimeout, func() error {
			const count = 60
			before := sideRouters[0].received(t)
			answers, err := bed.podCaller(r.near).call(t.Context(), "tcp", netip.AddrPortFrom(a, whoPort), count)
			if err != nil || slices.ContainsFunc(answers, func(c called) bool { return c.Error != "" }) {
				return fmt.Errorf("after the loss of a router: %+v, %w", answers, err)
			}
			if got := sideRouters[0].received(t) - before; got > count/2 { // BFD's own
				return fmt.Errorf("the silent router got %d packets of %d connections", got, count)
			}
			return nil
		})
		r.cells = append(r.cells, routedCell{What: "no packets to a silent router", To: a.String(), Router: "gw1",
			Gap: time.Since(silent).Round(time.Millisecond).String()})
	}
	for _, a := range []netip.Addr{sideRouters[0].v4, sideRouters[0].v6} {
		r.ready(t, metav1.ConditionFalse, fmt.Sprintf("next hop %s is down: it answers no BFD of n1, n2", a))
	}
	r.ready(t, metav1.ConditionFalse, "routers in use: 2 of 4")
	bird.answerFor(t, r.nodes, sideRouters...)
	r.sessions(t, "up", 8)
	r.ready(t, metav1.ConditionTrue, "routers in use: 4")
	sideRouters[0].leads(t, r.nodes[0], addressesOf(r.near)...)
	r.testSpread(t)
}

// bfdPeer is BIRD on the lab's router, which answers BFD for the routers.
type bfdPeer struct {
	birdRouter
	file string
}

func (r *externalRouting) startBFD(t *testing.T) bfdPeer {
	t.Helper()
	cache, err := tools.DefaultCache()
	must(t, err)
	dir := t.TempDir()
	p := bfdPeer{birdRouter{socket: filepath.Join(dir, "bird.ctl"), tools: cache}, filepath.Join(dir, "bird.conf")}
	p.write(t, r.nodes, sideRouters)
	cmd, err := bed.Command(cleanup(), lab.Router().Name, cache.BIRD("bird"), "-f", "-c", p.file, "-s", p.socket)
	must(t, err)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		if _, err := p.ask(cleanup(), "down"); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it ends by the command
	})
	return p
}

// answerFor makes BIRD answer for these routers only.
func (p bfdPeer) answerFor(t *testing.T, nodes []lab.Machine, routers ...sideRouter) {
	t.Helper()
	p.write(t, nodes, routers)
	if out, err := p.ask(t.Context(), "configure"); err != nil || !strings.Contains(out, "Reconfig") {
		t.Fatalf("birdc configure: %v: %s", err, out)
	}
}

func (p bfdPeer) write(t *testing.T, nodes []lab.Machine, routers []sideRouter) {
	t.Helper()
	config := "router id " + lab.Router().IPv4.Addr().String() + ";\nprotocol device {}\n" +
		"protocol bfd {\n accept direct;\n interface \"gw*\" { interval 500 ms; multiplier 3; };\n"
	for _, s := range routers {
		for _, n := range nodes {
			config += fmt.Sprintf(" neighbor %s dev \"%s\" local %s;\n neighbor %s dev \"%s\" local %s;\n",
				n.IPv4.Addr(), s.link, s.v4, n.IPv6.Addr(), s.link, s.v6)
		}
	}
	must(t, os.WriteFile(p.file, []byte(config+"}\n"), 0o600))
}

// sessions waits until so many BFD sessions of the nodes, in the databases of all zones, have a status.
func (r *externalRouting) sessions(t *testing.T, status string, want int) {
	t.Helper()
	eventually(t, recoveryTimeout, func() error {
		machines, err := bed.databaseMachines(t.Context())
		if err != nil {
			return err
		}
		var rows []row
		for _, machine := range machines {
			of, err := bed.rows(t.Context(), machine, "ovn-nbctl", "BFD", "dst_ip,status")
			if err != nil {
				return err
			}
			rows = append(rows, of...)
		}
		n := 0
		for _, row := range rows {
			if fmt.Sprint(row["status"]) == status {
				n++
			}
		}
		if n != want {
			return errors.Join(fmt.Errorf("%d sessions are %s, want %d: %v", n, status, want, rows))
		}
		return nil
	})
}
