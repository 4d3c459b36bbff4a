package figures

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// noise is how much figures that depend on a clock differ between two runs of the same program.
const noise = 0.2

// Difference is one figure in two results.
type Difference struct {
	Run    string
	Name   string
	A, B   float64
	Judged Verdict
}

// Verdict is the judgement of a difference.
type Verdict string

// Values of Verdict.
const (
	Same   Verdict = ""
	Better Verdict = "better"
	Worse  Verdict = "WORSE"
)

// Compare lists the figures that occur in both results.
func Compare(a, b Result) (all []Difference) {
	before := map[string]map[string]Metric{}
	for _, r := range a.Runs {
		before[r.name()] = map[string]Metric{}
		for _, m := range r.Metrics() {
			before[r.name()][m.Name] = m
		}
	}
	for _, r := range b.Runs {
		for _, m := range r.Metrics() {
			if was, ok := before[r.name()][m.Name]; ok {
				all = append(all, Difference{r.name(), m.Name, was.Value, m.Value, judge(was, m)})
			}
		}
	}
	return all
}

func (r Run) name() string { return r.subject() + " " + r.Size.String() }

// subject returns what was measured: the controller and its database.
func (r Run) subject() string {
	if r.Raft {
		return r.Controller + " on raft"
	}
	return r.Controller
}

func judge(a, b Metric) Verdict {
	allowed := a.Value * noise
	if a.Counted {
		allowed = 0
	}
	gain := a.Value - b.Value
	if b.More {
		gain = -gain
	}
	switch {
	case gain > allowed:
		return Better
	case gain < -allowed:
		return Worse
	}
	return Same
}

// WriteComparison prints the differences as a table, and returns how many figures are worse.
func WriteComparison(out io.Writer, all []Difference) (worse int, err error) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	run := ""
	for _, d := range all {
		if d.Run != run {
			run = d.Run
			fmt.Fprintf(table, "%s\tA\tB\tB/A\t\n", run)
		}
		ratio := "-"
		if d.A != 0 {
			ratio = fmt.Sprintf("%.2f", d.B/d.A)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", d.Name, number(d.A), number(d.B), ratio, d.Judged)
		if d.Judged == Worse {
			worse++
		}
	}
	return worse, table.Flush()
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
