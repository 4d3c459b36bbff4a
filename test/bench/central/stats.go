package central

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stats are the statistics of northd's incremental engine, by engine node.
type stats map[string]nodeStats

// nodeStats counts how often an engine node recomputed everything, computed only changes, and aborted.
type nodeStats struct{ recompute, compute, cancel int }

// parseStats parses inc-engine/show-stats:
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

// recomputed lists as text the engine nodes that recomputed everything, with counts. Nodes for a database table or a clock
// are left out, because they have nothing to compute.
func (s stats) recomputed() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		input := strings.HasPrefix(name, "NB_") || strings.HasPrefix(name, "SB_") || strings.HasSuffix(name, "_waker")
		if n := s[name].recompute; n > 0 && !input {
			all = append(all, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(all, ", ")
}
