package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

// changedTracer traces in a copy of the databases to which changes were applied.
type changedTracer struct {
	trace.Tracer
	changes []json.RawMessage
}

// Run implements trace.Tracer.
func (t changedTracer) Run(ctx context.Context, request trace.Request) (trace.Answer, error) {
	request.Changes = t.changes
	return t.Tracer.Run(ctx, request)
}

// checkWith returns an error unless --with and --filename are used together.
func (t *traceCommand) checkWith() error {
	switch {
	case t.with && len(t.files) == 0:
		return errors.New("--with needs -f FILE")
	case !t.with && len(t.files) > 0:
		return errors.New("-f needs --with")
	}
	return nil
}

// planned returns a tracer that answers as if the manifests were applied. notes returns the notes of the plan, after the trace. The
// leading operator plans the manifests, and in a cluster with zones the operator of each zone that packets pass. Without a change the
// tracer is that of the live databases.
func (t *traceCommand) planned(ctx context.Context, in io.Reader, live *tracers) (tracer trace.Tracer, notes func() []string, err error) {
	if !t.with {
		return live.all(), func() []string { return nil }, nil
	}
	documents, err := readFiles(t.files, in)
	if err != nil {
		return nil, nil, err
	}
	o, err := t.cluster.findOperator(ctx)
	if err != nil {
		return nil, nil, err
	}
	stored, first, err := (&plan{cluster: t.cluster}).dryRun(ctx, o, documents)
	if err != nil {
		return nil, nil, err
	}
	if live.only == nil {
		zones := &plannedZones{tracers: live, stored: stored.Bytes(), found: map[networkv1alpha1.ZoneName]trace.Tracer{}, notes: first}
		return trace.Zones(zones.in), func() []string { return zones.notes }, nil
	}
	tracer, more, err := operationsOf(ctx, o, live.all(), bytes.NewReader(stored.Bytes()), "")
	return tracer, func() []string { return append(first, more...) }, err
}
