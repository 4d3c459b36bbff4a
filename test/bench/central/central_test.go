//go:build e2e

package central

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/renameio/v2"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/process/version"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
	"github.com/weft-network/weft/test/lab/tools"
)

var (
	nodes         = flag.Int("nodes", 250, "nodes of the largest size")
	ports         = flag.Int("ports", 10000, "pods of the largest size")
	loadBalancers = flag.Int("lbs", 2000, "services of the largest size")
	rounds        = flag.Int("rounds", 10, "changes of each kind")
	agents        = flag.Int("agents", 20, "agents of each kind")
	relays        = flag.Int("relays", 0,
		"relays of the southbound database, with and without which as many ovn-controllers as -agents are measured")
	parts = flag.Int("zones", 1,
		"equal parts of the network, by zones, of which one is measured; 1 means one database for all nodes")
	last = flag.Bool("largest", false, "only the largest size, without half and quarter of it")
	out  = flag.String("out", "_out/central.json", "result file, below the repository")
)

// TestCentral measures three sizes, each on its own servers.
func TestCentral(t *testing.T) {
	source, err := tools.SourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	load, err := probe.LoadAverage()
	if err != nil {
		t.Fatal(err)
	}
	sizes := Sizes(Size{*nodes, *ports, *loadBalancers, *parts})
	if *last {
		sizes = sizes[len(sizes)-1:]
	}
	result := Result{Version: version.String(), Machine: figures.Machine{CPUs: runtime.NumCPU(), LoadBefore: load, Go: runtime.Version()}}
	for _, size := range sizes {
		if size.Zones < 1 || size.Nodes%size.Zones != 0 {
			t.Fatalf("%d nodes have no %d equal parts", size.Nodes, size.Zones)
		}
		perNode := (size.Ports + 4**rounds*size.Zones) / size.Nodes // with the new pods of the rounds
		if !ipam.IsPodAddress(subnetOf(0), nth(ipam.FirstPod(subnetOf(0)), perNode)) {
			t.Fatalf("%s: a node's /24 has no room for %d pods", size, perNode)
		}
		t.Run(size.String(), func(t *testing.T) { result.Runs = append(result.Runs, measure(t, size)) })
		if t.Failed() {
			return // a partial result is useless
		}
		if err := figures.WriteColumns(os.Stdout, "nodes/pods/services", columnsOf(result)); err != nil {
			t.Fatal(err)
		}
	}
	path := *out
	if !filepath.IsAbs(path) {
		path = filepath.Join(source, path)
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = renameio.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("written to %s", path)
}

// measure measures one size.
func measure(t *testing.T, size Size) Run {
	w := newWorld(t, size)
	step(t, "fill", w.fill)
	step(t, "northd from nothing", w.cold)
	step(t, "claims", w.claimAll)
	step(t, "rows", w.rows)
	if *relays > 0 { // relays alone
		step(t, "without relays", func() { w.fleets(0) })
		step(t, fmt.Sprintf("%d relays", *relays), func() { w.fleets(*relays) })
		return Run{Size: size, Metrics: w.found}
	}
	step(t, "traces", w.traces)
	step(t, "all anew", w.recomputeAll)
	step(t, "changes", w.changes)
	for _, kind := range agentKinds {
		step(t, "agents, "+kind.name, func() { w.agents(kind) })
	}
	if size.Zones == 1 {
		step(t, "another zone", w.divide)
	}
	return Run{Size: size, Metrics: w.found}
}

func step(t *testing.T, name string, do func()) {
	began := time.Now()
	do()
	t.Logf("%-28s %6.1f s", name, time.Since(began).Seconds())
}

// columnsOf converts a result to a table.
func columnsOf(r Result) (columns []figures.Column) {
	for _, run := range r.Runs {
		columns = append(columns, figures.Column{Head: run.Size.String(), Size: float64(run.Size.Ports), Metrics: run.Metrics})
	}
	return columns
}
