package bgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	// retrySeconds is the shortest time between attempts to connect. The server adds up to as much at random.
	retrySeconds = 5
	// deferralSeconds is how long a restarted agent waits for the router's own routes before it sends its routes.
	deferralSeconds = 10
	// hops is the TTL of sessions with routers of another AS behind others.
	hops = 255
	// shutTimeout bounds the wait for the end of a session, and shutPause is the time between two questions whether it has ended.
	shutTimeout = 10 * time.Second
	shutPause   = 10 * time.Millisecond
	// refused is the reason of a session that the router does not accept. The server does not say why.
	refused = "the router closed the connection before the session was established"
	// maxMessage is the longest message of a session in the status.
	maxMessage = 512
)

// settings are what a session is made from. Another value needs another session. BFD is nil, because it changes while the
// session stays.
type settings struct {
	networkv1alpha1.NodeBGPPeer
	routerID string
	password string
	// noPassword is why the password of PasswordKey cannot be read, or "".
	noPassword string
}

func (s settings) internal() bool { return s.MyASN == s.PeerASN }

// session is the session with one BGPPeer.
type session struct {
	settings settings
	server   *server.BgpServer // nil if the password cannot be read
	cancel   context.CancelFunc
	routes   map[netip.Prefix]route     // as the server has them
	ids      map[netip.Prefix]uuid.UUID // the server's name of each
	bfd      watch

	mu          sync.Mutex
	established bool
	opening     bool   // the router has answered, and has not confirmed yet
	reason      string // why there is no session
	lost        string // why BFD ended the last session, or ""
}

// start starts a server with the routes of a peer, and then the session. The routes come first, because the end of the
// first transfer makes the router forget the routes of an earlier agent that are missing.
func (s *session) start(routes map[netip.Prefix]route, restarting bool, o Options) error {
	of := s.settings
	ctx, cancel := context.WithCancel(o.Running)
	s.cancel = cancel
	s.server = newServer(ctx, o.Log.WithValues("peer", of.Name), func(reason string) { s.note(reason, o.Changed) })
	go s.server.Serve()
	global := &api.Global{Asn: uint32(of.MyASN), RouterId: of.routerID, ListenPort: -1}
	if err := s.server.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
		return err
	}
	if err := s.setRoutes(routes); err != nil {
		return err
	}
	changed := func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) { s.observe(e, o.Changed) }
	if err := s.server.WatchEvent(ctx, server.WatchEventMessageCallbacks{OnPeerUpdate: changed}, server.WatchPeer()); err != nil {
		return err
	}
	return s.server.AddPeer(ctx, &api.AddPeerRequest{Peer: peerOf(of, restarting)})
}

// peerOf returns the settings as the server takes them.
func peerOf(of settings, restarting bool) *api.Peer {
	peer := &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: string(of.PeerAddress), PeerAsn: uint32(of.PeerASN), LocalAsn: uint32(of.MyASN),
			AuthPassword: of.password},
		Timers: &api.Timers{Config: &api.TimersConfig{ConnectRetry: retrySeconds, IdleHoldTimeAfterReset: retrySeconds,
			HoldTime: uint64(of.HoldTimeSeconds), KeepaliveInterval: uint64(of.KeepaliveTimeSeconds)}},
		Transport:    &api.Transport{RemotePort: uint32(of.PeerPort), LocalAddress: string(of.SourceAddress)},
		EbgpMultihop: &api.EbgpMultihop{Enabled: of.EBGPMultiHop && !of.internal(), MultihopTtl: hops},
	}
	graceful := of.GracefulRestartTimeSeconds > 0
	if graceful {
		peer.GracefulRestart = &api.GracefulRestart{Enabled: true, RestartTime: uint32(of.GracefulRestartTimeSeconds),
			DeferralTime: deferralSeconds, LocalRestarting: restarting}
	}
	for _, afi := range []api.Family_Afi{api.Family_AFI_IP, api.Family_AFI_IP6} {
		family := &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}
		peer.AfiSafis = append(peer.AfiSafis, &api.AfiSafi{Config: &api.AfiSafiConfig{Family: family, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: graceful}}})
	}
	return peer
}

// stop ends the session with a notification, so that the router removes its routes at once, and the server.
func (s *session) stop() error {
	withdrawn, down := s.setRoutes(nil), s.shut()
	s.cancel()
	if down == nil { // the server of a session that hangs must not end
		s.server.Stop()
	}
	return errors.Join(withdrawn, down)
}

// shut ends the session and waits until it is down. The end of the server would end it as well, but clears the global configuration while
// the session's goroutines still read it.
func (s *session) shut() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutTimeout)
	defer cancel()
	address := string(s.settings.PeerAddress)
	if s.server.DisablePeer(ctx, &api.DisablePeerRequest{Address: address}) != nil {
		return nil // there is no peer, because it was not added
	}
	for down := false; ; {
		err := s.server.ListPeer(ctx, &api.ListPeerRequest{Address: address}, func(p *api.Peer) {
			down = p.State.AdminState == api.PeerState_ADMIN_STATE_DOWN && p.State.SessionState == api.PeerState_SESSION_STATE_IDLE
		})
		if err != nil || down {
			return err
		}
		select {
		case <-time.After(shutPause):
		case <-ctx.Done():
			return fmt.Errorf("the session with %s does not end", address)
		}
	}
}

// setRoutes makes the server's table equal to routes by difference.
func (s *session) setRoutes(routes map[netip.Prefix]route) error {
	if s.server == nil || maps.Equal(s.routes, routes) {
		return nil
	}
	var errs []error
	for prefix := range s.routes {
		if _, ok := routes[prefix]; ok {
			continue
		}
		if err := s.server.DeletePath(apiutil.DeletePathRequest{UUIDs: []uuid.UUID{s.ids[prefix]}}); err != nil {
			errs = append(errs, fmt.Errorf("withdraw %s: %w", prefix, err))
			continue
		}
		delete(s.routes, prefix)
		delete(s.ids, prefix)
	}
	for prefix, want := range routes {
		if has, ok := s.routes[prefix]; ok && has == want {
			continue
		}
		path, err := want.path(prefix, s.settings.internal())
		var added []apiutil.AddPathResponse
		if err == nil {
			added, err = s.server.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{path}})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("announce %s: %w", prefix, err))
			continue
		}
		s.routes[prefix], s.ids[prefix] = want, added[0].UUID
	}
	return errors.Join(errs...)
}

// observe records the state of the session.
func (s *session) observe(e *apiutil.WatchEventMessage_PeerEvent, changed func()) {
	if e.Type != apiutil.PEER_EVENT_STATE {
		return
	}
	state := e.Peer.State.SessionState
	established := state == packet.BGP_FSM_ESTABLISHED
	s.mu.Lock()
	differs := established != s.established
	switch {
	case established:
		s.reason, s.lost = "", ""
	case s.opening && state == packet.BGP_FSM_IDLE && s.reason == "":
		s.reason, differs = refused, true
	}
	s.established, s.opening = established, state == packet.BGP_FSM_OPENSENT || state == packet.BGP_FSM_OPENCONFIRM
	s.mu.Unlock()
	if differs {
		changed()
	}
}

// note records why there is no session.
func (s *session) note(reason string, changed func()) {
	s.mu.Lock()
	differs := s.reason != reason && !s.established
	s.reason = reason
	s.mu.Unlock()
	if differs {
		changed()
	}
}

// status returns the session for the status.
func (s *session) status() networkv1alpha1.NodeBGPSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := networkv1alpha1.NodeBGPSession{Peer: s.settings.Name, State: networkv1alpha1.BGPConnecting}
	status.BFD = s.bfd.status()
	switch {
	case s.settings.noPassword != "":
		status.Message = s.settings.noPassword
	case s.established:
		status.State, status.Routes = networkv1alpha1.BGPEstablished, int32(len(s.routes))
	default:
		status.Message = s.reason
		if s.settings.password != "" && isTimeout(s.reason) {
			status.Message += "; a router with another password does not answer either: compare the key " +
				s.settings.PasswordKey + " of Secret " + networkv1alpha1.BGPPasswordSecret
		}
		status.Message = join(s.lost, status.Message)
	}
	status.Message = status.Message[:min(len(status.Message), maxMessage)]
	return status
}
