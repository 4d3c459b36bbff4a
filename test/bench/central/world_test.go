//go:build e2e

package central

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
)

// patience bounds how long northd may take for everything.
const patience = 15 * time.Minute

// world holds the programs and the engine that writes.
type world struct {
	*testing.T
	*cluster
	central *ovndbtest.Central
	engine  *ovndb.Engine
	nb      *probe.Conn
	sb      *probe.Southbound
	synced  chan int // receives each value of NB_Global.sb_cfg
	config  int      // present value of NB_Global.nb_cfg
	found   []figures.Metric
}

func newWorld(t *testing.T, s Size) *world {
	t.Helper()
	w := &world{T: t, cluster: newCluster(t, s), central: ovndbtest.StartDatabases(t), synced: make(chan int, 1<<16)}
	w.engine = ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{w.central.NB.Endpoint()},
		Log: logr.Discard(), Heartbeat: time.Hour}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.engine.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.must(w.engine.Wait(ctx, func() (bool, error) { return w.engine.Connected(), nil }))
	var err error
	w.nb, err = probe.Dial(w.central.NB.Endpoint(), w.update)
	w.must(err)
	t.Cleanup(w.nb.Close)
	w.sb, err = probe.DialSouthbound(w.central.SB.Endpoint())
	w.must(err)
	t.Cleanup(w.sb.Close)
	_, err = w.nb.Call("monitor_cond", northboundDB, nil, map[string]any{"NB_Global": map[string]any{"columns": []string{"sb_cfg"}}})
	w.must(err)
	return w
}

const northboundDB = "OVN_Northbound"

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// update reads the progress of the southbound database.
func (w *world) update(params json.RawMessage) {
	var parts []json.RawMessage
	var tables map[string]map[string]map[string]struct {
		Reached int `json:"sb_cfg"`
	}
	if json.Unmarshal(params, &parts) != nil || len(parts) != 2 || json.Unmarshal(parts[1], &tables) != nil {
		return
	}
	for _, row := range tables["NB_Global"] {
		for _, change := range row {
			if change.Reached > 0 {
				w.synced <- change.Reached
			}
		}
	}
}

// request requests northd's acknowledgement for all rows written so far.
func (w *world) request() {
	w.Helper()
	w.config++
	_, err := w.nb.Transact(northboundDB, map[string]any{"op": "update", "table": "NB_Global", "where": []any{},
		"row": map[string]any{"nb_cfg": w.config}})
	w.must(err)
}

// sync returns when the southbound database reflects the whole northbound database.
func (w *world) sync() {
	w.Helper()
	w.request()
	w.reached()
}

func (w *world) reached() {
	w.Helper()
	timeout := time.After(patience)
	for {
		select {
		case reached := <-w.synced:
			if reached >= w.config {
				return
			}
		case <-timeout:
			w.Fatalf("northd has not acknowledged %d within %s", w.config, patience)
		}
	}
}

// apply writes units, many at a time, and returns when all are committed. A unit may wait for a later one.
func (w *world) apply(n int, unitsOf func(i int) []unit.Unit) {
	w.Helper()
	const atOnce = 100
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			for _, u := range unitsOf(i) {
				if err := w.engine.Apply(w.Context(), u); err != nil {
					return fmt.Errorf("%s: %w", u.Key, err)
				}
			}
			return nil
		})
	}
	w.must(group.Wait())
}

func (w *world) one(units ...unit.Unit) {
	w.Helper()
	for _, u := range units {
		w.must(w.engine.Apply(w.Context(), u))
	}
}

func (w *world) northd(command string, args ...string) string {
	w.Helper()
	text, err := unixctl.Call(w.Context(), w.central.NorthdControl(), command, args...)
	w.must(err)
	return text
}

// fill writes the whole cluster, as the operator of the measured part does.
func (w *world) fill() {
	w.Helper()
	w.one(w.network())
	if w.size.Zones > 1 {
		w.connect()
	}
	w.apply(w.size.Nodes, w.node)
	for first := 0; first < w.size.Ports; first += perNamespace {
		w.one(groups(inNamespace(w.namespaceOf(first)))...)
		w.one(policy("isolation", inNamespace(w.namespaceOf(first))))
	}
	w.apply(w.size.Ports, func(i int) []unit.Unit { return []unit.Unit{w.pod(i)} })
	w.apply(w.size.LoadBalancers, func(i int) []unit.Unit { return []unit.Unit{w.service(i, i*backends, facts.FromAll)} })
	var here []int
	for i := range w.size.Nodes {
		if w.own(i) {
			here = append(here, i)
		} else {
			w.awaitChassis(i)
		}
	}
	w.register(here...)
}

// register registers the chassis of nodes, as their ovn-controllers do.
func (w *world) register(nodes ...int) {
	w.Helper()
	all := make([]probe.Chassis, 0, len(nodes))
	for _, i := range nodes {
		all = append(all, probe.Chassis{Name: chassisName(i), Address: encapOf(i).String()})
	}
	w.must(w.sb.Register(all...))
}

// note records a figure, and logs it because a run may be long. A counted figure depends on no clock.
func (w *world) note(value float64, counted bool, format string, args ...any) {
	w.Logf("  "+format+": %.3f", append(args, value)...)
	w.found = append(w.found, figures.Metric{Name: fmt.Sprintf(format, args...), Value: value, Counted: counted, PerEvent: true})
}

// noteMB notes a process's memory.
func (w *world) noteMB(pid int, format string, args ...any) {
	w.Helper()
	mb, err := probe.Resident(pid)
	w.must(err)
	w.note(mb, false, format, args...)
}

func (w *world) cpu(pid int) time.Duration {
	w.Helper()
	used, err := probe.Exact(pid)
	w.must(err)
	return used
}
