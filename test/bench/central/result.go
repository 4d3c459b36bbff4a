package central

import (
	"fmt"

	"github.com/weft-network/weft/test/bench/figures"
)

// Result is the result of one `make bench-central`.
type Result struct {
	Machine figures.Machine `json:"machine"`
	Version string          `json:"version"`
	Runs    []Run           `json:"runs"`
}

// Run is the result for one size.
type Run struct {
	Size    Size             `json:"size"`
	Metrics []figures.Metric `json:"metrics"`
}

// Size is the network of a run.
type Size struct {
	Nodes         int `json:"nodes"`
	Ports         int `json:"ports"`         // of pods
	LoadBalancers int `json:"loadBalancers"` // one per service
}

func (s Size) String() string { return fmt.Sprintf("%d/%d/%d", s.Nodes, s.Ports, s.LoadBalancers) }

// Sizes returns a quarter of a size, half of it, and all of it.
func Sizes(whole Size) (all []Size) {
	for _, part := range []int{4, 2, 1} {
		of := func(n int) int { return max(n/part, 1) }
		all = append(all, Size{of(whole.Nodes), of(whole.Ports), of(whole.LoadBalancers)})
	}
	return all
}
