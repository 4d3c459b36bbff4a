package absence

import (
	"testing"
	"time"
)

// A connection that was up counts as down from the first Note that says so. A connection that was never up does not
// count.
func TestAbsence(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var a Absence
	for _, step := range []struct {
		second  int
		up      bool
		briefly bool // down for less than 10 s at that second
	}{
		{0, false, false}, {1, false, false}, {2, true, false}, {10, false, true}, {14, false, true}, {19, false, true},
		{20, false, false}, {30, true, false}, {31, false, true},
	} {
		a.Note(step.up, at(step.second))
		if got := a.ShorterThan(10*time.Second, at(step.second)); got != step.briefly {
			t.Errorf("second %d, up %t: briefly away %t, want %t", step.second, step.up, got, step.briefly)
		}
	}
}
