package ipsec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// retry is the time between attempts to reach an IKE daemon that does not answer.
const retry = time.Second

// Errors of Apply, besides the IKE daemon's.
var (
	ErrNoDaemon   = errors.New("no IKE daemon answers on this node")
	ErrNoIdentity = errNoIdentity
)

// Options configure Tunnels.
type Options struct {
	// Socket is charon's vici socket. Pair is the file with the chassis' certificate and key, Authorities the file of the authorities.
	Socket, Pair, Authorities string
	// Changed is called when Apply has to be called again, and After to have it called after a time. They must only enqueue.
	Changed func()
	After   func(time.Duration)
	Log     logr.Logger
}

// Tunnels keeps the IKE daemon's configuration. Create it with New. Only one goroutine may call Apply.
type Tunnels struct {
	o     Options
	watch sync.Once

	// cleared means that the kernel has no policies for tunnels.
	cleared bool

	mu     sync.Mutex
	charon *charon // nil: no session
}

// New returns Tunnels that do nothing yet.
func New(o Options) *Tunnels { return &Tunnels{o: o} }

// Apply makes the node's IKE daemon protect the tunnels to these peers, and returns the peers with which keys are not negotiated. Without
// a protection it removes what it made, if a daemon runs. The error is ErrNoDaemon or ErrNoIdentity, or what the daemon refuses.
func (t *Tunnels) Apply(ctx context.Context, chassis string, peers []Peer, protection networkv1alpha1.TunnelProtection) ([]Peer, error) {
	if protection == "" {
		return nil, t.end(ctx)
	}
	id, err := readIdentity(t.o.Pair, t.o.Authorities)
	if err != nil {
		t.o.After(retry) // the folder may not exist yet
		return peers, err
	}
	t.watch.Do(func() { t.watchIdentity(ctx) })
	session, err := t.connect()
	if err != nil {
		t.o.After(retry)
		return peers, fmt.Errorf("%w: %w", ErrNoDaemon, err)
	}
	t.cleared = false
	if err := session.begin(ctx); err != nil {
		t.drop(session)
		return peers, err
	}
	want := map[string]connection{}
	for _, peer := range peers {
		want[peer.name()] = newConnection(chassis, peer, protection)
	}
	if err := errors.Join(session.identify(ctx, id), session.load(ctx, want)); err != nil {
		t.drop(session) // a new session loads everything again
		return peers, err
	}
	established, err := session.established(ctx)
	if err != nil {
		t.drop(session)
		return peers, err
	}
	missing := slices.DeleteFunc(slices.Clone(peers), func(p Peer) bool { return slices.Contains(established, p.name()) })
	if protection != networkv1alpha1.ProtectionRequired {
		return missing, nil
	}
	again, err := session.negotiate(ctx, missing, time.Now())
	if again > 0 {
		t.o.After(again)
	}
	return missing, err
}

// connect returns the session, a new one if it has ended.
func (t *Tunnels) connect() (*charon, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.charon != nil {
		return t.charon, nil
	}
	var session *charon // written before the lock is released, and read with it
	session, err := dial(t.o.Socket, t.o.Changed, func() {
		t.mu.Lock()
		ended := session
		t.mu.Unlock()
		if t.drop(ended) {
			t.o.Changed()
		}
	})
	if err != nil {
		return nil, err
	}
	t.charon = session
	return session, nil
}

// drop ends a session, and reports whether it was the present one.
func (t *Tunnels) drop(session *charon) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if session == nil || t.charon != session {
		return false
	}
	t.charon = nil
	session.close()
	return true
}

// end removes all connections from a daemon that runs, and what a daemon that is gone left in the kernel.
func (t *Tunnels) end(ctx context.Context) error {
	if t.cleared {
		return nil
	}
	if session, err := t.connect(); err == nil {
		err = session.load(ctx, nil)
		if t.drop(session); err != nil {
			return err
		}
	}
	if err := ClearKernel(); err != nil {
		return err
	}
	t.cleared = true
	return nil
}

// Close ends the session. The daemon keeps its connections.
func (t *Tunnels) Close() {
	t.mu.Lock()
	session := t.charon
	t.mu.Unlock()
	t.drop(session)
}

// watchIdentity calls Changed when the node's certificate is renewed, until ctx ends.
func (t *Tunnels) watchIdentity(ctx context.Context) {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(filepath.Dir(t.o.Pair))
	}
	if err != nil {
		t.o.Log.Info("cannot watch the node's certificate; a renewed one takes effect when the agent restarts", "reason", err.Error())
		return
	}
	go func() {
		defer watcher.Close()
		for {
			select {
			case <-ctx.Done():
				t.Close()
				return
			case err := <-watcher.Errors: // events may be lost, as after an overflow
				t.o.Log.Info("the node's certificate is read again", "reason", err)
				t.o.Changed()
			case <-watcher.Events:
				t.o.Changed()
			}
		}
	}()
}

// Names lists peers for a message: "n2 (192.0.2.2), ...", at most five.
func Names(peers []Peer) string {
	const most = 5
	var texts []string
	for _, p := range peers[:min(len(peers), most)] {
		texts = append(texts, fmt.Sprintf("%s (%s)", p.Chassis, p.Address))
	}
	if more := len(peers) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}
