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
	of   *Finding
	path path
}

// Trace answers questions, with the replies' way if replies is set. All packets go to the tracer in one request, and all
// replies in a second one. Packets that leave for another zone go to the tracer again, as they enter that zone.
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
		if v, ok := w.byNode(q); ok {
			f.Verdict, f.Hops = v, []Hop{{What: fmt.Sprintf("from %s by node %s", q.From.of(q.V6), q.Entry)}, {What: "dropped by the node"}}
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
	if err := w.run(ctx, tracer, all); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].judge()
	}
	if !replies {
		return findings, nil
	}
	return findings, w.traceReplies(ctx, tracer, all)
}

// run traces legs, each through all zones that it passes.
func (w World) run(ctx context.Context, tracer Tracer, all []tracedLeg) error {
	var legs []*tracedLeg
	var packets []Packet
	for i := range all {
		legs, packets = append(legs, &all[i]), append(packets, all[i].Packet)
	}
	for len(packets) > 0 {
		traces, err := tracesOf(ctx, tracer, packets)
		if err != nil {
			return err
		}
		var crossing []*tracedLeg
		var onward []Packet
		for i, leg := range legs {
			next, more, err := w.add(&leg.path, packets[i], traces[i])
			if err != nil {
				return err
			}
			if more {
				crossing, onward = append(crossing, leg), append(onward, next)
			}
		}
		legs, packets = crossing, onward
	}
	return nil
}

// judge adds a leg to its finding. The first leg that fails decides; nothing comes after it.
func (a *tracedLeg) judge() {
	f := a.of
	if f.Verdict.Result != "" && f.Verdict.Result != Allowed {
		return
	}
	v := verdictOn(f.Question, a.Leg, a.path)
	if v.Result != Allowed || v.By.Name != "" || f.Verdict.Result == "" {
		f.Verdict = v
	}
	f.Text = append(f.Text, a.path.texts...)
	if len(a.path.Steps) > 0 {
		f.Hops = append(f.Hops, hopsOf(a.Leg, a.path)...)
	}
}

// traceReplies traces the answers to the packets that have arrived.
func (w World) traceReplies(ctx context.Context, tracer Tracer, all []tracedLeg) error {
	var replies []tracedLeg
	for _, a := range all {
		if a.of.Verdict.Result != Allowed || len(a.path.Steps) == 0 {
			continue
		}
		if leg, ok := w.Reply(a.Leg, a.path.Trace); ok {
			replies = append(replies, tracedLeg{Leg: leg, of: a.of})
		}
	}
	if err := w.run(ctx, tracer, replies); err != nil {
		return err
	}
	for i := range replies {
		a := &replies[i]
		v := verdictOn(a.of.Question, a.Leg, a.path)
		a.of.Text = append(a.of.Text, a.path.texts...)
		if len(a.path.Steps) > 0 {
			a.of.Reply = append(a.of.Reply, hopsOf(a.Leg, a.path)...)
		}
		if v.Result != Allowed && a.of.Verdict.Result == Allowed {
			v.Why = "the reply: " + v.Why
			a.of.Verdict = v
		}
	}
	return nil
}
