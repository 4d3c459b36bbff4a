package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// operator is a running operator with a record of its writes.
type operator struct {
	world  *world
	engine *ovndb.Engine
	cancel context.CancelFunc
	ended  chan struct{} // closed when it has ended; err is set before
	socket string        // for "weft admin"
	err    error

	mu    sync.Mutex
	calls []string // "PATCH /api/v1/... <body>" of each write to the API server
	reads []string // the path of each read from the API server, without watches
	units int      // committed write transactions
	sizes []int    // number of operations of each refused write transaction
	epoch int      // fence transactions

	drifts []string // "<table> <state>" of each foreign difference
}

// start runs an operator as main.go does, but without a lease.
func (w *world) start() *operator {
	w.Helper()
	o := &operator{world: w, ended: make(chan struct{}), socket: filepath.Join(w.TempDir(), "admin.sock")}
	managerOptions, err := controllers.ManagerOptions()
	w.must(err)
	same := true
	managerOptions.Controller.SkipNameValidation = &same // an earlier operator of this process used the same names
	config := rest.CopyConfig(restConfig)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{next, o} })
	mgr, err := ctrl.NewManager(config, managerOptions)
	w.must(err)
	o.engine, err = controllers.Setup(mgr, controllers.Options{Zone: w.inZone, Northbound: []string{w.nb.Endpoint()}, Observer: o,
		CountDelay: w.countDelay, AdminSocket: o.socket, Lookup: w.lookup, Workloads: w.workloads, Namespace: w.namespace})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() {
		o.err = mgr.Start(ctx)
		close(o.ended)
	}()
	w.operators = append(w.operators, o)
	return o
}

// stop ends the operator in order.
func (o *operator) stop() {
	o.cancel()
	<-o.ended
}

// works reports whether it runs and is connected to its database.
func (o *operator) works() bool {
	select {
	case <-o.ended:
		return false
	default:
		return o.engine.Connected()
	}
}

// settle returns when the engine has processed all earlier requests. An operator that has just started may not be connected yet.
func (o *operator) settle() {
	o.world.Helper()
	o.world.until(func() error {
		return o.engine.Apply(o.world.Context(), unit.Unit{Key: unit.NewKey("test", "barrier")})
	})
}

// Transaction implements ovndb.Observer.
func (o *operator) Transaction(_, kind string, operations int, err error) {
	defer news.Notify()
	o.mu.Lock()
	defer o.mu.Unlock()
	if kind == "fence" {
		o.epoch++
	} else if kind == "write" && err == nil {
		o.units++
	} else if kind == "write" {
		o.sizes = append(o.sizes, operations)
	}
}

// refused returns the number of operations of each write transaction that the database refused.
func (o *operator) refused() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sizes)
}

// Connected implements ovndb.Observer.
func (o *operator) Connected(string, bool) { news.Notify() }

// Drift implements ovndb.Observer.
func (o *operator) Drift(_, table, state string) {
	defer news.Notify()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drifts = append(o.drifts, table+" "+state)
}

func (o *operator) transactions() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.units
}

// writes returns the writes to the API server whose path contains the text.
func (o *operator) writes(text string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(o.calls), func(call string) bool {
		return !strings.Contains(strings.Fields(call)[1], text)
	})
}

// note records a write.
func (o *operator) note(request *http.Request) {
	var text []byte
	if request.GetBody != nil {
		if body, err := request.GetBody(); err == nil {
			text, _ = io.ReadAll(body) // an error shortens the text, so that a search fails
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, fmt.Sprintf("%s %s %s", request.Method, request.URL.Path, text))
}

func (o *operator) noteRead(request *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads = append(o.reads, request.URL.Path)
}

// requests returns all requests to the API server except watches.
func (o *operator) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Concat(o.calls, o.reads)
}

// countingTransport records the writes of one operator.
type countingTransport struct {
	next     http.RoundTripper
	operator *operator
}

// RoundTrip implements http.RoundTripper.
func (c *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		c.operator.note(request)
	} else if request.URL.Query().Get("watch") == "" {
		c.operator.noteRead(request)
	}
	return c.next.RoundTrip(request)
}

// drifted returns "<table> <state>" of each difference that the operator counted.
func (o *operator) drifted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.drifts)
}
