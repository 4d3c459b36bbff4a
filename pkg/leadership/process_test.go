package leadership_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weft-network/weft/pkg/leadership"
	"github.com/weft-network/weft/pkg/leadership/leadershiptest"
)

// lease is an API server that has only a lease.
type lease struct {
	mu     sync.Mutex
	object map[string]any // nil if it does not exist
}

func (l *lease) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method != http.MethodGet {
		l.object = nil
		if err := json.NewDecoder(r.Body).Decode(&l.object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if l.object == nil {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"reason": "NotFound", "code": 404})
		return
	}
	_ = json.NewEncoder(w).Encode(l.object)
}

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	spec, _ := l.object["spec"].(map[string]any)
	name, _ := spec["holderIdentity"].(string)
	return name
}

// lead runs a process with this work until it or the test ends. stop ends it in an orderly way.
func lead(t *testing.T, path *leadershiptest.Path, l *lease, work ...manager.RunnableFunc) (ended <-chan error, stop func()) {
	t.Helper()
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	again := true
	options := ctrl.Options{Scheme: runtime.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0", Logger: logr.Discard()}
	options.Controller.SkipNameValidation = &again
	config := path.Config(&rest.Config{Host: server.URL})
	config.ContentType = runtime.ContentTypeJSON
	process, err := leadership.New(config, options,
		&leadership.Lease{Namespace: "weft-system", Name: "test", Identity: "us", Duration: 6 * time.Second,
			Renew: 2 * time.Second, Retry: 50 * time.Millisecond}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running, errs := make(chan error, 1), make(chan error, 1)
	go func() { running <- process.Run(ctx) }()
	go func() {
		errs <- process.Lead(ctx, func(mgr ctrl.Manager) (func(error), error) {
			var failed error
			for _, one := range work {
				failed = errors.Join(failed, mgr.Add(one))
			}
			return func(error) {}, failed
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-running
	})
	return errs, cancel
}

// Work that does not stop when its lease is lost must not overlap with the next leader's work, so Lead returns
// ErrHung and the process exits.
func TestWorkThatDoesNotStopEndsTheProcess(t *testing.T) {
	leads, release := make(chan struct{}), make(chan struct{})
	led := sync.OnceFunc(func() { close(leads) })
	path := &leadershiptest.Path{}
	ended, _ := lead(t, path, &lease{}, func(context.Context) error {
		led()
		<-release
		return nil
	})
	defer close(release)
	<-leads
	path.Hold(leadershiptest.Everything)
	defer path.Pass()
	if err := <-ended; !errors.Is(err, leadership.ErrHung) || !errors.Is(err, leadership.ErrLost) {
		t.Errorf("it ended with %v, want ErrHung because of ErrLost", err)
	}
}

// At an orderly exit a process keeps the lease until its work has stopped, and then releases it.
func TestLeaseIsReleasedWhenTheWorkHasStopped(t *testing.T) {
	leads := make(chan struct{})
	led := sync.OnceFunc(func() { close(leads) })
	l := &lease{}
	var at string
	ended, stop := lead(t, &leadershiptest.Path{}, l, func(ctx context.Context) error {
		led()
		<-ctx.Done()
		at = l.holder()
		return nil
	})
	<-leads
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if at != "us" || l.holder() != "" {
		t.Errorf("the holder was %q while the work stopped, and is %q; want us, and no holder", at, l.holder())
	}
}

// An error of the work ends Lead, and another process can lead at once.
func TestErrorOfTheWorkEndsLead(t *testing.T) {
	l, failure := &lease{}, errors.New("broken")
	ended, _ := lead(t, &leadershiptest.Path{}, l, func(context.Context) error { return failure })
	if err := <-ended; !errors.Is(err, failure) || errors.Is(err, leadership.ErrLost) {
		t.Errorf("it ended with %v, want the work's error", err)
	}
	if l.holder() != "" {
		t.Errorf("the lease is held by %q", l.holder())
	}
}

// The work starts again in the same process, each time after the work of the former leadership has stopped.
func TestLostLeaseBeginsTheWorkAgain(t *testing.T) {
	path := &leadershiptest.Path{}
	var running sync.Mutex
	begun, stopped := make(chan struct{}), make(chan struct{})
	ended, stop := lead(t, path, &lease{}, func(ctx context.Context) error {
		if !running.TryLock() {
			t.Error("two leaderships work at once")
			return nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		running.Unlock()
		stopped <- struct{}{}
		return nil
	})
	<-begun
	for range 3 {
		path.Hold(leadershiptest.Leases)
		<-stopped
		path.Pass()
		<-begun
	}
	stop()
	<-stopped
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
