package leadership_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/leadership/leadershiptest"
)

// lease is an API server that has only a lease.
type lease struct {
	mu      sync.Mutex
	object  *coordinationv1.Lease // nil if it does not exist
	version int
	// late counts the renewals that the server carries out just before it receives a release.
	late int
}

func (l *lease) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet {
		sent := &coordinationv1.Lease{}
		if err := json.NewDecoder(r.Body).Decode(sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if l.late > 0 && ptr.Deref(sent.Spec.HolderIdentity, "") == "" {
			l.late--
			l.store(l.object)
		}
		if l.object != nil && sent.ResourceVersion != l.object.ResourceVersion {
			fail(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		l.store(sent)
	}
	if l.object == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(l.object)
}

func (l *lease) store(o *coordinationv1.Lease) {
	l.version++
	l.object = o.DeepCopy()
	l.object.ResourceVersion = strconv.Itoa(l.version)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
}

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.object == nil {
		return ""
	}
	return ptr.Deref(l.object.Spec.HolderIdentity, "")
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

// At an orderly exit a process keeps the lease until its work has stopped, and then releases it, even if the server
// carries out a cancelled renewal meanwhile.
func TestLeaseIsReleasedWhenTheWorkHasStopped(t *testing.T) {
	leads := make(chan struct{})
	led := sync.OnceFunc(func() { close(leads) })
	l := &lease{late: 2}
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
