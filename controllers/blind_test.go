package controllers_test

import (
	"context"
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
	ctrl "sigs.k8s.io/controller-runtime"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/metrics"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// blindAfter is how long the replicas of these tests lead without seeing the database, and heartbeat how often they look.
const (
	heartbeat  = 500 * time.Millisecond
	blindAfter = 3 * time.Second
)

// replica is an operator with a lease that campaigns as main.go does.
type replica struct {
	name     string
	health   controllers.Health
	registry *prometheus.Registry
	counters *metrics.Metrics

	mu   sync.Mutex
	leds int // how often it led
}

// replicate starts an operator of that name on an endpoint; it ends with the test.
func (w *world) replicate(name, endpoint string) *replica {
	w.Helper()
	r := &replica{name: name, registry: prometheus.NewRegistry()}
	r.counters = metrics.New(r.registry)
	o := options.Operator{LeaderElection: true, Namespace: "default", Identity: name}
	campaign := controllers.Campaign{Log: logr.Discard(), Lead: func(ctx context.Context) error { return r.lead(ctx, o, endpoint) },
		Await: func(ctx context.Context) error {
			return ovndb.Await(ctx, northbound.Schema(), []string{endpoint}, ovndb.TLS{})
		}, Answered: func() { r.counters.Reachable(northbound.Schema().Model.Name()) }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- campaign.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("replica %s: %v", name, err)
		}
	})
	return r
}

func (r *replica) lead(ctx context.Context, o options.Operator, endpoint string) error {
	managerOptions, err := controllers.ManagerOptions(o)
	if err != nil {
		return err
	}
	if managerOptions.LeaderElectionResourceLockInterface, err = controllers.Lease(restConfig, o); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(restConfig, managerOptions)
	if err != nil {
		return err
	}
	engine, err := controllers.Setup(mgr, controllers.Options{Northbound: []string{endpoint}, Observer: r.counters, CountDelay: 50 * time.Millisecond, Heartbeat: heartbeat, BlindAfter: blindAfter})
	if err != nil {
		return err
	}
	defer r.counters.Forget()
	r.health.Begin(mgr.Elected(), engine)
	defer r.health.End()
	go func() {
		select {
		case <-mgr.Elected():
			r.mu.Lock()
			r.leds++
			r.mu.Unlock()
			news.tell()
		case <-ctx.Done():
		}
	}()
	return mgr.Start(ctx)
}

func (r *replica) led() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leds
}

// connected is what its metric says of the database; told is false while it says nothing.
func (r *replica) connected() (up, told bool) {
	families, err := r.registry.Gather()
	for _, f := range families {
		if err == nil && f.GetName() == "weft_ovsdb_connected" && len(f.GetMetric()) > 0 {
			return f.GetMetric()[0].GetGauge().GetValue() == 1, true
		}
	}
	return false, false
}

// away looks at that until stop, which says how often it was not told to be away once it had been.
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
			case <-time.After(20 * time.Millisecond): // nobody tells of a metric
			}
			up, told := r.connected()
			if began = began || told && !up; began && (up || !told) {
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
		case <-time.After(50 * time.Millisecond): // the lease is in no cache
		}
	}
}

// L5 (a leader that is blind keeps its lease, and no pod gets an address): the leader's path to the database swallows everything;
// the replica whose path does not takes over, and pods get their ports.
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
	t.Logf("the port of a pod that came when the leader went blind was there after %s, with a patience of %s", time.Since(began).Round(100*time.Millisecond), blindAfter)
	w.holder("second")
	if first.led() != 1 || second.led() != 1 {
		t.Errorf("the first led %d times, the second %d times; want once each", first.led(), second.led())
	}
	if err := first.health.Alive(&http.Request{}); err != nil {
		t.Errorf("the first is to be restarted: %v; that would not help", err)
	}
	if up, told := first.connected(); up || !told {
		t.Errorf("the first, which does not reach the database: connected %v, told %v", up, told)
	}
	path.Set(ovndbtest.Passing, ovndbtest.Passing) // it is a stand-by again, and takes over when its turn comes
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, told := first.connected(); !told {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a stand-by that reaches the database tells for ever that it is away")
		}
	}
	good.Set(ovndbtest.Lost, ovndbtest.Lost)
	w.port(w.create("n1", "after")[0])
	w.holder("first")
}

// One replica alone says that the database is away, as long as it is, and goes on when it comes back.
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
		t.Errorf("it is to be restarted: %v; that would not help", err)
	}
	if err := only.health.Ready(&http.Request{}); err == nil {
		t.Error("it is ready, without a database")
	}
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonDatabaseUnavailable, metav1.ConditionFalse)
	})
	if n := stop(); n > 0 {
		t.Errorf("%d times the metric did not say that the database is away: an alert would begin anew each time", n)
	}
	w.nb.Run()
	w.port(w.create("n1", "after")[0])
	w.until(func() error { return only.health.Ready(&http.Request{}) })
}

// L10: the condition names what the server lacks, and goes when the server is upgraded.
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

// L3 (a leader whose workers never started, and a client that hangs): the check for a restart fails when the engine of a leader takes
// no step, and not because a database is away.
func TestHealthIsProgress(t *testing.T) {
	engine := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{"unix:" + t.TempDir() + "/absent"}, Log: logr.Discard()}, nil)
	elected := make(chan struct{})
	now := time.Now()
	health := &controllers.Health{Now: func() time.Time { return now }}
	health.Begin(elected, engine)
	expect := func(alive, ready bool, when string) {
		t.Helper()
		if err := health.Alive(nil); (err == nil) != alive {
			t.Errorf("%s: alive says %v", when, err)
		}
		if err := health.Ready(nil); (err == nil) != ready {
			t.Errorf("%s: ready says %v", when, err)
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
	health.End()
	expect(true, false, "while the lease is left to others")
}

// A process that was blind hears that the database answers also while it campaigns: another may lead for months.
func TestAnAnswerIsHeardWhileAnotherLeads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	standby, answers, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	leds := 0
	campaign := controllers.Campaign{Log: logr.Discard(), Answered: func() { close(answered) },
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
	go func() { ended <- campaign.Run(ctx) }()
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
