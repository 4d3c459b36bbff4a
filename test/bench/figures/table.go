package figures

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// WriteTable prints every figure with a column for each run of a controller. For costs per event it adds the
// exponent of their growth with the number of pods.
func (r Result) WriteTable(out io.Writer) error {
	var subjects []string
	for _, run := range r.Runs {
		if !slices.Contains(subjects, run.subject()) {
			subjects = append(subjects, run.subject())
		}
	}
	for _, subject := range subjects {
		runs := slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.subject() != subject })
		if err := writeRuns(out, subject, runs); err != nil {
			return err
		}
	}
	return nil
}

func writeRuns(out io.Writer, subject string, runs []Run) error {
	columns := make([]Column, 0, len(runs))
	for _, run := range runs {
		columns = append(columns, Column{Head: run.Size.String(), Size: float64(run.Size.Pods), Metrics: run.Metrics()})
	}
	return WriteColumns(out, subject+", nodes/pods", columns)
}

// Column holds the figures of one size.
type Column struct {
	Head    string
	Size    float64
	Metrics []Metric
}

// WriteColumns prints figures side by side. All columns must have the same metrics in the same order. A cost per
// event is followed by the exponent of its growth with the size.
func WriteColumns(out io.Writer, title string, columns []Column) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\t", title)
	for _, column := range columns {
		fmt.Fprintf(table, "%s\t", column.Head)
	}
	fmt.Fprintln(table, "growth\t")
	for _, row := range rows(columns) {
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

// row is one figure in all columns.
type row struct {
	name     string
	values   []float64
	grows    bool
	exponent float64
}

func rows(columns []Column) (all []row) {
	var sizes []float64
	for _, column := range columns {
		sizes = append(sizes, column.Size)
	}
	for i, m := range columns[0].Metrics {
		one := row{name: m.Name}
		for _, column := range columns {
			if i < len(column.Metrics) && column.Metrics[i].Name == m.Name {
				one.values = append(one.values, column.Metrics[i].Value)
			}
		}
		if m.PerEvent && len(one.values) == len(sizes) {
			one.exponent, one.grows = Exponent(sizes, one.values)
		}
		all = append(all, one)
	}
	return all
}
