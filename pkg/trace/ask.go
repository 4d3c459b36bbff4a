package trace

import (
	"context"
	"errors"
	"fmt"
)

// Tracer traces the packets of a request.
type Tracer interface {
	Run(ctx context.Context, request Request) (Answer, error)
}

// Finding is the answer to a question.
type Finding struct {
	Question Question `json:"-"`
	Verdict  Verdict  `json:"verdict"`
	// Hops is the packet's path, and Reply the path of its reply.
	Hops  []Hop `json:"hops,omitempty"`
	Reply []Hop `json:"reply,omitempty"`
	// Text is the output of ovn-trace.
	Text []string `json:"ovnTrace,omitempty"`
}

// tracedLeg is a leg with the finding that it belongs to.
type tracedLeg struct {
	Leg
	of     *Finding
	traced Traced
	trace  Trace
}

// Trace answers questions, with the replies' way if replies is set. All packets go to the tracer in one request, and all
// replies in a second one.
func (w World) Trace(ctx context.Context, tracer Tracer, replies bool, questions ...Question) ([]Finding, error) {
	findings := make([]Finding, len(questions))
	var all []tracedLeg
	for i, q := range questions {
		f := &findings[i]
		f.Question = q
		if q.inItself() {
			f.Verdict = Verdict{Result: Allowed, Why: q.From.Text("") + " reaches its own address without the network, past all policies"}
			continue
		}
		legs, err := w.Legs(q)
		if why, ok := errors.AsType[*UnknownError](err); ok {
			f.Verdict = Verdict{Result: Unknown, Why: why.Reason}
		} else if err != nil {
			return nil, err
		}
		for _, leg := range legs {
			all = append(all, tracedLeg{Leg: leg, of: f})
		}
	}
	if err := run(ctx, tracer, all); err != nil {
		return nil, err
	}
	for i := range all {
		if err := all[i].judge(); err != nil {
			return nil, err
		}
	}
	if !replies {
		return findings, nil
	}
	return findings, w.traceReplies(ctx, tracer, all)
}

func run(ctx context.Context, tracer Tracer, all []tracedLeg) error {
	if len(all) == 0 {
		return nil
	}
	var request Request
	for _, a := range all {
		request.Packets = append(request.Packets, a.Packet)
	}
	answer, err := tracer.Run(ctx, request)
	if err == nil && len(answer.Traces) != len(all) {
		err = fmt.Errorf("%d packets were traced of %d", len(answer.Traces), len(all))
	}
	if err != nil {
		return err
	}
	for i := range all {
		all[i].traced = answer.Traces[i]
	}
	return nil
}

// judge adds a leg to its finding. The first leg that fails decides; nothing comes after it.
func (a *tracedLeg) judge() (err error) {
	f := a.of
	if f.Verdict.Result != "" && f.Verdict.Result != Allowed {
		return nil
	}
	v, t, err := Judge(f.Question, a.Leg, a.traced)
	if err != nil {
		return err
	}
	if a.trace = t; v.Result != Allowed || v.By.Name != "" || f.Verdict.Result == "" {
		f.Verdict = v
	}
	f.Text = append(f.Text, a.traced.Text)
	if len(t.Steps) > 0 {
		f.Hops = append(f.Hops, Hops(a.Leg, a.traced, t)...)
	}
	return nil
}

// traceReplies traces the answers to the packets that have arrived.
func (w World) traceReplies(ctx context.Context, tracer Tracer, all []tracedLeg) error {
	var replies []tracedLeg
	for _, a := range all {
		if a.of.Verdict.Result != Allowed || len(a.trace.Steps) == 0 {
			continue
		}
		if leg, ok := w.Reply(a.Leg, a.trace); ok {
			replies = append(replies, tracedLeg{Leg: leg, of: a.of})
		}
	}
	if err := run(ctx, tracer, replies); err != nil {
		return err
	}
	for i := range replies {
		a := &replies[i]
		v, t, err := Judge(a.of.Question, a.Leg, a.traced)
		if err != nil {
			return err
		}
		a.of.Text = append(a.of.Text, a.traced.Text)
		if len(t.Steps) > 0 {
			a.of.Reply = append(a.of.Reply, Hops(a.Leg, a.traced, t)...)
		}
		if v.Result != Allowed && a.of.Verdict.Result == Allowed {
			v.Why = "the reply: " + v.Why
			a.of.Verdict = v
		}
	}
	return nil
}
