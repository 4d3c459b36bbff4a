package leadership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// errSilent is the cause of a loss without a failed request.
var errSilent = errors.New("the API server did not answer in time")

// term is one campaign and the leadership that follows it. It sits between the elector and the lease. It measures
// from the moment when a renewal is sent, because other processes may see the renewal long before a slow API server
// responds to it.
type term struct {
	resourcelock.Interface
	lease   Lease
	log     logr.Logger
	elected chan struct{} // closed once this process leads

	work   context.Context // of leader-only work and of everything else that the manager runs
	stop   context.CancelCauseFunc
	writes context.Context // of requests that write to the API server
	shut   context.CancelCauseFunc

	mu      sync.Mutex
	until   time.Time // leads until then; zero if it does not lead
	timer   *time.Timer
	failure error // of the last request for the lease
}

// newTerm returns a term whose work ends with ctx.
func newTerm(ctx context.Context, lease Lease, lock resourcelock.Interface, log logr.Logger) *term {
	t := &term{Interface: lock, lease: lease, log: log, elected: make(chan struct{})}
	t.work, t.stop = context.WithCancelCause(ctx)
	t.writes, t.shut = context.WithCancelCause(context.WithoutCancel(ctx))
	return t
}

// end refuses all writes from now on.
func (t *term) end() {
	t.stop(errEnded)
	t.shut(errEnded)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// campaign takes the lease and renews it until ctx ends or the lease is lost.
func (t *term) campaign(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: t, LeaseDuration: t.lease.Duration, RenewDeadline: t.lease.Renew, RetryPeriod: t.lease.Retry, Name: t.lease.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				t.log.Info("leads", "lease", t.Describe(), "identity", t.Identity())
				close(t.elected)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != t.Identity() {
					t.log.Info("another process leads; standing by", "lease", t.Describe(), "holder", holder)
				}
			},
		}})
	if err != nil {
		return fmt.Errorf("lease %s: %w", t.Describe(), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.writes, cancel)() // do not renew a lost lease
	elector.Run(klog.NewContext(ctx, logr.Discard()))
	if ctx.Err() == nil {
		t.lose(t.unrenewed())
	}
	return nil
}

// Get implements resourcelock.Interface.
func (t *term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := t.Interface.Get(ctx)
	if t.note(ctx, err); err == nil && t.held() && record.HolderIdentity != t.Identity() {
		t.lose(fmt.Errorf("%w: lease %s is held by %q", ErrLost, t.Describe(), record.HolderIdentity))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (t *term) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return t.renewed(ctx, sent, t.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (t *term) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	return t.renewed(ctx, sent, t.Interface.Update(ctx, record))
}

// renewed records a renewal and when it was sent.
func (t *term) renewed(ctx context.Context, sent time.Time, err error) error {
	t.note(ctx, err)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = sent.Add(t.lease.Renew)
	if t.timer == nil {
		t.timer = time.AfterFunc(time.Until(t.until), t.expire)
	} else {
		t.timer.Reset(time.Until(t.until))
	}
	return nil
}

// note logs the first of several consecutive failures, and their end.
func (t *term) note(ctx context.Context, err error) {
	if ctx.Err() != nil && context.Cause(t.work) != nil {
		return // this process cancelled the request
	}
	t.mu.Lock()
	before := t.failure
	if t.failure = err; errors.Is(err, context.DeadlineExceeded) {
		t.failure = errSilent // the request's own limit ended it just before the lease's
	}
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.log.Info("cannot reach the lease; retrying", "lease", t.Describe(), "error", err.Error(), "retry", t.lease.Retry.String())
	case err == nil && before != nil:
		t.log.Info("reached the lease again", "lease", t.Describe())
	}
}

// held reports whether this process took the lease in this term.
func (t *term) held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.until.IsZero()
}

// expire loses a lease that was not renewed in time.
func (t *term) expire() {
	t.mu.Lock()
	early := time.Now().Before(t.until)
	t.mu.Unlock()
	if !early {
		t.lose(t.unrenewed())
	}
}

// unrenewed returns why the lease is lost.
func (t *term) unrenewed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Errorf("%w: lease %s was not renewed for %s: %w", ErrLost, t.Describe(), t.lease.Renew, cmp.Or(t.failure, errSilent))
}

// lose ends the leadership: it refuses further writes and stops the work.
func (t *term) lose(cause error) {
	t.shut(cause)
	t.stop(cause)
}

// admit returns a context for a request that writes to the API server. The context ends with the leadership.
func (t *term) admit(parent context.Context) (context.Context, context.CancelFunc, error) {
	t.mu.Lock()
	expired := !t.until.IsZero() && !time.Now().Before(t.until)
	t.mu.Unlock()
	if expired { // the timer is late
		t.lose(t.unrenewed())
	}
	if err := context.Cause(t.writes); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	detach := context.AfterFunc(t.writes, func() { cancel(context.Cause(t.writes)) })
	return ctx, func() {
		detach()
		cancel(nil)
	}, nil
}
