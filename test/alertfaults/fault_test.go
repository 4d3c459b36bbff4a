//go:build e2e

package alertfaults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// aftermath bounds, at the divided durations, how long the repair of a fault's consequences and the end of alerts
// may take.
const aftermath = 3 * time.Minute

// fault is a fault and the alerts that must fire.
type fault struct {
	name   string
	alerts []expected
	// also lists further alerts that may fire because of it, at the divided durations: a fault may have several
	// consequences.
	also []string
	// within bounds the time until all of alerts fire: the alerts' durations and the product's time to detect the
	// fault.
	within time.Duration
	// inject injects the fault; cure repairs it.
	inject func(t *testing.T) (cure func())
}

// struck is an injected fault.
type struck struct {
	fault
	ward         *ward
	began, cured time.Time
	cure         func()
	fired        []event // when each of alerts fired
	over         []time.Time
}

// strike checks that the fault's alerts do not fire, and injects it.
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
	t.Cleanup(func() { s.heal(t) }) // even if the test fails
	return s
}

// awaitAlarm waits until all of the fault's alerts fire.
func (s *struck) awaitAlarm(t *testing.T) {
	t.Helper()
	for _, x := range s.alerts {
		var fired event
		eventually(t, time.Until(s.began.Add(s.within)), func() (err error) {
			fired, err = s.ward.watcher.fired(x, s.began)
			return err
		})
		t.Logf("%s: %v fires after %.0f s: %s", s.name, x, fired.Time.Sub(s.began).Seconds(), fired.Summary)
		s.fired = append(s.fired, fired)
	}
}

// heal repairs the fault, once.
func (s *struck) heal(t *testing.T) {
	t.Helper()
	if s.cured.IsZero() {
		s.cure()
		s.cured = time.Now()
		t.Logf("cured: %s", s.name)
	}
}

// awaitEnd waits until none of the fault's alerts fires.
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

// suffer runs a fault from its injection to the end of its alerts.
func (w *ward) suffer(t *testing.T, f fault) {
	t.Helper()
	s := w.strike(t, f)
	s.awaitAlarm(t)
	s.heal(t)
	s.awaitEnd(t, aftermath)
	w.awaitNodes(t)
}

// nothingElse checks that each fired alert has a fault and that every evaluation succeeded.
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

// explains reports whether the fault may cause the event's alert.
func (s *struck) explains(e event) bool {
	if e.Time.Before(s.began) || !s.cured.IsZero() && e.Time.After(s.cured.Add(aftermath)) {
		return false
	}
	return slices.ContainsFunc(s.alerts, func(x expected) bool {
		return x.is(e)
	}) || e.Factor == divided && slices.Contains(s.also, e.Alert)
}

// table returns the measured times.
func (w *ward) table() string {
	var b strings.Builder
	b.WriteString("\n| alert | fault | durations divided by | fired after | ended after the cure |\n|---|---|---|---|---|\n")
	for _, s := range w.struck {
		for i, e := range s.fired {
			end := "not awaited"
			if i < len(s.over) && !s.over[i].IsZero() {
				end = fmt.Sprintf("%.0f s", s.over[i].Sub(s.cured).Seconds())
				if s.over[i].Before(s.cured) {
					end = "before it"
				}
			}
			fmt.Fprintf(&b, "| `%s`%s | %s | %d | %.0f s | %s |\n", e.Alert, labelsOf(s.alerts[i]), s.name, e.Factor,
				e.Time.Sub(s.began).Seconds(), end)
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
