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
	// Zones is the number of equal parts of the network. One of them is measured. 1 means that there are no zones.
	Zones int `json:"zones"`
}

func (s Size) String() string {
	text := fmt.Sprintf("%d/%d/%d", s.Nodes, s.Ports, s.LoadBalancers)
	if s.Zones > 1 {
		text += fmt.Sprintf(" in %d parts", s.Zones)
	}
	return text
}

// Sizes returns a quarter of a size, half of it, and all of it, in as many parts.
func Sizes(whole Size) (all []Size) {
	for _, part := range []int{4, 2, 1} {
		of := func(n int) int { return max(n/part, 1) }
		all = append(all, Size{of(whole.Nodes), of(whole.Ports), of(whole.LoadBalancers), whole.Zones})
	}
	return all
}
