package alertrules

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// suite is a file of promtool's rule tests.
type suite struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []scenario     `json:"tests"`
}

// scenario is a set of series and the expected alerts.
type scenario struct {
	Name           string         `json:"name"`
	Interval       model.Duration `json:"interval"`
	InputSeries    []series       `json:"input_series"`
	AlertRuleTests []expectation  `json:"alert_rule_test"`
}

type series struct{ Series, Values string }

// expectation lists the alerts with a name that fire at a time; without ExpAlerts none fires.
type expectation struct {
	EvalTime  model.Duration `json:"eval_time"`
	Alertname string         `json:"alertname"`
	ExpAlerts []firing       `json:"exp_alerts"`
}

type firing struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

func readSuite(path string) (suite, error) {
	var s suite
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &s)
	}
	return s, err
}

// quiet reports whether a scenario expects no alert at all.
func (s *scenario) quiet() bool {
	return !slices.ContainsFunc(s.AlertRuleTests, func(e expectation) bool { return len(e.ExpAlerts) > 0 })
}

// run evaluates the rules of a file as Prometheus does, step by step, and returns the differences. In a quiet
// scenario its alerts may not fire at any step, which is stricter than promtool.
func (s *scenario) run(ruleFile string, step time.Duration) (wrong []string, err error) {
	loader, err := promqltest.NewLazyLoader(s.load(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, err
	}
	defer loader.Close()
	groups, err := s.rules(ruleFile, loader)
	if err != nil {
		return nil, err
	}
	start := time.Unix(0, 0).UTC()
	for at := start; !at.After(start.Add(s.end())); at = at.Add(step) {
		loader.WithSamplesTill(at, func(err2 error) { err = err2 })
		if err != nil {
			return nil, err
		}
		fire, err := evaluate(loader.Context(), groups, at)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, s.compare(at.Sub(start), fire)...)
	}
	return wrong, nil
}

// load returns the series in PromQL's test language.
func (s *scenario) load() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s\n", s.Interval)
	for _, in := range s.InputSeries {
		fmt.Fprintf(&b, "  %s %s\n", in.Series, in.Values)
	}
	return b.String()
}

func (s *scenario) rules(file string, loader *promqltest.LazyLoader) (map[string]*rules.Group, error) {
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		Appendable: loader.Storage(),
		Context:    loader.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
	})
	groups, errs := manager.LoadGroups(time.Duration(s.Interval), labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %v", file, errs)
	}
	return groups, nil
}

// end returns the scenario's last evaluation time.
func (s *scenario) end() time.Duration {
	var last time.Duration
	for _, e := range s.AlertRuleTests {
		last = max(last, time.Duration(e.EvalTime))
	}
	return last
}

// evaluate returns the firing alerts by name.
func evaluate(ctx context.Context, groups map[string]*rules.Group, at time.Time) (map[string][]string, error) {
	fire := map[string][]string{} // alert -> its firing instances, as text
	for _, group := range groups {
		group.Eval(ctx, at)
		for _, rule := range group.Rules() {
			if err := rule.LastError(); err != nil {
				return nil, fmt.Errorf("rule %s: %w", rule.Name(), err)
			}
			alerting, ok := rule.(*rules.AlertingRule)
			if !ok {
				continue
			}
			for _, alert := range alerting.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					fire[rule.Name()] = append(fire[rule.Name()], describe(alert.Labels, alert.Annotations))
				}
			}
		}
	}
	return fire, nil
}

func describe(l, annotations labels.Labels) string { return l.String() + " " + annotations.String() }

func (s *scenario) compare(at time.Duration, fire map[string][]string) (wrong []string) {
	for _, e := range s.AlertRuleTests {
		if s.quiet() && len(fire[e.Alertname]) > 0 {
			return []string{fmt.Sprintf("%s: at %v fires %v, want nothing", s.Name, at, fire[e.Alertname])}
		}
		if time.Duration(e.EvalTime) != at {
			continue
		}
		var want []string
		for _, f := range e.ExpAlerts {
			l := labels.NewBuilder(labels.FromMap(f.Labels)).Set(labels.AlertName, e.Alertname).Labels()
			want = append(want, describe(l, labels.FromMap(f.Annotations)))
		}
		have := fire[e.Alertname]
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			wrong = append(wrong, fmt.Sprintf("%s: at %v\nwant %v\nhave %v", s.Name, at, want, have))
		}
	}
	return wrong
}
