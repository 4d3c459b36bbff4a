package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/sketch"
)

// traceAnswer is the answer of the command trace.
type traceAnswer struct {
	// Result is the worst of the verdicts: dropped, rejected, unknown, allowed.
	Result trace.Result `json:"result"`
	// Why says why there are no findings.
	Why      string         `json:"why,omitempty"`
	Findings []traceFinding `json:"findings"`
	// Notes are problems of the nodes on the way, which no flow shows, and with --with what the plan notes.
	Notes []string `json:"notes,omitempty"`
}

// traceFinding is the answer about a packet.
type traceFinding struct {
	From     string         `json:"from"`
	To       string         `json:"to"`
	Family   string         `json:"family"`
	Protocol trace.Protocol `json:"protocol"`
	Port     uint16         `json:"port,omitempty"`
	Backend  string         `json:"backend,omitempty"`
	trace.Verdict
	Way   []trace.Hop `json:"way,omitempty"`
	Reply []trace.Hop `json:"reply,omitempty"`
	// NoBackends are the endpoints that take no connections, and why.
	NoBackends []string `json:"noBackends,omitempty"`
	// Raw is the output of ovn-trace.
	Raw []string `json:"ovnTrace,omitempty"`
}

// rank orders results, the worst last.
var rank = map[trace.Result]int{trace.Allowed: 1, trace.Unknown: 2, trace.Rejected: 3, trace.Dropped: 4}

func newTraceAnswer(w trace.World, findings []trace.Finding, notes []string, raw bool) traceAnswer {
	a := traceAnswer{Notes: notes, Findings: []traceFinding{}}
	for _, f := range findings {
		q := f.Question
		t := traceFinding{From: q.From.Text(""), To: q.To.Text(""), Family: map[bool]string{false: "IPv4", true: "IPv6"}[q.V6],
			Protocol: q.Protocol, Port: q.Port, Verdict: f.Verdict, Way: f.Hops, Reply: f.Reply}
		if q.Backend.IsValid() {
			t.Backend = q.Backend.String()
		}
		if q.To.Balanced != nil {
			t.NoBackends = q.To.Balanced.Excluded(q.V6, q.OnlyOn(w))
		}
		if raw {
			t.Raw = f.Text
		}
		if a.Findings = append(a.Findings, t); rank[t.Result] > rank[a.Result] {
			a.Result = t.Result
		}
	}
	return a
}

// answers are the forms of the answer.
var answers = map[string]func(io.Writer, traceAnswer) error{
	"text": func(out io.Writer, a traceAnswer) error { return formatText.write(out, a, a.text) },
	"json": func(out io.Writer, a traceAnswer) error { return formatJSON.write(out, a, nil) },
	"dot":  func(out io.Writer, a traceAnswer) error { return a.draw(out, sketch.WaysDOT) },
	"svg":  func(out io.Writer, a traceAnswer) error { return a.draw(out, sketch.WaysSVG) },
}

// draw writes a picture of all findings.
func (a traceAnswer) draw(out io.Writer, render func([]sketch.Way) string) error {
	_, err := io.WriteString(out, render(a.ways()))
	return err
}

// ways returns what a picture shows. An answer without findings is a picture of its reason.
func (a traceAnswer) ways() (ways []sketch.Way) {
	for _, f := range a.Findings {
		ways = append(ways, sketch.Way{Title: f.title(), Verdict: f.Verdict, Hops: f.Way, Reply: f.Reply})
	}
	if len(ways) == 0 {
		ways = []sketch.Way{{Verdict: trace.Verdict{Result: a.Result, Why: a.Why}}}
	}
	return ways
}

// text renders the answer for people: the verdict in the first line. Findings with the same verdict share it.
func (a traceAnswer) text() string {
	var b strings.Builder
	if len(a.Findings) == 0 {
		fmt.Fprintf(&b, "%s: %s\n", a.Result, a.Why)
	}
	shared := true
	for _, f := range a.Findings {
		shared = shared && f.Verdict.Line() == a.Findings[0].Verdict.Line()
	}
	if shared && len(a.Findings) > 0 {
		fmt.Fprintln(&b, a.Findings[0].Verdict.Line())
	} else {
		for _, f := range a.Findings {
			fmt.Fprintf(&b, "%s: %s\n", f.title(), f.Verdict.Line())
		}
	}
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "\n%s\n", f.title())
		f.way(&b)
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", note)
	}
	return b.String()
}

// title names the packet of a finding.
func (f traceFinding) title() string {
	title := fmt.Sprintf("%s %s %s -> %s", f.Family, f.Protocol.Text(), f.From, f.To)
	if f.Port != 0 {
		title += fmt.Sprintf(" port %d", f.Port)
	}
	if f.Backend != "" {
		title += ", backend " + f.Backend
	}
	return title
}

func (f traceFinding) way(b *strings.Builder) {
	for i, h := range f.Way {
		fmt.Fprintf(b, "  %d. %s\n", i+1, h.What)
	}
	for _, reason := range f.NoBackends {
		fmt.Fprintf(b, "  no backend: %s\n", reason)
	}
	if len(f.Reply) > 0 {
		b.WriteString("  the reply:\n")
	}
	for i, h := range f.Reply {
		fmt.Fprintf(b, "  %d. %s\n", i+1, h.What)
	}
	for _, raw := range f.Raw {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(raw))
	}
}
