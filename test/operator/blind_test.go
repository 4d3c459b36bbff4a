package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/campaign"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/metrics"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/test/poll"
)

// blindAfter is how long a replica of these tests leads without the database, and heartbeat how often it checks.
const (
	heartbeat  = 500 * time.Millisecond
	blindAfter = 3 * time.Second
)

// replica is an operator with a lease that campaigns as main.go does.
type replica struct {
	name     string
	endpoint string
	process  *leadership.Process
	health   campaign.Health
	registry *prometheus.Registry
	counters *metrics.Operator
	stop     func()

	mu      sync.Mutex
	elected <-chan struct{} // of its manager; nil without a manager
	leds    int             // number of leaderships
	ends    int             // number of stopped managers
	cause   error           // cause of the last end
}

// replicate starts an operator with a name on a database endpoint. It ends with the test.
func (w *world) replicate(name, endpoint string) *replica {
	w.Helper()
	o := options.Operator{Namespace: "default", Identity: name}
	return w.replicateOn(endpoint, restConfig, controllers.Lease(o))
}

// replicateOn starts an operator that connects to the API server with config.
func (w *world) replicateOn(endpoint string, config *rest.Config, lease leadership.Lease) *replica {
	w.Helper()
	r := &replica{name: lease.Identity, endpoint: endpoint, registry: prometheus.NewRegistry()}
	r.counters = metrics.NewOperator(r.registry)
	managerOptions, err := controllers.ManagerOptions()
	w.must(err)
	r.process, err = leadership.New(config, managerOptions, &lease, ctrl.Log.WithName(r.name))
	w.must(err)
	c := campaign.Campaign{Log: logr.Discard(), Lead: func(ctx context.Context) error { return r.process.Lead(ctx, r.setup) },
		Await: func(ctx context.Context) error {
			return ovndb.Await(ctx, northbound.Schema(), []string{endpoint}, ovndb.TLS{})
		}, Answered: func() { r.counters.Reachable(northbound.Schema().Model.Name()) }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- r.process.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			w.Errorf("replica %s: %v", r.name, err)
		}
	})
	w.Cleanup(r.stop)
	return r
}

func (r *replica) setup(mgr ctrl.Manager) (func(error), error) {
	engine, err := controllers.Setup(mgr, controllers.Options{Northbound: []string{r.endpoint}, Observer: r.counters,
		CountDelay: 50 * time.Millisecond, Heartbeat: heartbeat, BlindAfter: blindAfter})
	if err != nil {
		return nil, err
	}
	r.health.Begin(mgr.Elected(), engine)
	r.mu.Lock()
	r.elected = mgr.Elected()
	r.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		select {
		case <-mgr.Elected():
			r.mu.Lock()
			r.leds++
			r.mu.Unlock()
			news.Notify()
		case <-stopped:
		}
	}()
	return func(cause error) {
		close(stopped)
		r.health.End(cause)
		r.counters.Forget()
		r.mu.Lock()
		r.ends, r.cause, r.elected = r.ends+1, cause, nil
		r.mu.Unlock()
		news.Notify()
	}, nil
}

// leads reports whether one of its managers has been elected and has not stopped.
func (r *replica) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.elected:
		return true
	default:
		return false
	}
}

// ended returns the number of stopped managers, and the cause of the last end.
func (r *replica) ended() (n int, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends, r.cause
}

func (r *replica) led() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leds
}

// connected returns the metric of the database connection; reported is false while the metric is absent.
func (r *replica) connected() (up, reported bool) {
	families, err := r.registry.Gather()
	for _, f := range families {
		if err == nil && f.GetName() == "weft_ovsdb_connected" && len(f.GetMetric()) > 0 {
			return f.GetMetric()[0].GetGauge().GetValue() == 1, true
		}
	}
	return false, false
}

// away samples the metric until stop, which returns how often it did not report the database away after it had once.
func (r *replica) away() (stop func() (otherwise int)) {
	end, ended := make(chan struct{}), make(chan int, 1)
	go func() {
		began, otherwise := false, 0
		for {
			select {
			case <-end:
				if !began {
					otherwise++
				}
				ended <- otherwise
				return
			case <-time.After(20 * time.Millisecond): // a metric has no event
			}
			up, reported := r.connected()
			if began = began || reported && !up; began && (up || !reported) {
				otherwise++
			}
		}
	}()
	return func() int { close(end); return <-ended }
}

// holder waits until one of the names holds the lease.
func (w *world) holder(name string) {
	w.Helper()
	deadline := time.After(patience)
	for {
		var lease coordinationv1.Lease
		err := api.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: "weft-operator"}, &lease)
		if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == name {
			return
		}
		select {
		case <-deadline:
			w.Fatalf("%s does not lead: %+v, %v", name, lease.Spec, err)
		case <-time.After(50 * time.Millisecond): // the cache does not contain the lease
		}
	}
}

// TestBlindLeaderGivesWay covers failure mode L5, a blind leader that keeps its lease while no pod gets an address.
// The leader's path to the database drops everything. The other replica takes over, and pods get their ports.
func TestBlindLeaderGivesWay(t *testing.T) {
	w := newWorld(t)
	path, good := ovndbtest.StartWire(t, w.nb), ovndbtest.StartWire(t, w.nb)
	w.network(dualStack()...)
	first := w.replicate("first", path.Endpoint())
	w.holder("first")
	w.join("n1")
	w.port(w.create("n1", "before")[0])
	second := w.replicate("second", good.Endpoint())

	path.Set(ovndbtest.Lost, ovndbtest.Lost)
	began := time.Now()
	w.port(w.create("n1", "during")[0])
	t.Logf("a pod created when the leader went blind had its port after %s, with a limit of %s",
		time.Since(began).Round(100*time.Millisecond), blindAfter)
	w.holder("second")
	if first.led() != 1 || second.led() != 1 {
		t.Errorf("the first led %d times, the second %d times; want once each", first.led(), second.led())
	}
	if err := first.health.Alive(&http.Request{}); err != nil {
		t.Errorf("the first replica's liveness fails: %v; a restart would not help", err)
	}
	if up, reported := first.connected(); up || !reported {
		t.Errorf("the first replica does not reach the database: connected %v, reported %v", up, reported)
	}
	path.Set(ovndbtest.Passing, ovndbtest.Passing) // it becomes a standby that can take over again
	poll.Eventually(t, patience, poll.True("a standby that reaches the database no longer reports it away", func() bool {
		_, reported := first.connected()
		return !reported
	}))
	good.Set(ovndbtest.Lost, ovndbtest.Lost)
	w.port(w.create("n1", "after")[0])
	w.holder("first")
}

// TestOnlyReplicaReportsTheDatabaseAway checks that a single replica reports the database away as long as it is, and
// continues when it returns.
func TestOnlyReplicaReportsTheDatabaseAway(t *testing.T) {
	w := newWorld(t)
	w.network(dualStack()...)
	only := w.replicate("only", w.nb.Endpoint())
	w.holder("only")
	w.join("n1")
	w.port(w.create("n1", "before")[0])
	w.nb.Kill()
	stop := only.away()
	w.until(func() error {
		if only.led() < 2 {
			return fmt.Errorf("it led %d times", only.led())
		}
		return nil
	})
	if err := only.health.Alive(&http.Request{}); err != nil {
		t.Errorf("its liveness fails: %v; a restart would not help", err)
	}
	if err := only.health.Ready(&http.Request{}); err == nil {
		t.Error("it is ready without a database")
	}
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonDatabaseUnavailable, metav1.ConditionFalse)
	})
	if n := stop(); n > 0 {
		t.Errorf("%d times the metric did not report the database away, and each time an alert would restart", n)
	}
	w.nb.Run()
	w.port(w.create("n1", "after")[0])
	w.until(func() error { return only.health.Ready(&http.Request{}) })
}

// TestServerTooOldIsAnnounced covers failure mode L10: the condition names what the server lacks, and is cleared
// when the server is upgraded.
func TestServerTooOldIsAnnounced(t *testing.T) {
	w := newWorld(t)
	w.nb.Convert(ovndbtest.EditSchema(t, "ovn-nb", func(schema map[string]any) {
		schema["version"] = "5.0.0"
		delete(ovndbtest.Columns(schema, "Logical_Switch_Port"), "options")
	}))
	w.network(dualStack()...)
	w.start()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonDatabaseSchemaTooOld, metav1.ConditionTrue)
	})
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, c := range s.Conditions {
			if c.Type == networkv1alpha1.ConditionDegraded {
				w.says(c.Message, "Logical_Switch_Port.options", "5.0.0")
			}
		}
		return nil
	})
	w.nb.Convert(ovndbtest.SchemaFile(t, "ovn-nb"))
	w.join("n1")
	w.port(w.create("n1", "p")[0])
	w.until(func() error { return unavailable("n1", corev1.ConditionFalse) })
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
}

// TestHealthIsProgress covers failure mode L3, a leader whose workers never started or whose client hangs. The
// liveness check fails if a leader's engine makes no step, but not if a database is away.
func TestHealthIsProgress(t *testing.T) {
	engine := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{"unix:" + t.TempDir() +
		"/absent"}, Log: logr.Discard()}, nil)
	elected := make(chan struct{})
	now := time.Now()
	health := &campaign.Health{Now: func() time.Time { return now }}
	health.Begin(elected, engine)
	expect := func(alive, ready bool, when string) {
		t.Helper()
		if err := health.Alive(nil); (err == nil) != alive {
			t.Errorf("%s: the liveness check returns %v", when, err)
		}
		if err := health.Ready(nil); (err == nil) != ready {
			t.Errorf("%s: the readiness check returns %v", when, err)
		}
	}
	expect(true, true, "a stand-by")
	now = now.Add(time.Hour)
	expect(true, true, "a stand-by after an hour")
	close(elected)
	expect(true, false, "just elected")
	now = now.Add(59 * time.Second)
	expect(true, false, "for 59 s without a step")
	now = now.Add(2 * time.Second)
	expect(false, false, "for 61 s without a step")

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	if err := engine.Wait(t.Context(), func() (bool, error) { return engine.Failure() != nil, nil }); err != nil {
		t.Fatal(err)
	}
	now = time.Now()
	expect(true, false, "trying to connect")
	cancel()
	<-ended
	health.End(ovndb.ErrBlind)
	expect(true, false, "while the lease is left to others")
}

// TestAnswerIsNoticedWhileAnotherLeads checks that a process that was blind notices the database's answer while it
// campaigns, because another may lead for months.
func TestAnswerIsNoticedWhileAnotherLeads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	standby, answers, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	leds := 0
	c := campaign.Campaign{Log: logr.Discard(), Answered: func() { close(answered) },
		Lead: func(ctx context.Context) error {
			if leds++; leds == 1 {
				return ovndb.ErrBlind
			}
			close(standby)
			<-ctx.Done()
			return nil
		},
		Await: func(ctx context.Context) error {
			select {
			case <-answers:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-standby
	select {
	case <-answered:
		t.Error("the answer came before the database's")
	default:
	}
	close(answers)
	<-answered
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
