package agent

import (
	"testing"
	"time"
)

// A connection that was there is absent from the first time that it is missed; one that never was is not.
func TestAbsence(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var a absence
	for _, step := range []struct {
		second  int
		there   bool
		briefly bool // at that second
	}{{0, false, false}, {1, false, false}, {2, true, false}, {10, false, true}, {14, false, true}, {19, false, true}, {20, false, false}, {30, true, false}, {31, false, true}} {
		a.note(step.there, at(step.second))
		if got := a.shorterThan(10*time.Second, at(step.second)); got != step.briefly {
			t.Errorf("second %d, there %t: briefly away %t, want %t", step.second, step.there, got, step.briefly)
		}
	}
}
