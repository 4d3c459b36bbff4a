package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/leadership/leadershiptest"
)

// replicateBy starts a replica with a short lease, so that the tests are quick.
func (w *world) replicateBy(name string, p *leadershiptest.Path) *replica {
	w.Helper()
	r := w.replicateOn(w.nb.Endpoint(), p.Config(restConfig), leadership.Lease{Namespace: "default", Name: "weft-operator", Identity: name,
		Duration: 8 * time.Second, Renew: 2 * time.Second, Retry: 200 * time.Millisecond})
	p.Judge(r.leads)
	return r
}

// lost waits until a replica has lost its lease n times.
func (w *world) lost(r *replica, n int) {
	w.Helper()
	w.until(func() error {
		ends, cause := r.ended()
		if ends > 0 && !errors.Is(cause, leadership.ErrLost) {
			w.Fatalf("%s stopped leading: %v, want ErrLost", r.name, cause)
		}
		if ends < n {
			return fmt.Errorf("%s lost its lease %d times, want %d", r.name, ends, n)
		}
		return nil
	})
}

// TestLostLeaseIsNoCrash lets no renewal succeed: leadership ends within the process, which leads again when the API
// server answers. Meanwhile nothing is written, the caches stay, and no goroutine of the previous leadership
// remains.
func TestLostLeaseIsNoCrash(t *testing.T) {
	for what, holds := range map[string]func(*http.Request) bool{"requests for the lease hang": leadershiptest.Leases,
		"all requests hang": leadershiptest.Everything} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.network(dualStack()...)
			api := &leadershiptest.Path{}
			w.until(func() error {
				if !w.rows.Connected() {
					return errors.New("the test's own client is not connected")
				}
				return nil
			})
			before := goleak.IgnoreCurrent()
			only := w.replicateBy("only", api)
			w.holder("only")
			w.join("n1")
			w.port(w.create("n1", "before")[0])
			watches, added := api.Watches("/api/v1/pods"), handlers()
			for n := 1; n <= 3; n++ {
				api.Hold(holds)
				w.lost(only, n)
				rows := w.dump()
				during := w.create("n1", fmt.Sprintf("during-%d", n))[0]
				w.seen(during)
				if now := w.dump(); !slices.Equal(now, rows) {
					t.Errorf("without a leader the rows changed from\n%s\nto\n%s", strings.Join(rows, "\n"), strings.Join(now, "\n"))
				}
				if err := only.health.Alive(&http.Request{}); err != nil {
					t.Errorf("its liveness fails: %v; a restart would not help", err)
				}
				api.Pass()
				w.port(during)
				w.holder("only")
				w.until(func() error { return only.health.Ready(&http.Request{}) })
				w.until(func() error {
					if now := handlers(); now != added {
						return fmt.Errorf("%d event handlers, %d in the first leadership", now, added)
					}
					return nil
				})
			}
			if only.led() < 4 {
				t.Errorf("it led %d times, want 4", only.led())
			}
			if now := api.Watches("/api/v1/pods"); now != watches && what == "requests for the lease hang" {
				t.Errorf("watches of pods: %d after the first leadership, now %d; the caches must be kept", watches, now)
			}
			only.stop()
			if strays := api.Strays(); len(strays) > 0 {
				t.Errorf("written without the lease: %s", strings.Join(strays, ", "))
			}
			if err := goleak.Find(append(ends, before)...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLostLeaseGoesToTheOtherReplica lets the API server answer only one of two replicas: the other takes over, and
// back again.
func TestLostLeaseGoesToTheOtherReplica(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	paths := []*leadershiptest.Path{{}, {}}
	first := w.replicateBy("first", paths[0])
	w.holder("first")
	w.join("n1")
	w.port(w.create("n1", "before")[0])
	second := w.replicateBy("second", paths[1])

	paths[0].Hold(leadershiptest.Leases)
	w.lost(first, 1)
	w.holder("second")
	w.port(w.create("n1", "second-leads")[0])
	paths[0].Pass()

	paths[1].Hold(leadershiptest.Everything)
	w.lost(second, 1)
	w.holder("first")
	w.port(w.create("n1", "first-leads")[0])
	paths[1].Pass()

	for i, r := range []*replica{first, second} {
		r.stop()
		if strays := paths[i].Strays(); len(strays) > 0 {
			t.Errorf("%s wrote without the lease: %s", r.name, strings.Join(strays, ", "))
		}
	}
}

// ends are goroutines that remain when the caches of a process have ended: idle connections, and watches that
// controller-runtime filters and does not read to the end. Sometimes a queue of controller-runtime 0.24 remains too,
// which keeps its own lock when it is shut down while it returns a request (issue 3538 of controller-runtime, fixed
// in 0.25).
var ends = []goleak.Option{
	goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"),
	goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"),
	goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleAddBuffer"),
}

// handlers counts the event handlers of all informers in the test's process.
func handlers() int {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	return strings.Count(stacks.String(), "client-go/tools/cache.(*processorListener).pop(")
}

// seen waits until the tests' cache has an object.
func (w *world) seen(pod *corev1.Pod) {
	w.Helper()
	w.until(func() error { return view.Get(context.Background(), client.ObjectKeyFromObject(pod), &corev1.Pod{}) })
}
