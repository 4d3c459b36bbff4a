package wildcards

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Watch observes while there are wildcards. Create it with New.
type Watch struct {
	log     logr.Logger
	changed func()
	after   func(time.Duration)

	observer *observer

	mu  sync.Mutex
	tap *tap
}

// New returns a Watch that observes nothing yet. It calls changed when Known has a new address, and when it cannot go on;
// then Apply is to be called again. It calls after with the time until Known must be called again.
func New(log logr.Logger, changed func(), after func(time.Duration)) *Watch {
	return &Watch{log: log, changed: changed, after: after, observer: newObserver()}
}

// Apply observes what a NodeNetwork wants, until ctx ends. reported is the NodeNetwork's status, which a new process goes
// on with. The error says why nothing can be observed.
func (w *Watch) Apply(ctx context.Context, want *networkv1alpha1.NodeWildcards, reported []networkv1alpha1.ObservedWildcard) error {
	if want == nil {
		want = &networkv1alpha1.NodeWildcards{}
	}
	var servers []netip.Addr
	for _, text := range want.Nameservers {
		if a, err := netip.ParseAddr(string(text)); err == nil {
			servers = append(servers, a)
		}
	}
	w.observer.want(want.Names, servers, reported, time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	switch needed := len(want.Names) > 0; {
	case needed && w.tap == nil:
		return w.open(ctx)
	case !needed && w.tap != nil:
		w.tap.close()
		w.tap = nil
	}
	return nil
}

// open opens the tap and reads it until it is closed. w.mu is locked.
func (w *Watch) open(ctx context.Context) error {
	opened, err := openTap()
	if err != nil {
		return err
	}
	w.tap = opened
	go func() {
		defer context.AfterFunc(ctx, opened.close)()
		err := opened.run(func(p packet, sent bool) {
			if w.observer.take(p, sent, time.Now()) {
				w.changed()
			}
		})
		opened.close()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.tap == opened && ctx.Err() == nil {
			w.tap = nil
			w.log.Info("cannot observe answers of name servers; retrying", "reason", err.Error())
			w.changed()
		}
	}()
	return nil
}

// Known returns the addresses that pods got, in the form of a status. full means that there is no room for more.
func (w *Watch) Known() (list []networkv1alpha1.ObservedWildcard, full bool) {
	now := time.Now()
	list, until, full := w.observer.known(now)
	if !until.IsZero() {
		w.after(until.Sub(now))
	}
	return list, full
}
