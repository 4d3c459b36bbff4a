package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weft-network/weft/pkg/admin"
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

// planned returns a tracer that answers as if the manifests were applied, and the notes of the plan. The leading
// operator plans them; without a change it is the same tracer.
func (t *traceCommand) planned(ctx context.Context, in io.Reader, tracer trace.Tracer) (trace.Tracer, []string, error) {
	if !t.with {
		return tracer, nil, nil
	}
	documents, err := readFiles(t.files, in)
	if err != nil {
		return nil, nil, err
	}
	o, err := t.cluster.findOperator(ctx)
	if err != nil {
		return nil, nil, err
	}
	stored, notes, err := (&plan{cluster: t.cluster}).dryRun(ctx, o, documents)
	if err != nil {
		return nil, nil, err
	}
	var answer admin.Operations
	if err := o.query(ctx, stored, &answer, "operations"); err != nil {
		return nil, nil, err
	}
	notes = append(notes, answer.Notes...)
	if len(answer.Operations) == 0 {
		return tracer, append(notes, "the manifests change nothing: this is the answer of the present state"), nil
	}
	notes = append(notes, fmt.Sprintf("as if the manifests were applied: %s in a copy of the databases",
		several(len(answer.Operations), "operation")))
	return changedTracer{tracer, answer.Operations}, notes, nil
}
