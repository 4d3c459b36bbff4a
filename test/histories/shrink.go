package histories

import (
	"slices"
	"time"
)

// tries is how often a shorter plan is tried before it counts as one that passes: goroutines are not scheduled by the seed.
const tries = 3

// shrink leaves out steps while the plan still fails, first many at once, then fewer, until the time is over.
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
