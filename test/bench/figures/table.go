package figures

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// WriteTable prints every figure, a column for each run of a controller and the exponent of its growth with the number of pods where the
// figure is a cost per event.
func (r Result) WriteTable(out io.Writer) error {
	var controllers []string
	for _, run := range r.Runs {
		if !slices.Contains(controllers, run.Controller) {
			controllers = append(controllers, run.Controller)
		}
	}
	for _, controller := range controllers {
		runs := slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.Controller != controller })
		if err := writeRuns(out, controller, runs); err != nil {
			return err
		}
	}
	return nil
}

func writeRuns(out io.Writer, controller string, runs []Run) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s, nodes/pods\t", controller)
	for _, run := range runs {
		fmt.Fprintf(table, "%s\t", run.Size)
	}
	fmt.Fprintln(table, "growth\t")
	for _, row := range rows(runs) {
		fmt.Fprintf(table, "%s\t", row.name)
		for _, v := range row.values {
			fmt.Fprintf(table, "%s\t", number(v))
		}
		if row.grows {
			fmt.Fprintf(table, "%+.2f", row.exponent)
		}
		fmt.Fprintln(table, "\t")
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// row is one figure in all runs.
type row struct {
	name     string
	values   []float64
	grows    bool
	exponent float64
}

func rows(runs []Run) (all []row) {
	var pods []float64
	for _, run := range runs {
		pods = append(pods, float64(run.Size.Pods))
	}
	for i, m := range runs[0].Metrics() {
		one := row{name: m.Name}
		for _, run := range runs {
			if metrics := run.Metrics(); i < len(metrics) && metrics[i].Name == m.Name {
				one.values = append(one.values, metrics[i].Value)
			}
		}
		if m.PerEvent && len(one.values) == len(pods) {
			one.exponent, one.grows = Exponent(pods, one.values)
		}
		all = append(all, one)
	}
	return all
}
