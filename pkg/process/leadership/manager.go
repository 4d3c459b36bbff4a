package leadership

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// candidate is a manager whose leader-only work begins when its term is elected. It does not use controller-runtime's
// leader election, which does not wait for the work when the lease is lost, and releases the lease before the work
// has stopped.
type candidate struct {
	ctrl.Manager
	term *term
}

// Elected implements manager.Manager.
func (c *candidate) Elected() <-chan struct{} { return c.term.elected }

// Add implements manager.Manager.
func (c *candidate) Add(work manager.Runnable) error {
	if election, ok := work.(manager.LeaderElectionRunnable); ok && !election.NeedLeaderElection() {
		return c.Manager.Add(work)
	}
	switch work.(type) {
	case *manager.Server, webhook.Server, interface{ GetCache() cache.Cache }: // these run in every process
		return c.Manager.Add(work)
	}
	return c.Manager.Add(&elected{work, c.term})
}

// elected is work that runs only in the process that leads.
type elected struct {
	manager.Runnable
	term *term
}

// Start implements manager.Runnable.
func (e *elected) Start(ctx context.Context) error {
	select {
	case <-e.term.elected:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil
	}
	return e.Runnable.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (e *elected) NeedLeaderElection() bool { return true }

// sentinel detects that the manager begins to stop, because it is in the group that the manager stops first.
type sentinel struct{ term *term }

// Start implements manager.Runnable.
func (s *sentinel) Start(ctx context.Context) error {
	<-ctx.Done()
	s.term.stop(errEnded)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *sentinel) NeedLeaderElection() bool { return false }
