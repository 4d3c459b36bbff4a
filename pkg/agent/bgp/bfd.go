package bgp

import (
	"context"
	"fmt"
	"strings"
	"time"

	api "github.com/osrg/gobgp/v4/api"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/bfd"
)

// watch is the BFD session beside a session. The zero value has none.
type watch struct {
	session *bfd.Session // nil: none runs
	peer    bfd.Peer
	wanted  bool   // spec has BFD
	refused string // why none runs, although it is wanted
}

// status returns the BFD session for the status. It is nil if there must be none.
func (w *watch) status() *networkv1alpha1.NodeBFDSession {
	if !w.wanted {
		return nil
	}
	status := &networkv1alpha1.NodeBFDSession{State: networkv1alpha1.BFDDown, Message: w.refused}
	if w.session != nil {
		now := w.session.Status()
		status.Message = now.Message
		if now.Up {
			status.State = networkv1alpha1.BFDUp
		}
	}
	status.Message = status.Message[:min(len(status.Message), maxMessage)]
	return status
}

// stop ends the BFD session, if one runs. why becomes the message of a session that is wanted.
func (w *watch) stop(why string) {
	if w.session != nil {
		w.session.Stop()
		w.session = nil
	}
	w.refused = why
}

// applyBFD makes the BFD session beside a session equal to its desired state. It changes the settings of a running one.
func (s *Speaker) applyBFD(name string, want *networkv1alpha1.NodeBFD, refuse Refusal) error {
	session := s.sessions[name]
	if session == nil {
		return nil // its start failed
	}
	w := &session.bfd
	w.wanted = want != nil
	if want == nil || session.server == nil || s.ended {
		w.stop("")
		return nil
	}
	peer, err := bfdPeer(session.settings.NodeBGPPeer, want.MultiHop)
	if err != nil {
		w.stop(err.Error())
		return err
	}
	if refuse != nil && !peer.MultiHop {
		if refused, why := refuse(peer.Address); refused {
			w.stop(why)
			return nil
		}
	}
	if w.session != nil && w.peer == peer {
		w.session.Configure(bfdSettings(want))
		return nil
	}
	w.stop("")
	last := &seen{}
	changed := func(now bfd.Status) {
		if last.loses(now) {
			session.lose(now.Message)
		}
		s.options.Changed()
	}
	if w.session, err = s.bfd.Start(peer, bfdSettings(want), changed); err != nil {
		w.refused = err.Error()
		return err
	}
	w.peer = peer
	return nil
}

// seen is the last status of a BFD session.
type seen struct{ up bool }

// loses reports whether a status is the end of a session that was up. A session that stays down does not end again, whatever
// its message says.
func (s *seen) loses(now bfd.Status) bool {
	was := s.up
	s.up = now.Up
	return was && !now.Up && now.Failed
}

func bfdPeer(of networkv1alpha1.NodeBGPPeer, multiHop bool) (peer bfd.Peer, err error) {
	peer.MultiHop = multiHop
	if peer.Address, err = of.PeerAddress.Addr(); err != nil {
		return peer, fmt.Errorf("peerAddress: %w", err)
	}
	if of.SourceAddress != "" {
		if peer.Source, err = of.SourceAddress.Addr(); err != nil {
			return peer, fmt.Errorf("sourceAddress: %w", err)
		}
	}
	return peer, nil
}

func bfdSettings(of *networkv1alpha1.NodeBFD) bfd.Settings {
	return bfd.Settings{Transmit: time.Duration(of.TransmitIntervalMilliseconds) * time.Millisecond,
		Receive: time.Duration(of.ReceiveIntervalMilliseconds) * time.Millisecond, Multiplier: uint8(of.DetectMultiplier)}
}

// lose closes an established session, because BFD has lost the router. The server connects again as after any end of a
// session. A session that is not established is left alone, because BGP does not need BFD to connect (RFC 5882 §4.1).
func (s *session) lose(why string) {
	s.mu.Lock()
	established := s.established
	if established {
		s.lost = "BFD down: " + why
	}
	s.mu.Unlock()
	if established {
		// The session ended by itself if there is an error.
		_ = s.server.ResetPeer(context.Background(), &api.ResetPeerRequest{Address: string(s.settings.PeerAddress), Communication: "BFD down"})
	}
}

// join joins the parts of a message that are not empty.
func join(parts ...string) string {
	var found []string
	for _, part := range parts {
		if part != "" {
			found = append(found, part)
		}
	}
	return strings.Join(found, "; ")
}
