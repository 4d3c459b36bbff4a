package bgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/bfd"
	"github.com/weft-network/weft/test/poll"
)

// birdBFD runs BFD on all links.
const birdBFD = "protocol bfd { interface \"*\" { interval 100 ms; multiplier 3; }; multihop { interval 100 ms; multiplier 3; }; }\n"

var aRoute = networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.1/32"}

// withBFD returns a peer with BFD and a hold time that no test waits for.
func withBFD(name, address string, asn int64) networkv1alpha1.NodeBGPPeer {
	p := peer(name, address, asn)
	p.HoldTimeSeconds, p.KeepaliveTimeSeconds = 3600, 1200
	p.BFD = &networkv1alpha1.NodeBFD{TransmitIntervalMilliseconds: 100, ReceiveIntervalMilliseconds: 100, DetectMultiplier: 3}
	return p
}

// bfdSessions returns the states of BIRD's BFD sessions by the node's address.
func (r *router) bfdSessions() map[string]string {
	text, err := r.ask("show", "bfd", "sessions")
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 2 {
			if a, err := netip.ParseAddr(words[0]); err == nil {
				found[a.String()] = words[2]
			}
		}
	}
	return found
}

// awaitBFD waits until BIRD's session with a node's address has a state. "" is no session.
func (r *router) awaitBFD(address, state string) {
	r.t.Helper()
	poll.Eventually(r.t, patience, func() error {
		if have := r.bfdSessions(); have[address] != state {
			return fmt.Errorf("BFD with %s must be %q: %v", address, state, have)
		}
		return nil
	})
}

func isWatched(s networkv1alpha1.NodeBGPSession) bool {
	return isEstablished(s) && s.BFD != nil && s.BFD.State == networkv1alpha1.BFDUp && s.BFD.Message == ""
}

// BFD comes up beside sessions of both families, on the link and over several hops.
func TestBFDWithARouter(t *testing.T) {
	far := strings.ReplaceAll(birdSession("six", router6, node6, nodeASN, "multihop; bfd on;"), "gateway direct", "gateway recursive")
	r := newRouter(t, birdBFD+birdSession("four", router4, node4, routerASN, "bfd on;")+far)
	s := newSpeaker(t, "")
	six := withBFD("six", router6, nodeASN)
	six.BFD.MultiHop = true
	spec := specOf([]networkv1alpha1.NodeBGPPeer{withBFD("four", router4, routerASN), six}, aRoute)
	apply := func() {
		t.Helper()
		if err := s.Apply(spec, nil); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	awaitState(t, s, "four", isWatched)
	awaitState(t, s, "six", isWatched)
	r.awaitBFD(node4, "Up")
	r.awaitBFD(node6, "Up")
	before := r.session("four")

	spec.Peers[0].BFD.TransmitIntervalMilliseconds, spec.Peers[0].BFD.ReceiveIntervalMilliseconds = 200, 400
	apply()
	poll.Eventually(t, patience, func() error { // "192.0.2.10 eth0 Up SINCE INTERVAL TIMEOUT"
		text, _ := r.ask("show", "bfd", "sessions")
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			if len(words) == 6 && words[0] == node4 && words[2] == "Up" && words[4] == "0.400" && words[5] == "0.600" {
				return nil
			}
		}
		return fmt.Errorf("the new intervals are not in effect:\n%s", text)
	})
	spec.Peers[0].BFD = nil
	apply()
	r.awaitBFD(node4, "Down")
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool { return isEstablished(x) && x.BFD == nil })
	if after := r.session("four"); after != before {
		t.Errorf("changes of BFD ended the session: %q, before %q", after, before)
	}
	spec.Peers[0].BFD = &networkv1alpha1.NodeBFD{TransmitIntervalMilliseconds: 100, ReceiveIntervalMilliseconds: 100, DetectMultiplier: 3}
	apply()
	awaitState(t, s, "four", isWatched)
}

// A router that falls silent is noticed long before the hold time: the session is closed, and the status says why until it
// is established again.
func TestASilentRouter(t *testing.T) {
	r := newRouter(t, birdBFD+birdSession("four", router4, node4, routerASN, "bfd on;"))
	s := newSpeaker(t, "")
	if err := s.Apply(specOf([]networkv1alpha1.NodeBGPPeer{withBFD("four", router4, routerASN)}, aRoute), nil); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "four", isWatched)
	if err := r.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool {
		return !isEstablished(x) && x.Message == "BFD down: no packet of the router arrived for 300ms" &&
			x.BFD.State == networkv1alpha1.BFDDown
	})
	if err := r.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "four", isWatched)
	r.await("198.51.100.1/32 four")
}

// Only the end of a BFD session that was up ends a BGP session, and not if BFD was switched off.
func TestWhatLosesARouter(t *testing.T) {
	up, failed, off := bfd.Status{Up: true}, bfd.Status{Failed: true, Message: "silence"}, bfd.Status{Message: "off"}
	for name, c := range map[string]struct {
		statuses []bfd.Status
		want     []bool
	}{
		"lost":               {[]bfd.Status{up, failed}, []bool{false, true}},
		"lost once":          {[]bfd.Status{up, failed, {Failed: true, Message: "more"}, off}, []bool{false, true, false, false}},
		"lost again":         {[]bfd.Status{up, failed, up, failed}, []bool{false, true, false, true}},
		"switched off":       {[]bfd.Status{up, off}, []bool{false, false}},
		"never up":           {[]bfd.Status{{Message: "the router sends no packets"}, off}, []bool{false, false}},
		"failed and not up":  {[]bfd.Status{failed}, []bool{false}},
		"off after a return": {[]bfd.Status{up, failed, off, up, off}, []bool{false, true, false, false, false}},
	} {
		s := &seen{}
		for i, status := range c.statuses {
			if have := s.loses(status); have != c.want[i] {
				t.Errorf("%s: status %d loses the router: %t", name, i, have)
			}
		}
	}
}

// BGP does not need BFD: a router without it gets the routes, and the status says that BFD is not up.
func TestARouterWithoutBFD(t *testing.T) {
	r := newRouter(t, birdSession("four", router4, node4, routerASN, ""))
	s := newSpeaker(t, "")
	if err := s.Apply(specOf([]networkv1alpha1.NodeBGPPeer{withBFD("four", router4, routerASN)}, aRoute), nil); err != nil {
		t.Fatal(err)
	}
	r.await("198.51.100.1/32 four")
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool {
		return isEstablished(x) && x.BFD != nil && x.BFD.State == networkv1alpha1.BFDDown &&
			strings.HasPrefix(x.BFD.Message, "the router does not accept BFD packets")
	})
}

// While OVN has a session with a router from the node's address, the agent has none. The status says so.
func TestARouterThatOVNWatches(t *testing.T) {
	r := newRouter(t, birdBFD+birdSession("four", router4, node4, routerASN, "bfd on;"))
	s := newSpeaker(t, "")
	spec := specOf([]networkv1alpha1.NodeBGPPeer{withBFD("four", router4, routerASN)}, aRoute)
	if err := s.Apply(spec, nil); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "four", isWatched)
	const why = "OVN watches it"
	if err := s.Apply(spec, func(router netip.Addr) (bool, string) {
		return router == netip.MustParseAddr(router4), why
	}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool {
		return x.BFD != nil && x.BFD.State == networkv1alpha1.BFDDown && x.BFD.Message == why
	})
	r.awaitBFD(node4, "Down")
	if err := s.Apply(spec, func(netip.Addr) (bool, string) { return false, "" }); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, "four", isWatched)
}

// session returns BIRD's line about a session, with the time since when it has its state.
func (r *router) session(name string) string {
	r.t.Helper()
	text, err := r.ask("show", "protocols", name)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+" ") {
			return strings.TrimSpace(line)
		}
	}
	r.t.Fatalf("no session %s in %q", name, text)
	return ""
}

// A node that dies without a word loses its routes when BFD notices, and not after the hold time or the time of a graceful
// restart. Its agent is stopped, so that the kernel keeps its connection.
func TestADeadNode(t *testing.T) {
	r := newRouter(t, birdBFD+birdSession("four", router4, node4, routerASN, "graceful restart on; bfd on;"))
	agent := startAgent(t, specOf([]networkv1alpha1.NodeBGPPeer{withBFD("four", router4, routerASN)}, aRoute))
	r.await("198.51.100.1/32 four")
	r.awaitBFD(node4, "Up")
	if err := agent.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.await()
	if err := agent.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.await("198.51.100.1/32 four")
	r.awaitBFD(node4, "Up")
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	r.await()
}

// A restart of the agent keeps the routes: before it ends, it says that BFD is switched off, which is no failure
// (RFC 5882 §3.2). A killed agent cannot say so. Its routes stay only at a router that takes the end of BFD for a restart.
func TestARestartedAgentWithBFD(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		signal unix.Signal
	}{
		"ended, on": {"on", unix.SIGTERM}, "ended, graceful": {"graceful", unix.SIGTERM}, "killed, graceful": {"graceful", unix.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouter(t, birdBFD+birdSession("four", router4, node4, routerASN, "graceful restart on; bfd "+c.mode+";"))
			spec := specOf([]networkv1alpha1.NodeBGPPeer{withBFD("four", router4, routerASN)}, aRoute)
			first := startAgent(t, spec)
			r.await("198.51.100.1/32 four")
			r.awaitBFD(node4, "Up")
			if err := first.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			_ = first.Wait() // it was killed
			r.awaitBFD(node4, "Down")
			r.awaitSession(false)
			startAgent(t, spec)
			poll.Eventually(t, patience, func() error {
				if _, ok := r.routes()["198.51.100.1/32 four"]; !ok {
					text, _ := r.ask("show", "protocols", "all", "four")
					t.Fatalf("the router forgot the route while the agent restarted:\n%s", text)
				}
				if have := r.bfdSessions()[node4]; have != "Up" || !strings.Contains(r.session("four"), "Established") {
					return fmt.Errorf("the next agent: BFD %q, %s", have, r.session("four"))
				}
				return nil
			})
		})
	}
}
