//go:build e2e

package cni

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// series is a list of times of the same action.
type series struct {
	name string
	took []time.Duration
}

// at returns a percentile.
func (s series) at(percent int) time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.took))
	return sorted[(len(sorted)-1)*percent/100]
}

// printTable prints series as a table, in milliseconds.
func printTable(title string, all ...series) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tp50 ms\tp95\tp99\tmax\tn\t\n", title)
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t\n", s.name, ms(s.at(50)), ms(s.at(95)), ms(s.at(99)), ms(s.at(100)), len(s.took))
	}
	w.Flush()
	fmt.Println()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }

// loadAverage returns the load averages of the last one and five minutes, including the measurement's own load,
// because other load affects every figure.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return "unknown"
	}
	return fields[0] + ", " + fields[1]
}
