package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const cataloguePage = "../../docs/metrics.md"

// registry collects what is registered, with the program that does.
type registry struct {
	prometheus.Registerer
	program string
	found   *[]metric
}

// metric is one of the catalogue.
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
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	default:
		return "histogram"
	}
}

// describe reads what a description says of itself: `Desc{fqName: "a", help: "b", constLabels: {}, variableLabels: {c,d}}`.
func describe(text, program, kind string) metric {
	between := func(from, to string) string {
		_, rest, _ := strings.Cut(text, from)
		inner, _, _ := strings.Cut(rest, to)
		return inner
	}
	return metric{name: between(`fqName: "`, `"`), program: program, kind: kind, labels: strings.ReplaceAll(between("variableLabels: {", "}"), ",", ", "), help: between(`help: "`, `", constLabels`)}
}

// catalogue lists the metrics of the programs, by name. Both programs have those of New.
func catalogue() []metric {
	var found []metric
	New(registry{prometheus.NewRegistry(), "operator, agent", &found})
	NewCNI(registry{prometheus.NewRegistry(), "agent", &found})
	NewPolicies(registry{prometheus.NewRegistry(), "agent", &found}, nil)
	slices.SortFunc(found, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return found
}

// docs/metrics.md is what the code registers; -update writes it.
func TestCatalogueIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the code: `go test ./pkg/metrics -run Catalogue -update`. The operator serves them at `:9441/metrics`, an agent at\n" +
		"`:9443/metrics`; those of Go and of controller-runtime are there too. What each alert means: [runbooks](runbooks/README.md).\n\n" +
		"| metric | type | program | labels | |\n|---|---|---|---|---|\n")
	for _, m := range catalogue() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, m.program, m.labels, m.help)
	}
	if *update {
		if err := os.WriteFile(cataloguePage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(cataloguePage)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/metrics.md is stale (%v): go test ./pkg/metrics -run Catalogue -update", err)
	}
}

// Names are by convention: a prefix, a base unit, and _total of counters alone; each has a help text.
func TestNamesAreByConvention(t *testing.T) {
	for _, m := range catalogue() {
		switch {
		case !strings.HasPrefix(m.name, "weft_"), m.help == "", m.kind == "counter" != strings.HasSuffix(m.name, "_total"), m.kind == "histogram" && !strings.HasSuffix(m.name, "_seconds"):
			t.Errorf("%+v", m)
		}
	}
}
