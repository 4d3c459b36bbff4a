package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	monitoring = "../../../config/monitoring/"
	runbooks   = "../../../docs/runbooks/"
	maxAlerts  = 15
)

// alert is an alert of config/monitoring.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var rule struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}
	text, err := os.ReadFile(monitoring + "rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &rule)
	}
	if err != nil || len(rule.Spec.Groups) != 1 {
		t.Fatalf("%v: %+v", err, rule)
	}
	return rule.Spec.Groups[0].Rules
}

// Every alert has a severity, a sentence, and a page with its expression and instructions. Every page has an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	all := alerts(t)
	if len(all) == 0 || len(all) > maxAlerts {
		t.Errorf("%d alerts, want 1 to %d: a person who is called too often stops responding", len(all), maxAlerts)
	}
	index, err := os.ReadFile(runbooks + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, a := range all {
		pages[a.Alert+".md"] = true
		page, err := os.ReadFile(runbooks + a.Alert + ".md")
		if err != nil || !strings.Contains(string(page), a.Expr) ||
			!strings.Contains(string(page), "## What to do\n\n1. ") || !strings.Contains(string(index), a.Alert+".md") {
			t.Errorf("the page of %s is not there, not in the index, or not of its expression: %v", a.Alert, err)
		}
		if _, todo, _ := strings.Cut(string(page), "## What to do"); !strings.Contains(string(page), "## Impact\n\n") ||
			!strings.Contains(todo, "```") {
			t.Errorf("the page of %s has no impact, or no command in a block of its own", a.Alert)
		}
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" ||
			!strings.HasSuffix(a.Annotations["runbook_url"], "/docs/runbooks/"+a.Alert+".md") || a.For == "" {
			t.Errorf("%+v", a)
		}
		if !strings.Contains(string(page), "severity "+a.Labels["severity"]) || a.For != "0m" &&
			!strings.Contains(string(page), "for "+a.For) {
			t.Errorf("the page of %s does not say that it fires for %s with severity %s", a.Alert, a.For, a.Labels["severity"])
		}
		checkMetrics(t, a.Alert, a.Expr)
		checkMetrics(t, "the page of "+a.Alert, string(page))
	}
	files, err := filepath.Glob(runbooks + "Weft*.md")
	if err != nil || len(files) != len(pages) {
		t.Errorf("%d pages of %d alerts (%v)", len(files), len(pages), err)
	}
}

var metricName = regexp.MustCompile(`weft_\w+`)

// checkMetrics requires that an expression names metrics of the catalogue, including the series of histograms.
func checkMetrics(t *testing.T, where, expr string) {
	t.Helper()
	known := map[string]bool{}
	for _, m := range catalogue() {
		known[m.name] = m.kind != "histogram"
		if m.kind == "histogram" {
			known[m.name+"_bucket"], known[m.name+"_count"], known[m.name+"_sum"] = true, true, true
		}
	}
	named := metricName.FindAllString(expr, -1)
	if len(named) == 0 {
		t.Errorf("%s names no metric: %s", where, expr)
	}
	for _, name := range named {
		if !known[name] {
			t.Errorf("%s names %s, which no program exports", where, name)
		}
	}
}

// The alerts' unit tests use series that the programs export. test/alertrules runs them.
func TestAlertsAreTestedOnMetricsOfTheCatalogue(t *testing.T) {
	for _, a := range alerts(t) {
		var suite struct {
			Tests []struct {
				Name        string
				InputSeries []struct{ Series string } `json:"input_series"`
			}
		}
		text, err := os.ReadFile(monitoring + "tests/" + a.Alert + ".yaml")
		if err == nil {
			err = yaml.Unmarshal(text, &suite)
		}
		if err != nil || len(suite.Tests) == 0 {
			t.Errorf("tests of %s: %v", a.Alert, err)
		}
		for _, scenario := range suite.Tests {
			for _, in := range scenario.InputSeries {
				checkMetrics(t, a.Alert+": "+scenario.Name, in.Series)
			}
		}
	}
}
