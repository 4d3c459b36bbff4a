package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
	"github.com/weft-network/weft/pkg/trace"
)

// mostTraced is how many failures are traced. Many failures rarely have as many causes.
const mostTraced = 20

// explain runs the commands "kubectl weft trace" of failures and adds their verdicts.
func (b *bed) explain(ctx context.Context, failed []*connectivity.Diagnosis) {
	var tracing *traceQuestions
	for i, d := range failed {
		args, ok := strings.CutPrefix(d.Command, traceStart)
		if !ok || i >= mostTraced || ctx.Err() != nil {
			continue
		}
		if tracing == nil {
			b.now("tracing the failures")
			tracing = &traceQuestions{}
			tracing.ends, tracing.failed = readEnds(ctx, b.target)
			if tracing.failed == nil {
				tracing.tracer, tracing.failed = b.target.findTracers(ctx, tracing.ends.zoned)
			}
		}
		d.Verdict = tracing.verdict(ctx, b.target, strings.Fields(args))
	}
	if tracing != nil {
		b.notes = append(b.notes, tracing.notes...)
		slices.Sort(b.notes)
		b.notes = slices.Compact(b.notes)
	}
}

// traceQuestions are the traces of a check.
type traceQuestions struct {
	ends   *ends
	tracer *tracers
	failed error // why nothing can be traced
	notes  []string
}

// verdict returns the verdict about a packet. args are FROM, TO and flags with their values, as in Cell.Trace.
func (t *traceQuestions) verdict(ctx context.Context, target *cluster, args []string) string {
	if t.failed != nil {
		return "not traced: " + t.failed.Error()
	}
	command := &traceCommand{cluster: target}
	for i := 2; i+1 < len(args); i += 2 {
		switch args[i] {
		case "--protocol":
			command.protocol = args[i+1]
		case "--port":
			command.port = args[i+1]
		case "--family":
			command.family = args[i+1]
		}
	}
	questions, err := command.questions(ctx, t.ends, args[0], args[1])
	var findings []trace.Finding
	if err == nil {
		findings, err = t.ends.world.Trace(ctx, t.tracer.all(), true, questions...)
	}
	if err != nil || len(findings) == 0 {
		return fmt.Sprintf("not traced: %v", err)
	}
	t.notes = append(t.notes, t.ends.notes(questions)...)
	return findings[0].Verdict.Line()
}

// traceStart is the start of a command line of trace.
const traceStart = "kubectl weft trace "

// traceLine returns the command with arguments of trace.
func traceLine(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return traceStart + strings.Join(args, " ")
}

func familyOf(a netip.Addr) string { return (connectivity.Cell{V6: a.Is6()}).Family() }
