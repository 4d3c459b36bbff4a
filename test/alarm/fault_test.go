//go:build e2e

package alarm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// aftermath is how long what a fault left behind may take to heal, and alerts to end, at the divided durations.
const aftermath = 3 * time.Minute

// fault is something that breaks, and what is to be told of it.
type fault struct {
	name   string
	alerts []expected
	// also are alerts that may fire because of it, at the divided durations: nobody says that a fault has one consequence.
	also []string
	// within bounds the time until all of alerts fire: what the alerts wait for, and what the product takes to notice.
	within time.Duration
	// inject breaks it; cure puts it right.
	inject func(t *testing.T) (cure func())
}

// struck is a fault that was brought about.
type struck struct {
	fault
	ward         *ward
	began, cured time.Time
	cure         func()
	told         []event // of each of alerts, that it fired
	over         []time.Time
}

// strike wants the fault's alerts silent, and injects it.
func (w *ward) strike(t *testing.T, f fault) *struck {
	t.Helper()
	for _, x := range f.alerts {
		if e, err := w.watcher.ended(x); err != nil {
			t.Errorf("before %q, since %s: %v", f.name, e.Time, err)
		}
	}
	t.Logf("fault: %s", f.name)
	s := &struck{fault: f, ward: w, began: time.Now()}
	w.struck = append(w.struck, s)
	s.cure = f.inject(t)
	t.Cleanup(func() { s.heal(t) }) // whatever the test came to
	return s
}

// awaitAlarm waits until all of its alerts fire.
func (s *struck) awaitAlarm(t *testing.T) {
	t.Helper()
	for _, x := range s.alerts {
		var told event
		eventually(t, time.Until(s.began.Add(s.within)), func() (err error) {
			told, err = s.ward.watcher.fired(x, s.began)
			return err
		})
		t.Logf("%s: %v fires after %.0f s: %s", s.name, x, told.Time.Sub(s.began).Seconds(), told.Summary)
		s.told = append(s.told, told)
	}
}

// heal cures it, once.
func (s *struck) heal(t *testing.T) {
	t.Helper()
	if s.cured.IsZero() {
		s.cure()
		s.cured = time.Now()
		t.Logf("cured: %s", s.name)
	}
}

// awaitEnd waits until none of its alerts fires any more.
func (s *struck) awaitEnd(t *testing.T, within time.Duration) {
	t.Helper()
	for _, x := range s.alerts {
		if x.lasts {
			s.over = append(s.over, time.Time{})
			continue
		}
		var end event
		eventually(t, within, func() (err error) {
			end, err = s.ward.watcher.ended(x)
			return err
		})
		if end.Time.Before(s.cured) && !x.passes {
			t.Errorf("%s: %v ended at %s, before the cure at %s", s.name, x, end.Time, s.cured)
		}
		s.over = append(s.over, end.Time)
	}
}

// suffer is a fault from its beginning to the end of its alerts.
func (w *ward) suffer(t *testing.T, f fault) {
	t.Helper()
	s := w.strike(t, f)
	s.awaitAlarm(t)
	s.heal(t)
	s.awaitEnd(t, aftermath)
	w.awaitNodes(t)
}

// nothingElse wants no alert to have fired but because of a fault, and every evaluation to have succeeded.
func (w *ward) nothingElse(t *testing.T, since time.Time) {
	t.Helper()
	for _, e := range w.watcher.since(since) {
		if e.Error != "" {
			t.Errorf("%s: %s is not evaluated: %s", e.Time, e.Alert, e.Error)
		}
		if e.State == firing && !slices.ContainsFunc(w.struck, func(s *struck) bool { return s.explains(e) }) {
			t.Errorf("%s: %s%v (durations divided by %d) fires without its fault: %s", e.Time, e.Alert, e.Labels, e.Factor, e.Summary)
		}
	}
}

// explains says whether an alert fires because of the fault.
func (s *struck) explains(e event) bool {
	if e.Time.Before(s.began) || !s.cured.IsZero() && e.Time.After(s.cured.Add(aftermath)) {
		return false
	}
	return slices.ContainsFunc(s.alerts, func(x expected) bool { return x.is(e) }) || e.Factor == divided && slices.Contains(s.also, e.Alert)
}

// table is what was measured.
func (w *ward) table() string {
	var b strings.Builder
	b.WriteString("\n| alert | fault | durations divided by | fired after | ended after the cure |\n|---|---|---|---|---|\n")
	for _, s := range w.struck {
		for i, e := range s.told {
			end := "not waited for"
			if i < len(s.over) && !s.over[i].IsZero() {
				end = fmt.Sprintf("%.0f s", s.over[i].Sub(s.cured).Seconds())
				if s.over[i].Before(s.cured) {
					end = "before it"
				}
			}
			fmt.Fprintf(&b, "| `%s`%s | %s | %d | %.0f s | %s |\n", e.Alert, labelsOf(s.alerts[i]), s.name, e.Factor, e.Time.Sub(s.began).Seconds(), end)
		}
	}
	return b.String()
}

func labelsOf(x expected) string {
	var texts []string
	for _, value := range x.labels {
		texts = append(texts, value)
	}
	slices.Sort(texts)
	if len(texts) == 0 {
		return ""
	}
	return " " + strings.Join(texts, ", ")
}
