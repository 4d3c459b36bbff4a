package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

const (
	// glance is the time between two lines of progress with --for.
	glance = 5 * time.Second
	// readingPatience is how long the last counts may take to read, because an upgrade may restart what passes them on.
	readingPatience = time.Minute
)

// watchFlows lets the pods send datagrams until the time is over or ctx ends, and reports the losses.
func (b *bed) watchFlows(ctx context.Context, report *connectivity.Report) error {
	all := b.senders()
	for _, s := range all {
		if err := s.query(ctx, b, connectivity.FlowRequest{Start: s.targets(), Interval: b.interval}); err != nil {
			return fmt.Errorf("start the datagrams of pod %s: %w", s.Pod, err)
		}
	}
	b.say("%d directions, a datagram each %s, for %s; Ctrl-C ends earlier", len(b.Directions()), b.interval, b.lasting)
	b.await(ctx, all)
	outliving, cancel := context.WithTimeout(context.WithoutCancel(ctx), readingPatience)
	defer cancel()
	for _, s := range all {
		s.failed = s.stop(outliving, b)
	}
	received := b.received(outliving)
	var flows []connectivity.Flow
	for _, s := range all {
		for i, c := range s.cells {
			last := s.last(i)
			f := c.Flow(last.Settle(received[last.ID]))
			if s.failed != nil {
				f.Why = "the last count could not be read: " + s.failed.Error()
			}
			if f.Why != "" {
				f.Command = traceLine(c.Trace)
			}
			flows = append(flows, f)
		}
	}
	var failed []*connectivity.Diagnosis
	for i := range flows {
		if flows[i].Why != "" {
			failed = append(failed, &flows[i].Diagnosis)
		}
	}
	b.explain(ctx, failed)
	for _, f := range flows {
		report.AddFlow(f)
	}
	return nil
}

// received reads how many datagrams of each flow the pods have received. What cannot be read is missing.
func (b *bed) received(ctx context.Context) map[string]int64 {
	all := map[string]int64{}
	for _, n := range b.Nodes {
		for _, p := range []connectivity.Pod{n.A, n.B} {
			if p.Why != "" {
				continue
			}
			var counts connectivity.Flows
			err := b.query(ctx, connectivity.Sender{Node: p.Node, Pod: p.Name}, connectivity.FlowRequest{}, &counts, "flows")
			if err != nil {
				b.notes = append(b.notes, fmt.Sprintf("what pod %s received could not be read: %v", p.Name, err))
			}
			for id, count := range counts.Received {
				all[id] += count
			}
		}
	}
	return all
}

// flowSender is a pod with the directions that begin there.
type flowSender struct {
	connectivity.Sender
	cells  []connectivity.Cell
	states connectivity.Flows
	failed error // why the last states could not be read
}

// senders returns the pods with their directions. Pods that do not run send nothing.
func (b *bed) senders() (all []*flowSender) {
	of := map[connectivity.Sender]*flowSender{}
	for _, c := range b.Directions() {
		if p, ok := b.Unstarted(c); ok {
			b.notes = append(b.notes, fmt.Sprintf("%s %s -> %s was not tested: %s", c.Family(), c.From, c.To, b.Refused(c, p).Why))
			continue
		}
		if of[c.Sender] == nil {
			of[c.Sender] = &flowSender{Sender: c.Sender}
			all = append(all, of[c.Sender])
		}
		of[c.Sender].cells = append(of[c.Sender].cells, c)
	}
	return all
}

func (s *flowSender) targets() (all []string) {
	for _, c := range s.cells {
		all = append(all, c.Probe.To)
	}
	return all
}

// last returns the last state of a direction.
func (s *flowSender) last(i int) connectivity.FlowState {
	if i < len(s.states.Flows) {
		return s.states.Flows[i]
	}
	return connectivity.FlowState{Error: "the pod's program has been restarted"}
}

// query sends a request to the pod's server and keeps its answer.
func (s *flowSender) query(ctx context.Context, b *bed, request connectivity.FlowRequest) error {
	var states connectivity.Flows
	if err := b.query(ctx, s.Sender, request, &states, "flows"); err != nil {
		return err
	}
	s.states = states
	return nil
}

// stop ends the directions and reads their last counts, repeatedly until ctx ends.
func (s *flowSender) stop(ctx context.Context, b *bed) error {
	for {
		err := s.query(ctx, b, connectivity.FlowRequest{Stop: true})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(beat):
		}
	}
}

// await shows the losses until the time is over or ctx ends. Counts that cannot be read now are read later.
func (b *bed) await(ctx context.Context, all []*flowSender) {
	over := time.After(b.lasting)
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-time.After(glance):
		}
		sent, lost := int64(0), int64(0)
		for _, s := range all {
			_ = s.query(ctx, b, connectivity.FlowRequest{})
			for i, c := range s.cells {
				f := c.Flow(s.last(i))
				sent, lost = sent+f.Sent, lost+f.Lost()
			}
		}
		b.now("%d datagrams sent, %d lost", sent, lost)
	}
}
