//go:build e2e

package load

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/renameio/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/process/version"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
	"github.com/weft-network/weft/test/lab/tools"
)

var (
	sizes     = flag.String("sizes", "100/2000", "nodes/pods of each run")
	services  = flag.Int("services", 200, "services, from the beginning of each run")
	endpoints = flag.Int("endpoints", 5, "endpoints of each service")
	policies  = flag.Int("policies", 0, "policies, for the pod additions with policies")
	selectors = flag.Int("selectors", 0,
		"number of different pod selectors of the policies, up to 50; 0: each policy selects every pod")
	namespaces   = flag.Int("namespaces", 20, "namespaces of the pods")
	rounds       = flag.Int("rounds", 100, "events of each kind")
	subjectNames = flag.String("controllers", "weft,floor", "controllers to measure: weft, floor")
	out          = flag.String("out", "_out/bench.json", "result file, below the repository")
	tags         = flag.String("tags", "", "build tags of the controllers")
)

// TestBench measures every controller at every size, each on its own servers.
func TestBench(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	all, err := figures.ParseSizes(*sizes)
	if err != nil {
		t.Fatal(err)
	}
	path := *out
	if !filepath.IsAbs(path) {
		root, err := tools.SourceRoot()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(root, path)
	}
	result := figures.Result{Version: version.String(), Machine: figures.Machine{CPUs: runtime.NumCPU(),
		LoadBefore: loadAverage(t), Go: runtime.Version()}}
	for _, size := range all {
		size.Services, size.Endpoints, size.Policies = *services, *endpoints, *policies
		for name := range strings.SplitSeq(*subjectNames, ",") {
			size.Floating = 0
			if subjects[name].whole {
				size.Floating = *floatingPods
			}
			s, ok := subjects[name]
			if !ok {
				t.Fatalf("-controllers: %q is neither weft nor floor", name)
			}
			t.Run(name+"/"+size.String(), func(t *testing.T) { result.Runs = append(result.Runs, measure(t, s, size, false)) })
			if *onRaft {
				t.Run(name+" on raft/"+size.String(), func(t *testing.T) { result.Runs = append(result.Runs, measure(t, s, size, true)) })
			}
		}
	}
	if t.Failed() {
		return // a partial result is useless
	}
	write(t, result, path)
}

// measure measures one run.
func measure(t *testing.T, s subject, size figures.Size, raft bool) figures.Run {
	path := s.build(t)
	w := newWorld(t, raft)
	run := figures.Run{Size: size, Controller: s.name, Raft: raft}
	step(t, "database alone", func() { run.Database = databaseAlone(t, raft, size.Nodes, size.Pods) })
	step(t, "API server alone", func() { run.APIServer = w.apiServerAlone(min(size.Pods, 2000)) })
	w.startController(s, path)
	if s.whole {
		w.must(w.own.Create(t.Context(), clusterNetwork()))
	}
	step(t, "nodes", func() {
		w.profiled("nodes", func() { run.Nodes = w.phase(size.Nodes, func() { w.join(0, size.Nodes) }) })
	})
	step(t, "agents", func() { run.Agents = w.watchSouthbound(size) })
	step(t, "storm", func() { w.profiled("storm", func() { run.Storm = w.storm(size) }) })
	if s.whole {
		step(t, "services", func() { run.Services = w.phase(size.Services, func() { w.services(size) }) })
	}
	step(t, "events", func() { w.profiled("events", func() { run.Events = w.events(size, *rounds) }) })
	if size.Floating > 0 {
		step(t, "floating", func() {
			run.Floating = w.floating(size, *rounds, run.Events)
		})
		w.must(w.checkHolders(size))
	}
	run.PeakMB = w.peaks()
	w.verify(size.Ports())
	step(t, "pods run", func() { w.each(0, size.Pods, w.run); w.each(firstFloating, size.Floating, w.run); w.rest() })
	step(t, "restart", func() { w.kill(); w.profiled("restart", func() { run.Restart = w.restart(size) }) })
	w.verify(size.Ports() + 1)
	step(t, "rebuild", func() { w.emptied(); w.profiled("rebuild", func() { run.Rebuild = w.rebuild(size) }) })
	w.verify(size.Ports() + 1)
	if size.Floating > 0 {
		w.must(w.checkHolders(size))
	}
	return run
}

func step(t *testing.T, name string, do func()) {
	began := time.Now()
	do()
	t.Logf("%-17s %5.1f s", name, time.Since(began).Seconds())
}

func (w *world) peaks() map[string]float64 {
	w.Helper()
	peaks := map[string]float64{}
	for name, pid := range w.pids {
		var err error
		peaks[name], err = probe.Peak(pid)
		w.must(err)
	}
	return peaks
}

func loadAverage(t *testing.T) float64 {
	t.Helper()
	average, err := probe.LoadAverage()
	if err != nil {
		t.Fatal(err)
	}
	return average
}

func write(t *testing.T, result figures.Result, path string) {
	t.Helper()
	if err := result.WriteTable(os.Stdout); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := renameio.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("written to %s", path)
}
