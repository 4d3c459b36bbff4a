package watch

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
)

// Event is a change: of an alert, of the readable targets, or a failed evaluation.
type Event struct {
	Time time.Time `json:"time"`
	// Alert with Labels, evaluated with durations divided by Factor, has State: pending, firing or inactive.
	Alert  string            `json:"alert,omitempty"`
	Factor int               `json:"factor,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	State  string            `json:"state,omitempty"`
	// Summary is the annotation of a firing alert.
	Summary string `json:"summary,omitempty"`
	// Targets holds all targets and whether they can be read.
	Targets map[string]bool `json:"targets,omitempty"`
	// Error is why a rule could not be evaluated.
	Error string `json:"error,omitempty"`
}

// reporter reports changes.
type reporter struct {
	mu     sync.Mutex
	report func(Event)
	active map[string]map[string]Event // group -> alert and labels -> last event of active alerts
	read   map[string]bool             // target -> whether it could be read
}

func newReporter(report func(Event)) *reporter {
	return &reporter{report: report, active: map[string]map[string]Event{}}
}

// evaluated reports the changes of a group after its evaluation.
func (r *reporter) evaluated(g *rules.Group, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[string]Event{}
	for _, rule := range g.Rules() {
		if err := rule.LastError(); err != nil {
			r.report(Event{Time: at, Alert: rule.Name(), Error: err.Error()})
		}
		alerting, ok := rule.(*rules.AlertingRule)
		if !ok {
			continue
		}
		for _, a := range alerting.ActiveAlerts() {
			now[a.Labels.String()] = eventOf(a, at)
		}
	}
	key := rules.GroupKey(g.File(), g.Name())
	before := r.active[key]
	for id, e := range now {
		if before[id].State != e.State {
			r.report(e)
		}
	}
	for id, e := range before {
		if _, still := now[id]; !still {
			e.Time, e.State, e.Summary = at, rules.StateInactive.String(), ""
			r.report(e)
		}
	}
	r.active[key] = now
}

func eventOf(a *rules.Alert, at time.Time) Event {
	e := Event{Time: at, Alert: a.Labels.Get(labels.AlertName), State: a.State.String(), Labels: a.Labels.Map()}
	e.Factor, _ = strconv.Atoi(e.Labels[factorLabel]) // set by divide
	delete(e.Labels, factorLabel)
	delete(e.Labels, labels.AlertName)
	if a.State == rules.StateFiring {
		e.Summary = a.Annotations.Get("summary")
	}
	return e
}

// targets reports a change of the readable targets.
func (r *reporter) targets(now map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.read, now) {
		r.read = now
		r.report(Event{Time: time.Now(), Targets: now})
	}
}
