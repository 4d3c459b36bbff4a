package histories

import (
	"slices"
	"time"
)

// tries is how often a shorter plan must pass to count as passing, because the seed does not determine the
// scheduling of goroutines.
const tries = 3

// shrink removes steps as long as the plan still fails, first many at a time, then fewer, until the time limit.
func shrink(p Plan, limit time.Duration, fails func(Plan) bool) Plan {
	end := time.Now().Add(limit)
	for size := len(p.Steps) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(p.Steps) && time.Now().Before(end); {
			shorter := p
			shorter.Steps = slices.Concat(p.Steps[:at], p.Steps[at+size:])
			failed := false
			for range tries {
				if failed = fails(shorter); failed {
					break
				}
			}
			if failed {
				p = shorter
			} else {
				at += size
			}
		}
	}
	return p
}
