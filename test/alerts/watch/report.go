package watch

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"
)

// Event is something that changed: an alert, the targets that can be read, or an evaluation that failed.
type Event struct {
	Time time.Time `json:"time"`
	// Alert of these Labels, evaluated with durations divided by Factor, has this State: pending, firing or inactive.
	Alert  string            `json:"alert,omitempty"`
	Factor int               `json:"factor,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	State  string            `json:"state,omitempty"`
	// Summary is the annotation of one that fires.
	Summary string `json:"summary,omitempty"`
	// Targets are all of them, with whether they can be read.
	Targets map[string]bool `json:"targets,omitempty"`
	// Error is why a rule could not be evaluated.
	Error string `json:"error,omitempty"`
}

// reporter tells what is other than before.
type reporter struct {
	mu     sync.Mutex
	tell   func(Event)
	active map[string]map[string]Event // group -> alert and labels -> its last event, but for those that are inactive
	read   map[string]bool             // target -> it could be read
}

func newReporter(tell func(Event)) *reporter {
	return &reporter{tell: tell, active: map[string]map[string]Event{}}
}

// evaluated looks at a group that has just been.
func (r *reporter) evaluated(g *rules.Group, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[string]Event{}
	for _, rule := range g.Rules() {
		if err := rule.LastError(); err != nil {
			r.tell(Event{Time: at, Alert: rule.Name(), Error: err.Error()})
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
			r.tell(e)
		}
	}
	for id, e := range before {
		if _, still := now[id]; !still {
			e.Time, e.State, e.Summary = at, rules.StateInactive.String(), ""
			r.tell(e)
		}
	}
	r.active[key] = now
}

func eventOf(a *rules.Alert, at time.Time) Event {
	e := Event{Time: at, Alert: a.Labels.Get(labels.AlertName), State: a.State.String(), Labels: a.Labels.Map()}
	e.Factor, _ = strconv.Atoi(e.Labels[factorLabel]) // divide has written it
	delete(e.Labels, factorLabel)
	delete(e.Labels, labels.AlertName)
	if a.State == rules.StateFiring {
		e.Summary = a.Annotations.Get("summary")
	}
	return e
}

// targets looks at what can be read.
func (r *reporter) targets(now map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.read, now) {
		r.read = now
		r.tell(Event{Time: time.Now(), Targets: now})
	}
}
