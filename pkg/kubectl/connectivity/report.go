package connectivity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is the answer of "kubectl weft check connectivity", in JSON.
type Report struct {
	// Namespace is the namespace in which the pods ran.
	Namespace string   `json:"namespace"`
	Nodes     []string `json:"nodes"`
	Families  []string `json:"families"`
	Seconds   float64  `json:"seconds"`
	Passed    int      `json:"passed"`
	Failed    int      `json:"failed"`
	// Cells are the packets of the matrix, and Flows the directions of --for.
	Cells []Outcome `json:"cells"`
	Flows []Flow    `json:"flows"`
	// Notes are nodes that were not tested, problems of the network, and objects that were left.
	Notes []string `json:"notes"`
}

// NewReport returns a report without results.
func NewReport(namespace string) Report {
	return Report{Namespace: namespace, Nodes: []string{}, Families: []string{}, Cells: []Outcome{}, Flows: []Flow{}, Notes: []string{}}
}

// Outcome is the result of a cell.
type Outcome struct {
	Group    Group  `json:"group"`
	From     string `json:"from"`
	To       string `json:"to"`
	Family   string `json:"family"`
	Protocol string `json:"protocol"`
	// Blocked means that a NetworkPolicy must stop the packet.
	Blocked bool `json:"blocked,omitempty"`
	Passed  bool `json:"passed"`
	// Why says what is wrong, and for a packet that was delivered what is to note.
	Why string `json:"why,omitempty"`
	// Server is the pod that answered.
	Server       string  `json:"server,omitempty"`
	Attempts     int     `json:"attempts,omitempty"`
	Milliseconds float64 `json:"milliseconds"`
	// Size is the largest packet that was not fragmented, in bytes.
	Size int `json:"size,omitempty"`
	Diagnosis
}

// Flow is the result of a direction of --for.
type Flow struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Family string `json:"family"`
	Sent   int64  `json:"sent"`
	// LostThere did not arrive, and the answers to LostBack did not return.
	LostThere int64 `json:"lostThere"`
	LostBack  int64 `json:"lostBack"`
	// GapSeconds is the longest time without an answer, and GapAt its begin.
	GapSeconds float64 `json:"gapSeconds"`
	GapAt      string  `json:"gapAt,omitempty"`
	Why        string  `json:"why,omitempty"`
	Diagnosis
}

// Diagnosis is what to do about a failure.
type Diagnosis struct {
	// Command is the command that explains the failure, and Verdict the first line of its answer.
	Command string `json:"command,omitempty"`
	Verdict string `json:"verdict,omitempty"`
}

// Judge returns the outcome of a cell.
func (c Cell) Judge(r Result) Outcome {
	o := Outcome{Group: c.Group, From: c.From, To: c.To, Family: c.Family(), Protocol: c.Protocol, Blocked: c.Blocked, Server: r.Server,
		Attempts: r.Attempts, Milliseconds: float64(r.Took.Microseconds()) / 1000, Size: r.Size}
	switch answered := r.Error == ""; {
	case c.Blocked && answered:
		o.Why = r.Server + " answered, and the NetworkPolicy must stop the packet"
	case c.Blocked:
		o.Passed = true
	case !answered:
		o.Why = r.Error
		if r.Attempts > 1 {
			o.Why += fmt.Sprintf(", in %d attempts", r.Attempts)
		}
	case len(c.Servers) > 0 && !slices.Contains(c.Servers, r.Server):
		o.Why = fmt.Sprintf("%q answered", r.Server)
	default:
		o.Passed = true
	}
	return o
}

// Unsent returns the outcome of a cell that could not be sent. Its Attempts are 0.
func (c Cell) Unsent(why string) Outcome {
	return Outcome{Group: c.Group, From: c.From, To: c.To, Family: c.Family(), Protocol: c.Protocol, Blocked: c.Blocked, Why: why}
}

// Flow returns the outcome of a direction.
func (c Cell) Flow(s FlowState) Flow {
	f := Flow{From: c.From, To: c.To, Family: c.Family(), Sent: s.Sent, LostThere: s.LostThere, LostBack: s.LostBack,
		GapSeconds: s.Gap.Round(time.Millisecond).Seconds()}
	if !s.GapAt.IsZero() {
		f.GapAt = s.GapAt.UTC().Format(time.RFC3339)
	}
	switch {
	case s.Sent == 0:
		f.Why = strings.TrimSuffix("nothing was sent: "+s.Error, ": ")
	case f.Lost() > 0:
		f.Why = strings.TrimSuffix(fmt.Sprintf("%d of %d lost: %s", f.Lost(), s.Sent, s.Error), ": ")
	}
	return f
}

// Lost is the number of lost datagrams.
func (f Flow) Lost() int64 { return f.LostThere + f.LostBack }

// Add adds the outcome of a cell.
func (r *Report) Add(o Outcome) {
	r.count(o.Passed)
	r.Cells = append(r.Cells, o)
}

// AddFlow adds the outcome of a direction.
func (r *Report) AddFlow(f Flow) {
	r.count(f.Why == "")
	r.Flows = append(r.Flows, f)
}

func (r *Report) count(passed bool) {
	if passed {
		r.Passed++
	} else {
		r.Failed++
	}
}

// Text renders the report for people: the verdict in the first line.
func (r Report) Text() string {
	var b strings.Builder
	what := "cells pass"
	if len(r.Flows) > 0 {
		what = "directions without loss"
	}
	fmt.Fprintf(&b, "%d of %d %s on %s (%s), in %.0f s\n", r.Passed, r.Passed+r.Failed, what, strings.Join(r.Nodes, ", "),
		strings.Join(r.Families, ", "), r.Seconds)
	r.groups(&b)
	r.flows(&b)
	for _, o := range r.Cells {
		if o.Passed {
			continue
		}
		expected := ""
		if o.Blocked {
			expected = " (must be dropped)"
		}
		fmt.Fprintf(&b, "\nFAIL %s: %s %s %s -> %s%s\n  %s\n", o.Group, o.Family, strings.ToUpper(o.Protocol), o.From, o.To, expected, o.Why)
		o.text(&b)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", note)
	}
	return b.String()
}

// groups writes a line for each group.
func (r Report) groups(b *strings.Builder) {
	for _, g := range Groups() {
		passed, all, size := 0, 0, 0
		for _, o := range r.Cells {
			if o.Group != g {
				continue
			}
			if all++; o.Passed {
				passed++
			}
			if o.Size > 0 && (size == 0 || o.Size < size) {
				size = o.Size
			}
		}
		if all == 0 {
			continue
		}
		fmt.Fprintf(b, "  %-9s %d of %d", g, passed, all)
		if size > 0 {
			fmt.Fprintf(b, ", packets of %d bytes", size)
		}
		fmt.Fprintln(b)
	}
}

// flows writes a line for each direction.
func (r Report) flows(b *strings.Builder) {
	for _, f := range r.Flows {
		fmt.Fprintf(b, "  %s %s -> %s: %d sent, %d lost there, %d lost back, longest gap %.2f s\n", f.Family, f.From, f.To, f.Sent, f.LostThere,
			f.LostBack, f.GapSeconds)
		if f.Why != "" && f.Lost() == 0 {
			fmt.Fprintf(b, "    %s\n", f.Why)
		}
		f.text(b)
	}
}

func (d Diagnosis) text(b *strings.Builder) {
	if d.Verdict != "" {
		fmt.Fprintf(b, "  trace: %s\n", d.Verdict)
	}
	if d.Command != "" {
		fmt.Fprintf(b, "  -> %s\n", d.Command)
	}
}
