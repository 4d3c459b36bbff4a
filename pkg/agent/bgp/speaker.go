package bgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/bfd"
)

// Speaker keeps the node's sessions. The zero value is not usable; see New.
type Speaker struct {
	options Options

	mu       sync.Mutex
	sessions map[string]*session // by BGPPeer
	// began is set once a desired state with peers was applied. The sessions of that state continue sessions of an
	// earlier agent.
	began bool
	keys  *keys
	bfd   *bfd.Node
	// ended means that the agent ends. No BFD session starts any more.
	ended bool
}

// Options are the settings of a Speaker.
type Options struct {
	// Passwords is the folder of the Secret weft-bgp: a file for each key.
	Passwords string
	// Changed is called when a session's state or a password changes. It must only enqueue.
	Changed func()
	Log     logr.Logger
	// Running ends with the agent.
	Running context.Context
}

// New returns a speaker without sessions.
func New(o Options) *Speaker {
	return &Speaker{options: o, sessions: map[string]*session{}, bfd: bfd.New(o.Log),
		keys: &keys{folder: o.Passwords, changed: o.Changed, log: o.Log}}
}

// Run waits until ctx ends, and then ends BFD by packets that say so, so that routers do not take the end of the agent for
// the end of the node. It leaves the BGP sessions as they are.
func (s *Speaker) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, session := range s.sessions {
		session.bfd.stop("")
	}
	return nil
}

// Refusal reports whether BFD must not run with a router, and why. why is empty while that is not known yet.
type Refusal func(router netip.Addr) (refused bool, why string)

// Apply makes the sessions and their routes equal to spec. A nil spec ends all sessions, and their routers remove the
// routes at once. refuse, if set, says with which routers there must be no BFD. Apply continues after an error, and returns
// all errors.
func (s *Speaker) Apply(spec *networkv1alpha1.NodeBGP, refuse Refusal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := map[string]networkv1alpha1.NodeBGPPeer{}
	if spec != nil {
		for _, peer := range spec.Peers {
			want[peer.Name] = peer
		}
	}
	var errs []error
	for name := range s.sessions {
		if _, ok := want[name]; !ok {
			errs = append(errs, s.end(name))
		}
	}
	if len(want) == 0 {
		return errors.Join(errs...)
	}
	restarting := !s.began
	s.began = true
	for name, peer := range want {
		bfd := peer.BFD
		peer.BFD = nil
		err := s.applyPeer(spec, peer, restarting)
		if err := errors.Join(err, s.applyBFD(name, bfd, refuse)); err != nil {
			errs = append(errs, fmt.Errorf("BGPPeer %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// applyPeer makes one session equal to its desired state. A session with other settings is replaced.
func (s *Speaker) applyPeer(spec *networkv1alpha1.NodeBGP, peer networkv1alpha1.NodeBGPPeer, restarting bool) error {
	routes, err := routesFor(spec, peer.Name)
	if err != nil {
		return err
	}
	settings := settings{NodeBGPPeer: peer, routerID: string(spec.RouterID)}
	if peer.PasswordKey != "" {
		s.keys.watch(s.options.Running)
		settings.password, settings.noPassword = s.keys.read(peer.PasswordKey)
	}
	have := s.sessions[peer.Name]
	if have != nil && have.settings != settings {
		if err := s.end(peer.Name); err != nil {
			return err
		}
		have = nil
	}
	if have == nil {
		return s.begin(settings, routes, restarting)
	}
	return have.setRoutes(routes)
}

// begin starts a session. Without the password it never connects; a change of the Secret replaces the session.
func (s *Speaker) begin(of settings, routes map[netip.Prefix]route, restarting bool) error {
	begun := &session{settings: of, routes: map[netip.Prefix]route{}, ids: map[netip.Prefix]uuid.UUID{}}
	s.sessions[of.Name] = begun
	if of.noPassword != "" {
		return nil
	}
	if err := begun.start(routes, restarting, s.options); err != nil {
		return errors.Join(err, s.end(of.Name)) // the next Apply begins again
	}
	return nil
}

// end ends a session.
func (s *Speaker) end(name string) error {
	session := s.sessions[name]
	delete(s.sessions, name)
	if session.server == nil {
		return nil
	}
	session.bfd.stop("")
	return session.stop()
}

// Status returns the sessions, sorted by peer.
func (s *Speaker) Status() (all []networkv1alpha1.NodeBGPSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		all = append(all, session.status())
	}
	slices.SortFunc(all, func(a, b networkv1alpha1.NodeBGPSession) int { return cmp.Compare(a.Peer, b.Peer) })
	return all
}
