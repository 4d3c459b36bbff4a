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
	// preflightTime bounds a preflight, in which all objects are looked at once.
	preflightTime = 100 * time.Second
	// preflightRest is how long nothing may come any more before what was found counts: what builds on others is asked for by them.
	preflightRest = 2 * time.Second
	// preflightRests is how often that is tried: where pods come all the time, what they change is part of the answer.
	preflightRests = 10
)

// WithoutWrites has the API server carry out nothing of what clients with this configuration write: it checks, admits and answers, and keeps nothing.
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

// Preflight runs all reconcilers once and writes nothing: the manager's configuration has to be one WithoutWrites. It returns what an operator of this version
// would change in the northbound database, and how many rows of the product are there.
func Preflight(ctx context.Context, mgr ctrl.Manager, o Options) (changes []ovndb.Change, rows int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflightTime, fmt.Errorf("it took longer than %s", preflightTime))
	defer cancel()
	looked := make(chan struct{})
	o.ReadOnly, o.Looked = true, sync.OnceFunc(func() { close(looked) })
	engine, err := Setup(mgr, o)
	if err != nil {
		return nil, 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()
	select {
	case <-looked:
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

// atRest is the difference as soon as it stays the same, or as it is in the end.
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
