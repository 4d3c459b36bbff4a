package bgp

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/poll"
)

func newSpeaker(t *testing.T, passwords string) *Speaker {
	ctx, cancel := context.WithCancel(context.Background())
	s := New(Options{Passwords: passwords, Changed: func() {}, Log: testr.New(t), Running: ctx})
	t.Cleanup(func() {
		if err := s.Apply(nil, nil); err != nil {
			t.Error(err)
		}
		cancel()
	})
	return s
}

func peer(name, address string, asn int64) networkv1alpha1.NodeBGPPeer {
	return networkv1alpha1.NodeBGPPeer{Name: name, PeerAddress: networkv1alpha1.IP(address), PeerASN: asn, MyASN: nodeASN, PeerPort: 179,
		HoldTimeSeconds: 9, KeepaliveTimeSeconds: 3, GracefulRestartTimeSeconds: 60}
}

func specOf(peers []networkv1alpha1.NodeBGPPeer, routes ...networkv1alpha1.NodeBGPRoute) *networkv1alpha1.NodeBGP {
	return &networkv1alpha1.NodeBGP{RouterID: node4, NextHops: []networkv1alpha1.IP{node4, node6}, Peers: peers, Routes: routes}
}

func awaitState(t *testing.T, s *Speaker, peer string, is func(networkv1alpha1.NodeBGPSession) bool) {
	t.Helper()
	var last networkv1alpha1.NodeBGPSession
	defer func() {
		if t.Failed() {
			t.Logf("session %+v", last)
		}
	}()
	poll.Eventually(t, patience, poll.True("the session's state", func() bool {
		for _, session := range s.Status() {
			if session.Peer == peer {
				last = session
				return is(session)
			}
		}
		return false
	}))
}

func isEstablished(s networkv1alpha1.NodeBGPSession) bool {
	return s.State == networkv1alpha1.BGPEstablished
}

// A router gets the routes of both families over sessions of both families, with their attributes. Changes are applied
// by difference, and the end of a session removes its routes.
func TestRoutesReachARouter(t *testing.T) {
	r := newRouter(t, birdSession("four", router4, node4, routerASN, "")+birdSession("six", router6, node6, nodeASN, "direct;"))
	s := newSpeaker(t, "")
	peers := []networkv1alpha1.NodeBGPPeer{peer("four", router4, routerASN), peer("six", router6, nodeASN)}
	spec := specOf(peers,
		networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.1/32", Communities: []string{"64513:100", "64513:1:2", "no-export"}},
		networkv1alpha1.NodeBGPRoute{Prefix: "2001:db8:1::1/128", LocalPreference: new(int64(300))},
		networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.64/26", Peers: []string{"six"}})
	if err := s.Apply(spec, nil); err != nil {
		t.Fatal(err)
	}
	have := r.await("198.51.100.1/32 four", "198.51.100.1/32 six", "2001:db8:1::1/128 four", "2001:db8:1::1/128 six", "198.51.100.64/26 six")
	for key, want := range map[string][]string{
		"198.51.100.1/32 four":   {"BGP.next_hop: 192.0.2.10", "BGP.as_path: 64513", "(64513,100)", "(65535,65281)", "(64513, 1, 2)"},
		"198.51.100.1/32 six":    {"BGP.next_hop: 192.0.2.10", "BGP.local_pref: 100"},
		"2001:db8:1::1/128 four": {"BGP.next_hop: 2001:db8::10"},
		"2001:db8:1::1/128 six":  {"BGP.next_hop: 2001:db8::10", "BGP.local_pref: 300"},
	} {
		for _, part := range want {
			if !strings.Contains(have[key], part) {
				t.Errorf("%s: want %q in\n%s", key, part, have[key])
			}
		}
	}
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool { return isEstablished(x) && x.Routes == 2 })

	spec.Routes = append(spec.Routes[1:2], networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.2/32"})
	if err := s.Apply(spec, nil); err != nil {
		t.Fatal(err)
	}
	r.await("198.51.100.2/32 four", "198.51.100.2/32 six", "2001:db8:1::1/128 four", "2001:db8:1::1/128 six")
	spec.Peers = spec.Peers[:1]
	if err := s.Apply(spec, nil); err != nil {
		t.Fatal(err)
	}
	r.await("198.51.100.2/32 four", "2001:db8:1::1/128 four")
	if err := s.Apply(nil, nil); err != nil {
		t.Fatal(err)
	}
	r.await()
	if sessions := s.Status(); len(sessions) != 0 {
		t.Errorf("sessions without peers: %v", sessions)
	}
}

// A router that restarts gets the routes again.
func TestARouterReturns(t *testing.T) {
	r := newRouter(t, birdSession("four", router4, node4, routerASN, ""))
	s := newSpeaker(t, "")
	if err := s.Apply(specOf([]networkv1alpha1.NodeBGPPeer{peer("four", router4, routerASN)},
		networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.1/32"}), nil); err != nil {
		t.Fatal(err)
	}
	r.await("198.51.100.1/32 four")
	r.kill()
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool { return !isEstablished(x) && x.Message != "" })
	r.start()
	r.await("198.51.100.1/32 four")
	awaitState(t, s, "four", isEstablished)
}

// A wrong password is named, and a correction of the Secret takes effect.
func TestPasswords(t *testing.T) {
	folder := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "rack-a"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newRouter(t, birdSession("four", router4, node4, routerASN, `password "right";`))
	s := newSpeaker(t, folder)
	p := peer("four", router4, routerASN)
	p.PasswordKey = "rack-a"
	spec := specOf([]networkv1alpha1.NodeBGPPeer{p}, networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.1/32"})
	apply := func() {
		t.Helper()
		if err := s.Apply(spec, nil); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool { return strings.Contains(x.Message, "has no key rack-a") })
	write("wrong")
	apply()
	awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool {
		return !isEstablished(x) && strings.Contains(x.Message, "another password") && strings.Contains(x.Message, "rack-a")
	})
	write("right\n")
	apply()
	r.await("198.51.100.1/32 four")
	awaitState(t, s, "four", isEstablished)
}

// A wrong AS number is named.
func TestAWrongASIsNamed(t *testing.T) {
	newRouter(t, birdSession("four", router4, node4, routerASN, ""))
	s := newSpeaker(t, "")
	theirs, ours := peer("four", router4, routerASN+7), peer("four", router4, routerASN)
	ours.MyASN += 7
	for _, c := range []struct {
		peer networkv1alpha1.NodeBGPPeer
		want string
	}{{theirs, "the node ended the session"}, {ours, "the router closed the connection"}} {
		if err := s.Apply(specOf([]networkv1alpha1.NodeBGPPeer{c.peer}), nil); err != nil {
			t.Fatal(err)
		}
		awaitState(t, s, "four", func(x networkv1alpha1.NodeBGPSession) bool {
			return !isEstablished(x) && strings.HasPrefix(x.Message, c.want)
		})
		t.Log(s.Status())
	}
}

// startAgent begins an agent in a process of its own.
func startAgent(t *testing.T, spec *networkv1alpha1.NodeBGP) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), asAgent+"="+string(text))
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill() }) // it may have ended already
	return agent
}

// The routes of an agent that is killed stay until the next agent confirms them. A route that the next agent does not
// have goes with its confirmation. Without graceful restart, all go at once.
func TestAKilledAgentKeepsItsRoutes(t *testing.T) {
	r := newRouter(t, birdSession("four", router4, node4, routerASN, "graceful restart on;"))
	spec := specOf([]networkv1alpha1.NodeBGPPeer{peer("four", router4, routerASN)},
		networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.1/32"}, networkv1alpha1.NodeBGPRoute{Prefix: "198.51.100.2/32"})
	first := startAgent(t, spec)
	r.await("198.51.100.1/32 four", "198.51.100.2/32 four")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	r.awaitSession(false)
	spec.Routes = spec.Routes[:1]
	second := startAgent(t, spec)
	poll.Eventually(t, patience, poll.True("only the confirmed route", func() bool {
		have := r.routes()
		if _, ok := have["198.51.100.1/32 four"]; !ok {
			t.Fatal("the router forgot a route while the agent restarted")
		}
		return len(have) == 1
	}))
	if text, _ := r.ask("show", "protocols"); !strings.Contains(text, "Established") {
		t.Fatalf("the second agent has no session:\n%s", text)
	}
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
	spec.Peers[0].GracefulRestartTimeSeconds = 0
	third := startAgent(t, spec)
	r.awaitSession(true)
	r.await("198.51.100.1/32 four")
	if err := third.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.await()
}
