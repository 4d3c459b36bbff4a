package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// test creates the pods, tests, and reports.
func (b *bed) test(ctx context.Context) (connectivity.Report, error) {
	report := connectivity.NewReport(b.Namespace)
	if err := b.removeEarlier(ctx); err != nil {
		return report, err
	}
	if err := b.set(ctx); err != nil {
		return report, err
	}
	for _, n := range b.Nodes {
		report.Nodes = append(report.Nodes, n.Name)
	}
	for _, v6 := range b.Families() {
		report.Families = append(report.Families, (connectivity.Cell{V6: v6}).Family())
	}
	if len(report.Families) == 0 {
		return report, errors.New("the pods have no address of a common family")
	}
	var err error
	if b.lasting > 0 {
		err = b.watchFlows(ctx, &report)
	} else {
		err = b.testMatrix(ctx, &report)
	}
	report.Seconds = time.Since(b.began).Seconds()
	report.Notes = append(report.Notes, b.notes...)
	if report.Failed > 0 && !b.keep {
		report.Notes = append(report.Notes, "the pods of these commands are gone with their namespace; --keep leaves them")
	}
	return report, err
}

// testMatrix tests the cells without policies, then a policy that denies, then a policy that admits a part.
func (b *bed) testMatrix(ctx context.Context, report *connectivity.Report) error {
	cells := b.Matrix()
	b.now("%d packets", len(cells))
	failed, err := b.record(ctx, report, b.send(ctx, cells))
	if err != nil {
		return err
	}
	b.say("%d of %d cells pass without policies", len(cells)-failed, len(cells))
	for _, step := range []struct {
		policy client.Object
		cells  []connectivity.Cell
		text   string
	}{
		{connectivity.NewDenyPolicy(b.Namespace), b.Denied(), "a policy that denies"},
		{connectivity.NewAllowPolicy(b.Namespace), b.Allowed(), "a policy that admits a part"},
	} {
		if len(step.cells) == 0 {
			continue
		}
		if err := b.api.Create(ctx, step.policy); err != nil {
			return fmt.Errorf("create NetworkPolicy %s: %w", step.policy.GetName(), err)
		}
		failed, err := b.record(ctx, report, b.settle(ctx, step.cells))
		if err != nil {
			return err
		}
		b.say("%d of %d cells pass with %s", len(step.cells)-failed, len(step.cells), step.text)
	}
	return nil
}

// settle sends cells until all are as expected twice, because a policy takes a moment to reach all nodes, until none can
// be sent, or until the time is over.
func (b *bed) settle(ctx context.Context, cells []connectivity.Cell) (last []connectivity.Outcome) {
	right := 0
	_ = b.until(ctx, func() (bool, error) { // the last outcomes count
		last = b.send(ctx, cells)
		right++
		sent := false
		for _, o := range last {
			if sent = sent || o.Attempts > 0; !o.Passed {
				right = 0
			}
		}
		return right == 2 || !sent, nil
	})
	return last
}

// atATime is the number of programs that run in pods at a time.
const atATime = 8

// send sends the packets of cells, each sender's with one program, and returns their outcomes.
func (b *bed) send(ctx context.Context, cells []connectivity.Cell) []connectivity.Outcome {
	outcomes := make([]connectivity.Outcome, len(cells))
	bySender := map[connectivity.Sender][]int{}
	for i, c := range cells {
		if p, ok := b.Unstarted(c); ok {
			outcomes[i] = b.Refused(c, p)
			continue
		}
		bySender[c.Sender] = append(bySender[c.Sender], i)
	}
	slots := make(chan struct{}, atATime)
	var running sync.WaitGroup
	for sender, of := range bySender {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			var probes []connectivity.Probe
			for _, i := range of {
				probes = append(probes, cells[i].Probe)
			}
			var results []connectivity.Result
			err := b.query(ctx, sender, probes, &results, "run")
			if err == nil && len(results) != len(probes) {
				err = fmt.Errorf("%d results of %d probes", len(results), len(probes))
			}
			for at, i := range of {
				if err != nil {
					outcomes[i] = cells[i].Unsent(err.Error())
				} else {
					outcomes[i] = b.judge(cells[i], results[at])
				}
			}
		})
	}
	running.Wait()
	return outcomes
}

// judge judges a cell, and names the command about a failure.
func (b *bed) judge(c connectivity.Cell, r connectivity.Result) connectivity.Outcome {
	o := c.Judge(r)
	if o.Passed {
		return o
	}
	args := c.Trace
	if len(args) == 0 && r.Resolver.IsValid() { // a packet to a name: the name server answers first
		args = []string{b.Namespace + "/" + c.Sender.Pod, r.Resolver.String(), "--protocol", "udp", "--port", "53",
			"--family", familyOf(r.Resolver)}
	}
	o.Command = traceLine(args)
	return o
}

// query runs "weft probe" in a pod, or in the agent of a node, and decodes its answer.
func (b *bed) query(ctx context.Context, s connectivity.Sender, in, into any, verb string) error {
	at, container := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: s.Pod}}, probeContainer
	if s.Pod == "" {
		at, container = b.agents[s.Node], agentContainer
	}
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	out, err := (&inPod{b.config, b.core, at}).execute(ctx, container, bytes.NewReader(text), connectivity.Program, "probe", verb)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("cannot parse the answer of pod %s/%s: %w", at.Namespace, at.Name, err)
	}
	return nil
}

// record adds outcomes to the report with the verdicts of trace about the failures, which it counts.
func (b *bed) record(ctx context.Context, report *connectivity.Report, outcomes []connectivity.Outcome) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	var failed []*connectivity.Diagnosis
	for i := range outcomes {
		if !outcomes[i].Passed {
			failed = append(failed, &outcomes[i].Diagnosis)
		}
	}
	b.explain(ctx, failed)
	for _, o := range outcomes {
		report.Add(o)
	}
	return len(failed), ctx.Err()
}
