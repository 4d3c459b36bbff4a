package bfd

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/poll"
)

func TestMain(m *testing.M) {
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWPID|unix.CLONE_NEWNS, func() int {
		if err := errors.Join(isolation.Furnish(), addLoopbacks()); err != nil {
			panic(err)
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			println(err.Error())
			return 1
		}
		return code
	}))
}

const patience = 20 * time.Second

// statuses records what a session reports.
type statuses struct {
	mu  sync.Mutex
	all []Status
}

func (s *statuses) add(now Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, now)
}

func (s *statuses) await(t *testing.T, last func(Status) bool) []Status {
	t.Helper()
	poll.Eventually(t, patience, poll.True("the status", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.all) > 0 && last(s.all[len(s.all)-1])
	}))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// router is a socket that sends packets to the node.
type router struct {
	t      *testing.T
	socket *net.UDPConn
	ttl    func(int) error
}

func newRouter(t *testing.T, at, node string, port uint16) *router {
	t.Helper()
	local, to := netip.AddrPortFrom(netip.MustParseAddr(at), 0), netip.AddrPortFrom(netip.MustParseAddr(node), port)
	socket, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() }) // the test is over
	r := &router{t: t, socket: socket, ttl: ipv4.NewConn(socket).SetTTL}
	if to.Addr().Is6() {
		r.ttl = ipv6.NewConn(socket).SetHopLimit
	}
	return r
}

func (r *router) send(ttl int, s State, yours uint32) {
	r.t.Helper()
	if err := r.ttl(ttl); err != nil {
		r.t.Fatal(err)
	}
	p := from(s)
	p.Yours, p.Transmit = yours, time.Minute
	if _, err := r.socket.Write(p.Bytes()); err != nil && !strings.Contains(err.Error(), "refused") {
		r.t.Fatal(err)
	}
}

var loopbacks = map[string]struct{ node, router, other string }{
	"IPv4": {"127.0.0.1", "127.0.0.9", "127.0.0.10"}, "IPv6": {"fd00::1", "fd00::9", "fd00::10"},
}

// addLoopbacks gives the loopback of this namespace the addresses of IPv6.
func addLoopbacks() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	at := loopbacks["IPv6"]
	for _, a := range []string{at.node, at.router, at.other} {
		address, err := netlink.ParseAddr(a + "/128")
		if err != nil {
			return err
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(lo, address); err != nil {
			return err
		}
	}
	return nil
}

// A session accepts packets of its router alone, with its discriminator, and on a link only those with TTL 255.
func TestWhichPacketsCount(t *testing.T) {
	for name, at := range loopbacks {
		for _, multiHop := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				n, seen := New(testr.New(t)), &statuses{}
				p := Peer{Address: netip.MustParseAddr(at.router), Source: netip.MustParseAddr(at.node), MultiHop: multiHop}
				s, err := n.Start(p, usual, seen.add)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Stop()
				port, far := uint16(singleHopPort), 64
				if multiHop {
					port, far = multiHopPort, 200
				}
				right, other := newRouter(t, at.router, at.node, port), newRouter(t, at.other, at.node, port)
				other.send(ownTTL, Init, s.discriminator)
				right.send(ownTTL, Init, s.discriminator+1)
				if !multiHop {
					right.send(far, Init, s.discriminator)
					far = ownTTL
				}
				// Had one of these counted, the session would be up, and this packet would end it.
				right.send(far, Down, 0)
				right.send(far, Up, s.discriminator)
				if all := seen.await(t, func(s Status) bool { return s.Up }); len(all) != 1 {
					t.Errorf("statuses %+v, want Up alone", all)
				}
			})
		}
	}
}

// A node has one session with a router, and no sockets without sessions.
func TestSessionsOfANode(t *testing.T) {
	n := New(testr.New(t))
	p := Peer{Address: netip.MustParseAddr("127.0.0.9"), Source: netip.MustParseAddr("127.0.0.1")}
	s, err := n.Start(p, usual, func(Status) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Start(p, usual, func(Status) {}); !errors.Is(err, ErrSecond) {
		t.Errorf("a second session: %v", err)
	}
	further := p
	further.MultiHop = true
	second, err := n.Start(further, usual, func(Status) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.ListenPacket("udp4", ":3784"); err == nil {
		t.Error("the port is free")
	}
	s.Configure(Settings{Transmit: time.Second, Receive: time.Second, Multiplier: 2})
	s.Stop()
	s.Stop()
	s.Configure(usual)
	taken, err := net.ListenPacket("udp4", ":3784")
	if err != nil {
		t.Fatalf("the port is taken without a session: %v", err)
	}
	if _, err := n.Start(p, usual, func(Status) {}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("another program has the port: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := n.Start(p, usual, func(Status) {})
	if err != nil {
		t.Fatal(err)
	}
	third.Stop()
	second.Stop()
}

// What a session sends has TTL 255 and a source port of the range, which stays. Its last packets say that BFD is switched off.
func TestSentPackets(t *testing.T) {
	for name, at := range loopbacks {
		t.Run(name, func(t *testing.T) {
			p := Peer{Address: netip.MustParseAddr(at.node)} // the node's packets arrive at its own listener
			type arrival struct {
				ttl int
				p   Packet
			}
			arrivals := make(chan arrival, 1000)
			l, err := listen(p.kind(), func(_ kind, _ netip.Addr, ttl int, b []byte) {
				if p, err := Parse(b); err == nil {
					arrivals <- arrival{ttl, p}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			s := newSession(p, usual, 1, func(Status) {}, testr.New(t))
			s.ended = func() {}
			go s.run()
			first := <-arrivals
			if first.ttl != ownTTL || first.p.State != Down || first.p.Yours != 0 || first.p.Mine != s.discriminator {
				t.Errorf("the first packet: %+v", first)
			}
			reply := from(Down)
			s.packets <- reply
			if second := <-arrivals; second.p.State != Init || second.p.Yours != reply.Mine {
				t.Errorf("the packet after a change of state: %+v", second)
			}
			ask := from(Up)
			ask.Poll = true
			s.packets <- ask
			if final := <-arrivals; !final.p.Final || final.p.State != Up {
				t.Errorf("the answer to a poll: %+v", final)
			}
			s.Stop()
			last := 0
			poll.Eventually(t, patience, poll.True("the last packets", func() bool {
				for len(arrivals) > 0 {
					if a := <-arrivals; a.p.State == AdminDown && a.p.Diagnostic == disabled && a.p.Yours == reply.Mine {
						last++
					}
				}
				return last == int(usual.Multiplier)
			}))
			if s.sender.port < firstPort {
				t.Errorf("source port %d", s.sender.port)
			}
		})
	}
}

// A reason stays although every other packet is sent without an error, and goes when all are.
func TestTrouble(t *testing.T) {
	refused := &net.OpError{Op: "write", Err: os.NewSyscallError("write", unix.ECONNREFUSED)}
	unreachable := &net.OpError{Op: "write", Err: os.NewSyscallError("write", unix.ENETUNREACH)}
	now := trouble{}.after(refused).after(nil).after(refused).after(nil)
	if !strings.HasPrefix(now.reason, "the router does not accept BFD packets") {
		t.Errorf("%+v", now)
	}
	if now = now.after(unreachable); now.reason != "cannot send: network is unreachable" {
		t.Errorf("%+v", now)
	}
	for range unanswered {
		now = now.after(nil)
	}
	if now != (trouble{}) {
		t.Errorf("after good packets: %+v", now)
	}
}
