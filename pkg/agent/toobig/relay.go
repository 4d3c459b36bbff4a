// Package toobig relays ICMPv6 Packet Too Big messages to pods, so that pods learn the path MTU where Open vSwitch's own
// conntrack cannot translate these messages.
//
// A router that cannot forward a packet sends such a message to the packet's source, which is the node's address.
// Conntrack must translate the message to the pod's address, as it does with replies. In the userspace datapath, up to
// Open vSwitch 3.5, conntrack has two bugs:
//
//   - It marks a message that quotes a fragment as invalid, even the first fragment, so that the message never reaches
//     the router.
//   - When it translates the destination of a message about a datagram, it handles the message as a datagram. It
//     "corrects" a checksum that the message does not have, and so overwrites the lower half of the MTU.
//
// The bridge sends messages of both kinds here. To find the pod, the relay sends a probe through conntrack: a packet
// that looks like the other end's reply. Conntrack translates it, and the bridge returns it with the pod's address.
//
//	bridge, table 1 ──message──▶ Relay ──probe──▶ bridge, conntrack zone 0
//	                             Relay ◀──reply── bridge, table 3
//	                             Relay ──message for the pod──▶ gateway router
//
// In Local mode the kernel translates the messages correctly and sends them by the management port. Conntrack of the
// node's switch, however, marks a message that quotes a fragment as invalid, and OVN drops it if a pod of the node has a
// policy. In this mode the relay reads the messages from that link and sends each of them again without the fragment.
//
// The message for the pod quotes no fragment, so that conntrack of the pod's switch relates it to the connection, as
// policies require.
package toobig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/openflow"
)

const (
	// perSecond limits the messages that are relayed, because anyone may send them.
	perSecond = 50
	// maxPending limits the probes without a reply. A probe for a connection that conntrack does not have never gets one.
	maxPending = 256
)

// Bridge is the bridge that messages come from, with its path to the gateway router.
type Bridge struct {
	Name string
	// Patch is the OpenFlow port that leads to the router, and MAC is the router's MAC.
	Patch int
	MAC   string
}

// Relay relays the messages of one bridge or of one link.
type Relay struct {
	runDir string
	log    logr.Logger
	lost   func()

	mu  sync.Mutex
	now *following // nil: nothing is relayed
}

// following is one use of a source.
type following struct {
	source
	at   any         // the Bridge, or the index of the link
	stop func() bool // cancels the close of the source at the end of its context
}

// source is a place that messages come from.
type source interface {
	// relay returns when the source ends or is closed.
	relay() error
	Close() error
}

// New returns a Relay that relays nothing yet. runDir is ovs-vswitchd's run directory. The Relay calls lost when its
// source has ended, so that the caller arranges another call of Follow or FollowLink. lost must not call the Relay
// itself.
func New(runDir string, log logr.Logger, lost func()) *Relay {
	return &Relay{runDir: runDir, log: log, lost: lost}
}

// Follow relays the messages of a bridge until ctx ends, the connection to ovs-vswitchd ends, or the Relay follows
// something else. It does nothing if the Relay already follows that bridge.
func (r *Relay) Follow(ctx context.Context, bridge Bridge) error {
	return r.follow(ctx, bridge, func() (source, error) {
		mac, err := net.ParseMAC(bridge.MAC)
		if err != nil {
			return nil, err
		}
		packets, err := openflow.DialPackets(ctx, r.runDir, bridge.Name)
		if err != nil {
			return nil, fmt.Errorf("bridge %s: %w", bridge.Name, err)
		}
		return &session{
			packets: packets, patch: bridge.Patch, mac: mac, pending: map[uint64]message{}, number: rand.Uint64(),
		}, nil
	})
}

// FollowLink relays the messages that the host sends by a link, in the same way.
func (r *Relay) FollowLink(ctx context.Context, name string) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return r.follow(ctx, link.Index, func() (source, error) { return openLink(link.Index) })
}

// Stop ends the relaying of messages.
func (r *Relay) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end()
}

func (r *Relay) end() {
	if r.now != nil {
		r.now.stop()
		r.now.Close()
	}
	r.now = nil
}

func (r *Relay) follow(ctx context.Context, at any, open func() (source, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil && r.now.at == at {
		return nil
	}
	r.end()
	s, err := open()
	if err != nil {
		return err
	}
	r.now = &following{source: s, at: at, stop: context.AfterFunc(ctx, func() { s.Close() })}
	go r.run(ctx, r.now)
	return nil
}

// run relays messages until the source ends. The next call of follow opens a new source.
func (r *Relay) run(ctx context.Context, f *following) {
	err := f.relay()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != f || ctx.Err() != nil {
		return
	}
	r.end()
	r.log.Info("cannot relay ICMPv6 Packet Too Big to pods; retrying", "from", f.at, "reason", err.Error())
	r.lost()
}

// session is the exchange of packets over one connection to a bridge.
type session struct {
	packets *openflow.Packets
	patch   int
	mac     net.HardwareAddr
	pending map[uint64]message // messages whose probe has no reply yet, by the probe's number
	number  uint64             // of the last probe; the first is random, so that nobody can forge a reply

	limit limit
}

func (s *session) Close() error { return s.packets.Close() }

func (s *session) relay() error {
	for {
		packet, err := s.packets.Receive()
		if err != nil {
			return err
		}
		if packet.Table == desired.TableAnswered {
			err = s.sendMessage(packet.Frame)
		} else {
			err = s.sendProbe(packet.Frame)
		}
		if err != nil {
			return err
		}
	}
}

// sendProbe sends a probe through conntrack to find the connection that a message belongs to.
func (s *session) sendProbe(frame []byte) error {
	m, ok := readMessage(frame)
	if !ok || !s.limit.allows() {
		return nil
	}
	if len(s.pending) >= maxPending {
		clear(s.pending)
	}
	s.number++
	s.pending[s.number] = m
	return s.packets.Send(m.probe(s.number), openflow.Translate(desired.RouterZone, desired.TableAnswered))
}

// limit limits the number of messages that are relayed in a second.
type limit struct {
	began time.Time // start of the current second
	taken int
}

// allows counts a message and reports whether it is within the limit.
func (l *limit) allows() bool {
	if now := time.Now(); now.Sub(l.began) >= time.Second {
		l.began, l.taken = now, 0
	}
	l.taken++
	return l.taken <= perSecond
}

// sendMessage sends the message that belongs to a reply to its pod.
func (s *session) sendMessage(frame []byte) error {
	number, to, ok := readReply(frame)
	m, isPending := s.pending[number]
	if !ok || !isPending {
		return nil
	}
	delete(s.pending, number)
	return s.packets.Send(m.translated(to, s.mac), openflow.Output(s.patch))
}
