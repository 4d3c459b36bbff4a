package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/ovndb"
)

const (
	// preflightTime bounds a preflight, in which all objects are reconciled at once.
	preflightTime = 100 * time.Second
	// preflightRest is how long the difference must stay the same to count, because units wake other units.
	preflightRest = 2 * time.Second
	// preflightRests is how often the difference is compared. Where pods are created continuously, their changes are
	// part of the result.
	preflightRests = 10
)

// WithoutWrites makes the API server execute no writes of clients with this configuration. It validates, admits and
// responds, but stores nothing.
func WithoutWrites(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRun{next} })
	return config
}

type dryRun struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (d dryRun) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		request = request.Clone(request.Context())
		query := request.URL.Query()
		query.Set("dryRun", "All")
		request.URL.RawQuery = query.Encode()
	}
	return d.next.RoundTrip(request)
}

// Preflight runs all reconcilers once and writes nothing. The manager's configuration must be one of WithoutWrites.
// Preflight returns what an operator of this version would change in the northbound database, and how many rows of
// Weft exist.
func Preflight(ctx context.Context, mgr ctrl.Manager, o Options) (changes []ovndb.Change, rows int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflightTime, fmt.Errorf("it took longer than %s", preflightTime))
	defer cancel()
	reconciled := make(chan struct{})
	o.ReadOnly, o.Reconciled = true, sync.OnceFunc(func() { close(reconciled) })
	engine, err := Setup(mgr, o)
	if err != nil {
		return nil, 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()
	select {
	case <-reconciled:
	case err := <-ended:
		ended <- nil
		return nil, 0, fmt.Errorf("the operator ended: %w", err)
	case <-ctx.Done():
		return nil, 0, errors.Join(context.Cause(ctx), engine.Failure())
	}
	if changes, err = atRest(ctx, engine); err != nil {
		return nil, 0, err
	}
	owners, _ := engine.Owners()
	for _, n := range owners {
		rows += n
	}
	return changes, rows, nil
}

// atRest returns the difference once it stays the same, or the last difference.
func atRest(ctx context.Context, engine *ovndb.Engine) ([]ovndb.Change, error) {
	now, err := engine.Difference(ctx)
	for range preflightRests {
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(preflightRest):
		}
		before := now
		if now, err = engine.Difference(ctx); reflect.DeepEqual(before, now) {
			break
		}
	}
	return now, err
}
