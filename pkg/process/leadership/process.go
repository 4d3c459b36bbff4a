package leadership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// Grace is how long a process waits for its work at an orderly exit. It holds its lease meanwhile.
	Grace = 5 * time.Second
	// firstPause and lastPause bound the pause between attempts while the API server is unreachable.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// Process leads repeatedly. It holds everything that outlives a leadership.
type Process struct {
	config  *rest.Config
	options ctrl.Options
	lease   *Lease
	caches  *caches
	log     logr.Logger
}

// New returns a process whose managers have these options, except for leader election and caches. With a nil lease it
// leads without a lease.
func New(config *rest.Config, options ctrl.Options, lease *Lease, log logr.Logger) (*Process, error) {
	all, err := newCaches(config, options)
	if err != nil {
		return nil, fmt.Errorf("caches: %w", err)
	}
	return &Process{config: config, options: options, lease: lease, caches: all, log: log}, nil
}

// Run runs the caches until ctx ends. It must be called once.
func (p *Process) Run(ctx context.Context) error { return p.caches.Cache.Start(ctx) }

// Lead campaigns for the lease and leads. When the lease is lost, it campaigns again at once, with a new manager and
// the same caches. It returns when ctx ends, or with the error that ended the work. If another process holds the
// lease by then, the error is also ErrLost.
//
// setup registers the work of one manager. The manager's Elected is closed when the process leads. The returned
// function is called when that work has stopped, with the cause.
func (p *Process) Lead(ctx context.Context, setup func(ctrl.Manager) (stopped func(cause error), err error)) error {
	pause := firstPause
	for {
		err, lost := p.lead(ctx, setup)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrHung):
			return err
		case lost != nil:
			p.log.Info("stopped leading; campaigning again", "cause", lost.Error())
			pause = firstPause
		case unavailable(err):
			p.log.Info("API server is unavailable; campaigning again after a pause", "error", err.Error(), "pause", pause.String())
			wait(ctx, pause)
			pause = min(2*pause, lastPause)
		default:
			return err
		}
	}
}

// lead runs one manager. If it ended because the lease was lost, lost is the cause.
func (p *Process) lead(ctx context.Context, setup func(ctrl.Manager) (func(error), error)) (err, lost error) {
	t, err := p.newTerm(ctx)
	if err != nil {
		return err, nil
	}
	defer t.end()
	caches := p.caches.open(t.work)
	defer caches.end()
	mgr, err := p.newManager(t, caches)
	if err != nil {
		return err, nil
	}
	stopped, err := setup(mgr)
	if err != nil {
		return err, nil
	}
	defer func() { stopped(errors.Join(err, lost)) }()

	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	campaigned := make(chan error, 1)
	go func() { campaigned <- p.campaign(electing, t, caches) }()
	err = run(t, mgr)
	if errors.Is(err, ErrHung) {
		return err, nil
	}
	stop()
	err = errors.Join(err, <-campaigned)
	if lost = context.Cause(t.work); errors.Is(lost, ErrLost) {
		return err, lost
	}
	t.end()
	return p.release(context.WithoutCancel(ctx), t, err), nil
}

func (p *Process) newTerm(ctx context.Context) (*term, error) {
	if p.lease == nil {
		return newTerm(ctx, Lease{}, nil, p.log), nil
	}
	lock, err := p.lease.Lock(p.config)
	if err != nil {
		return nil, err
	}
	return newTerm(ctx, *p.lease, lock, p.log), nil
}

func (p *Process) newManager(t *term, caches *view) (ctrl.Manager, error) {
	options, forever := p.options, time.Duration(-1)
	options.LeaderElection, options.LeaderElectionResourceLockInterface = false, nil
	options.NewCache = caches.provide
	options.GracefulShutdownTimeout = &forever // run enforces the deadline
	options.BaseContext = func() context.Context { return t.work }
	config := rest.CopyConfig(p.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &gate{next, t} })
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return &candidate{mgr, t}, mgr.Add(&sentinel{t})
}

// campaign takes the lease once the caches are in sync.
func (p *Process) campaign(ctx context.Context, t *term, caches *view) error {
	if caches.WaitForCacheSync(t.work); t.work.Err() != nil {
		return nil
	}
	if p.lease == nil {
		close(t.elected)
		return nil
	}
	if err := t.campaign(ctx); err != nil {
		t.stop(err)
		return err
	}
	return nil
}

// run returns when the manager has stopped, or with ErrHung if it does not stop in time.
func run(t *term, mgr ctrl.Manager) error {
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.work) }()
	select {
	case err := <-ended:
		return err
	case <-t.work.Done():
	}
	grace := Grace
	if errors.Is(context.Cause(t.work), ErrLost) {
		grace = t.lease.Duration - t.lease.Renew
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return fmt.Errorf("%w, %s: %w", ErrHung, grace, context.Cause(t.work))
	}
}

// release frees the lease and returns err, joined with ErrLost if another process holds the lease.
func (p *Process) release(ctx context.Context, t *term, err error) error {
	if p.lease == nil || !t.held() {
		return err
	}
	holder, failed := p.lease.release(ctx, t.Interface)
	switch {
	case failed != nil:
		p.log.Info("cannot release the lease; other processes wait until it expires", "lease", t.Describe(), "error",
			failed.Error(), "duration", p.lease.Duration.String())
	case holder != "":
		return errors.Join(err, fmt.Errorf("%w: lease %s is held by %q", ErrLost, t.Describe(), holder))
	}
	return err
}

// unavailable reports whether an error means that the API server does not respond, or not now.
func unavailable(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// wait returns after a pause, or when ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	<-ctx.Done()
}
