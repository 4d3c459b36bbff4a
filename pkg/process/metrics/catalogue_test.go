package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weft-network/weft/pkg/ports"
)

var update = flag.Bool("update", false, "write docs/user/metrics.md")

const cataloguePage = "../../../docs/user/metrics.md"

// registry collects registered metrics with their program.
type registry struct {
	prometheus.Registerer
	program string
	found   *[]metric
}

// metric is an entry of the catalogue.
type metric struct{ name, program, kind, labels, help string }

func (r registry) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		descriptions := make(chan *prometheus.Desc, 8)
		c.Describe(descriptions)
		close(descriptions)
		for d := range descriptions {
			*r.found = append(*r.found, describe(d.String(), r.program, kindOf(c)))
		}
	}
}

func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec, *policies:
		return "counter"
	case *prometheus.GaugeVec, prometheus.Gauge, *waiting:
		return "gauge"
	default:
		return "histogram"
	}
}

// describe parses a description: `Desc{fqName: "a", help: "b", constLabels: {}, variableLabels: {c,d}}`.
func describe(text, program, kind string) metric {
	between := func(from, to string) string {
		_, rest, _ := strings.Cut(text, from)
		inner, _, _ := strings.Cut(rest, to)
		return inner
	}
	return metric{name: between(`fqName: "`, `"`), program: program, kind: kind,
		labels: strings.ReplaceAll(between("variableLabels: {", "}"), ",", ", "), help: between(`help: "`, `", constLabels`)}
}

// catalogue lists the metrics of the programs, by name. A metric of both programs names both.
func catalogue() []metric {
	var found []metric
	NewOperator(registry{prometheus.NewRegistry(), "operator", &found})
	NewAgent(registry{prometheus.NewRegistry(), "agent", &found}, nil, nil)
	NewPolicies(registry{prometheus.NewRegistry(), "agent", &found}, nil)
	NewAPI(registry{prometheus.NewRegistry(), "api", &found})
	slices.SortStableFunc(found, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	var all []metric
	for _, m := range found {
		if last := len(all) - 1; last >= 0 && all[last].name == m.name {
			all[last].program += ", " + m.program
			continue
		}
		all = append(all, m)
	}
	return all
}

// docs/user/metrics.md lists the registered metrics. -update writes it.
func TestCatalogueIsFresh(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b,
		"# Which metrics are there?\n\nThe operator serves its metrics at `:%d/metrics`, in a zone at `:%d/metrics`, "+
			"an agent at `:%d/metrics`, the API of addresses at `:%d/metrics`.\n"+
			"The metrics of Go and of controller-runtime are there too. Alerts that use them have "+
			"[runbooks](../runbooks/README.md). What to watch: [monitoring.md](monitoring.md).\n\n"+
			"This page is generated from the code: `go test ./pkg/process/metrics -run Catalogue -update`.\n\n",
		ports.OperatorMetrics, ports.ZoneOperatorMetrics, ports.AgentMetrics, ports.APIMetrics)
	for _, m := range catalogue() {
		labels := ""
		if m.labels != "" {
			labels = "; labels " + m.labels
		}
		fmt.Fprintf(&b, "- **`%s`** (%s; %s%s). %s\n", m.name, m.kind, m.program, labels, m.help)
	}
	if *update {
		if err := os.WriteFile(cataloguePage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(cataloguePage)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/user/metrics.md is stale (%v): go test ./pkg/process/metrics -run Catalogue -update", err)
	}
}

// Names follow the convention: a prefix, a base unit, and _total only for counters. Each metric has a help text.
func TestNamesAreByConvention(t *testing.T) {
	for _, m := range catalogue() {
		switch {
		case !strings.HasPrefix(m.name, "weft_"), m.help == "",
			m.kind == "counter" != strings.HasSuffix(m.name, "_total"), m.kind == "histogram" && !strings.HasSuffix(m.name, "_seconds"):
			t.Errorf("%+v", m)
		}
	}
}
