package figures

import (
	"math"
	"slices"
	"time"
)

// Spread is the distribution of a time, in milliseconds.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SpreadOf computes the distribution of times. Each percentile is one of the times (nearest rank).
func SpreadOf(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		rank := (len(times)*percent + 99) / 100
		return Milliseconds(times[max(rank, 1)-1])
	}
	return Spread{N: len(times), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// Milliseconds converts a time to a number with microsecond precision.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Exponent returns b of cost = a·size^b, fitted by least squares of the logarithms: 0 if the cost does not depend on
// the size, 1 if it is proportional. ok is false with fewer than two sizes, or if a cost is 0.
func Exponent(size, cost []float64) (b float64, ok bool) {
	var n, sx, sy, sxx, sxy float64
	for i := range size {
		if size[i] <= 0 || cost[i] <= 0 {
			return 0, false
		}
		x, y := math.Log(size[i]), math.Log(cost[i])
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if spread := n*sxx - sx*sx; spread > 1e-9 {
		return (n*sxy - sx*sy) / spread, true
	}
	return 0, false
}
