package central

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stats are what northd's incremental engine did: by its nodes.
type stats map[string]nodeStats

// nodeStats counts how often a node of the engine computed all that it has anew, only what changed, and began without an end.
type nodeStats struct{ recompute, compute, cancel int }

// parseStats reads inc-engine/show-stats:
//
//	Node: northd
//	- recompute:            1
//	- compute:             12
//	- cancel:               0
func parseStats(text string) (stats, error) {
	found := stats{}
	node := ""
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		if value = strings.TrimSpace(value); name == "Node" {
			node = value
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || node == "" {
			return nil, fmt.Errorf("inc-engine/show-stats: %q", line)
		}
		of := found[node]
		switch name {
		case "- recompute":
			of.recompute = n
		case "- compute":
			of.compute = n
		case "- cancel", "- abort":
			of.cancel = n
		}
		found[node] = of
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("inc-engine/show-stats: no node in %q", text)
	}
	return found, nil
}

// anew lists the nodes that computed everything anew, with how often, as text. Those that stand for a table of a database, or for a clock, have
// nothing to compute.
func (s stats) anew() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		input := strings.HasPrefix(name, "NB_") || strings.HasPrefix(name, "SB_") || strings.HasSuffix(name, "_waker")
		if n := s[name].recompute; n > 0 && !input {
			all = append(all, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(all, ", ")
}
