package ipsec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	// Changed is called when Apply has to be called again, and After to have it called after a time. Deleted is called instead of
	// Changed when a policy was deleted. They must only enqueue.
	Changed, Deleted func()
	After            func(time.Duration)
	Log              logr.Logger
}

// Tunnels keeps the IKE daemon's configuration. Create it with New. Only one goroutine may call Apply.
type Tunnels struct {
	o     Options
	watch sync.Once

	// cleared means that the kernel has no policies for tunnels.
	cleared  atomic.Bool
	peers    atomic.Int64       // number of the last Apply
	suspects map[string]suspect // by the names of connections that the kernel lacked a part of

	mu     sync.Mutex
	charon *charon // nil: no session
}

// suspect is a connection that the kernel lacked a part of.
type suspect struct {
	due      time.Time // when it may be repaired
	repaired bool
}

// New returns Tunnels that do nothing yet.
func New(o Options) *Tunnels { return &Tunnels{o: o, suspects: map[string]suspect{}} }

// Outcome is the state of the tunnels to peers after Apply.
type Outcome struct {
	Unkeyed  []Peer // no keys are negotiated
	Damaged  []Peer // another program has deleted policies or keys from the kernel, which lacked them also settle earlier
	Repaired []Peer // of Damaged: the IKE daemon has installed the policies again, and negotiates new keys
}

// Apply makes the node's IKE daemon protect the tunnels to these peers, and repairs what another program has deleted from the kernel.
// Without a protection it removes what it made, if a daemon runs. The error is ErrNoDaemon or ErrNoIdentity, or what the daemon refuses.
func (t *Tunnels) Apply(ctx context.Context, chassis string, peers []Peer, protection networkv1alpha1.TunnelProtection) (Outcome, error) {
	if protection == "" {
		return Outcome{}, t.end(ctx)
	}
	failed := Outcome{Unkeyed: peers}
	id, err := readIdentity(t.o.Pair, t.o.Authorities)
	if err != nil {
		t.o.After(retry) // the folder may not exist yet
		return failed, err
	}
	t.watch.Do(func() {
		t.watchIdentity(ctx)
		t.watchKernel(ctx)
	})
	session, err := t.connect()
	if err != nil {
		t.o.After(retry)
		return failed, fmt.Errorf("%w: %w", ErrNoDaemon, err)
	}
	t.cleared.Store(false)
	t.peers.Store(int64(len(peers)))
	if err := session.begin(ctx); err != nil {
		t.drop(session)
		return failed, err
	}
	want := map[string]connection{}
	for _, peer := range peers {
		want[peer.name()] = newConnection(chassis, peer, protection)
	}
	if err := errors.Join(session.identify(ctx, id), session.load(ctx, want)); err != nil {
		t.drop(session) // a new session loads everything again
		return failed, err
	}
	outcome, err := t.repair(ctx, session, peers, want, protection == networkv1alpha1.ProtectionRequired)
	if err != nil {
		t.drop(session)
		return failed, err
	}
	if protection != networkv1alpha1.ProtectionRequired {
		return outcome, nil
	}
	again, err := session.negotiate(ctx, outcome.Unkeyed, outcome.Repaired, time.Now())
	if again > 0 {
		t.o.After(again)
	}
	return outcome, err
}

// repair compares what charon has installed with the kernel, and has connections installed again of which the kernel lacks a part.
func (t *Tunnels) repair(ctx context.Context, session *charon, peers []Peer, want map[string]connection, required bool) (Outcome, error) {
	installed, err := session.installed(ctx, peers)
	if err != nil {
		return Outcome{}, err
	}
	have, err := readKernel()
	if err != nil {
		return Outcome{}, err
	}
	lacking := slices.DeleteFunc(slices.Clone(peers), func(p Peer) bool { return !have.lacks(p, required, installed[p.name()]) })
	o := t.confirm(lacking, time.Now())
	if len(o.Repaired) > 0 {
		if err := session.reload(ctx, o.Repaired, want); err != nil {
			return Outcome{}, err
		}
	}
	o.Unkeyed = slices.DeleteFunc(slices.Clone(peers), func(p Peer) bool {
		return len(installed[p.name()]) > 0 && !slices.Contains(o.Repaired, p)
	})
	return o, nil
}

// confirm returns the peers that are damaged, and to repair now, of peers for which the kernel lacks a part. It has Apply called again for
// the others, and after a repair.
func (t *Tunnels) confirm(lacking []Peer, now time.Time) (o Outcome) {
	next := map[string]suspect{}
	for name, s := range t.suspects {
		if now.Before(s.due) {
			next[name] = s
		}
	}
	for _, p := range lacking {
		s, seen := t.suspects[p.name()]
		switch {
		case !seen:
			s.due = now.Add(settle)
		case !now.Before(s.due):
			o.Repaired = append(o.Repaired, p)
			s = suspect{now.Add(pause), true}
		}
		if s.repaired {
			o.Damaged = append(o.Damaged, p)
		}
		next[p.name()] = s
		t.o.After(s.due.Sub(now))
	}
	t.suspects = next
	return o
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
	if t.cleared.Load() {
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
	t.cleared.Store(true)
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
