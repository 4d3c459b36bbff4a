// Package alertrules runs the unit tests of config/monitoring/tests with Prometheus' own rules and engine, and the queries of
// config/grafana. promtool runs the same files of tests:
//
//	promtool test rules config/monitoring/tests/*.yaml
package alertrules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

const (
	suites = "../../config/monitoring/tests/"
	dist   = "../../dist/prometheus-rules.yaml"
)

// ruleFile is a file of Prometheus' rules; the fields of a rule are as in the file.
type ruleFile struct {
	Groups []struct {
		Name  string           `json:"name"`
		Rules []map[string]any `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) ruleFile {
	t.Helper()
	var file ruleFile
	text, err := os.ReadFile(dist)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &file)
	}
	if err != nil || len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%s: %v: %+v", dist, err, file)
	}
	return file
}

func (f ruleFile) write(t *testing.T) string {
	t.Helper()
	text, err := yaml.Marshal(f)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func suiteOf(t *testing.T, alert string) suite {
	t.Helper()
	s, err := readSuite(suites + alert + ".yaml")
	if err != nil {
		t.Fatalf("tests of %s: %v", alert, err)
	}
	return s
}

// failures runs a suite against a file of rules.
func failures(t *testing.T, s suite, rules string) (wrong []string) {
	t.Helper()
	for i := range s.Tests {
		found, err := s.Tests[i].run(rules, time.Duration(s.EvaluationInterval))
		if err != nil {
			t.Fatalf("%s: %v", s.Tests[i].Name, err)
		}
		wrong = append(wrong, found...)
	}
	return wrong
}

// TestAlerts checks that each alert fires on the series of its fault, does not fire one evaluation before its "for"
// has passed, and never fires on healthy series.
func TestAlerts(t *testing.T) {
	for _, rule := range readRules(t).Groups[0].Rules {
		name := rule["alert"].(string)
		t.Run(name, func(t *testing.T) {
			s := suiteOf(t, name)
			if len(s.RuleFiles) != 1 || filepath.Join(suites, s.RuleFiles[0]) != filepath.Clean(dist) {
				t.Errorf("rule_files %v, want only %s", s.RuleFiles, dist)
			}
			for _, wrong := range failures(t, s, dist) {
				t.Error(wrong)
			}
			complete(t, s, name)
		})
	}
	files, err := filepath.Glob(suites + "*.yaml")
	if want := len(readRules(t).Groups[0].Rules); err != nil || len(files) != want {
		t.Errorf("%d files of tests for %d alerts: %v", len(files), want, err)
	}
}

// complete checks that the suite has a scenario where the alert fires but not one step before, and a scenario where
// it never fires.
func complete(t *testing.T, s suite, alert string) {
	t.Helper()
	var sharp, quiet bool
	for _, scenario := range s.Tests {
		quiet = quiet || scenario.quiet()
		for _, e := range scenario.AlertRuleTests {
			if e.Alertname != alert {
				t.Errorf("scenario %s tests %s", scenario.Name, e.Alertname)
			}
			sharp = sharp || len(e.ExpAlerts) > 0 && slices.ContainsFunc(scenario.AlertRuleTests, func(before expectation) bool {
				return before.EvalTime == e.EvalTime-s.EvaluationInterval && len(before.ExpAlerts) == 0
			})
		}
	}
	if !sharp || !quiet {
		t.Errorf("fires, silent the step before: %v; quiet on healthy series: %v", sharp, quiet)
	}
}

// TestChangedAlertsAreNoticed checks that the tests fail if an alert always fires, never fires, fires earlier or
// later, or has another text.
func TestChangedAlertsAreNoticed(t *testing.T) {
	changes := map[string]func(rule map[string]any){
		"always":  func(rule map[string]any) { rule["expr"] = "vector(1)" },
		"never":   func(rule map[string]any) { rule["expr"] = "vector(1) > 2" },
		"later":   func(rule map[string]any) { rule["for"] = longer(t, rule["for"]) },
		"sooner":  func(rule map[string]any) { rule["for"] = "0m" },
		"no team": func(rule map[string]any) { rule["labels"] = map[string]any{"severity": "none"} },
		"no page": func(rule map[string]any) { delete(rule["annotations"].(map[string]any), "runbook_url") },
	}
	for i, rule := range readRules(t).Groups[0].Rules {
		name := rule["alert"].(string)
		s := suiteOf(t, name)
		for change, apply := range changes {
			if change == "sooner" && strings.HasPrefix(rule["for"].(string), "0") {
				continue
			}
			changed := readRules(t)
			apply(changed.Groups[0].Rules[i])
			if len(failures(t, s, changed.write(t))) == 0 {
				t.Errorf("the tests pass although %s fires differently or has another text: %s", name, change)
			}
		}
	}
}

func longer(t *testing.T, text any) string {
	t.Helper()
	d, err := model.ParseDuration(text.(string))
	if err != nil {
		t.Fatal(err)
	}
	return (d + model.Duration(time.Minute)).String()
}
