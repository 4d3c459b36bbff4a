package alertrules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	dashboards = "../../config/grafana/*.json"
	// metricsPage lists the programs' metrics. A test of pkg/process/metrics keeps it true.
	metricsPage = "../../docs/user/metrics.md"
)

// entry is a metric's entry in the page: - **`name`** (kind; programs; labels a, b). Help.
var entry = regexp.MustCompile("(?m)^- \\*\\*`(weft_\\w+)`\\*\\* \\((\\w+); [^;)]+(?:; labels ([^)]+))?\\)")

// filtered are the values of labels that queries select.
var filtered = map[string]string{"command": "ADD", "verdict": "drop", "instance": "192.0.2.1:9443"}

// exported returns series of all metrics for promqltest, and the labels of each metric.
func exported(t *testing.T) (load string, labels map[string][]string) {
	t.Helper()
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("load 30s\n")
	labels = map[string][]string{}
	for _, found := range entry.FindAllStringSubmatch(string(page), -1) {
		name, kind := found[1], found[2]
		own := []string{"instance", "job"}
		if found[3] != "" {
			own = append(own, strings.Split(found[3], ", ")...)
		}
		var pairs []string
		for _, label := range own {
			value := filtered[label]
			if value == "" {
				value = "a-" + label
			}
			pairs = append(pairs, fmt.Sprintf("%s=%q", label, value))
		}
		all := strings.Join(pairs, ",")
		if kind != "histogram" {
			labels[name] = own
			fmt.Fprintf(&b, "  %s{%s} 1+1x240\n", name, all)
			continue
		}
		labels[name+"_bucket"], labels[name+"_count"], labels[name+"_sum"] = append(own, "le"), own, own
		fmt.Fprintf(&b, "  %[1]s_bucket{%[2]s,le=\"0.1\"} 1+1x240\n  %[1]s_bucket{%[2]s,le=\"+Inf\"} 2+2x240\n", name, all)
		fmt.Fprintf(&b, "  %[1]s_count{%[2]s} 2+2x240\n  %[1]s_sum{%[2]s} 1+1x240\n", name, all)
	}
	if len(labels) == 0 {
		t.Fatalf("%s has no metrics", metricsPage)
	}
	return b.String(), labels
}

// query is a panel's query.
type query struct{ file, title, expr, legend string }

func queries(t *testing.T) (all []query) {
	t.Helper()
	files, err := filepath.Glob(dashboards)
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil || len(d.Panels) == 0 {
			t.Fatalf("%s: %d panels, error %v", file, len(d.Panels), err)
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, query{filepath.Base(file), p.Title, target.Expr, target.LegendFormat})
			}
		}
	}
	return all
}

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// unknownLabels returns the metrics and labels in a query that no program exports.
func unknownLabels(expr parser.Expr, labels map[string][]string) (wrong []string) {
	var named []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if _, ok := labels[selector.Name]; !ok {
			wrong = append(wrong, "metric "+selector.Name)
		}
		named = append(named, labels[selector.Name]...)
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(labels[selector.Name], m.Name) {
				wrong = append(wrong, "label "+m.Name+" of "+selector.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				if !slices.Contains(named, label) {
					wrong = append(wrong, "label "+label)
				}
			}
		}
		return nil
	})
	return wrong
}

// TestDashboards runs each query with Prometheus' engine on series of the programs' metrics. It must have a result whose
// labels are the labels of the legend.
func TestDashboards(t *testing.T) {
	load, labels := exported(t)
	storage := promqltest.LoadedStorage(t, load)
	t.Cleanup(func() { storage.Close() })
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	for _, q := range queries(t) {
		text := strings.ReplaceAll(q.expr, "$instance", ".*")
		parsed, err := parser.ParseExpr(text)
		if err != nil {
			t.Errorf("%s, %s: %v", q.file, q.title, err)
			continue
		}
		for _, wrong := range unknownLabels(parsed, labels) {
			t.Errorf("%s, %s: no program exports %s: %s", q.file, q.title, wrong, q.expr)
		}
		prepared, err := engine.NewInstantQuery(t.Context(), storage, nil, text, time.Unix(0, 0).Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		result := prepared.Exec(t.Context())
		vector, ok := result.Value.(promql.Vector)
		if result.Err != nil || !ok || len(vector) == 0 {
			t.Errorf("%s, %s: no result (%v): %s", q.file, q.title, result.Err, q.expr)
			continue
		}
		for _, label := range legendLabel.FindAllStringSubmatch(q.legend, -1) {
			if !vector[0].Metric.Has(label[1]) {
				t.Errorf("%s, %s: the legend names %s, which the result %s lacks", q.file, q.title, label[1], vector[0].Metric)
			}
		}
		prepared.Close()
	}
}

// A query of a metric or of a label that no program exports is found.
func TestWrongQueriesAreFound(t *testing.T) {
	_, labels := exported(t)
	for _, expr := range []string{"weft_nodez", `weft_nodes{area="a"}`, "max by (area) (weft_nodes)", "rate(weft_cni_stage_seconds[5m])"} {
		parsed, err := parser.ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		if len(unknownLabels(parsed, labels)) == 0 {
			t.Errorf("%s passes", expr)
		}
	}
}
