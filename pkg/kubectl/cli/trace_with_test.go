package cli

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weft-network/weft/pkg/trace"
)

// --with and -f belong together.
func TestTraceWithNeedsFiles(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--with", "error: --with needs -f FILE\n"}, {"-f=policy.yaml", "error: -f needs --with\n"},
	} {
		server := &apiServer{T: t}
		if code, out, errs := server.run("trace", "a", "b", c.args); code != exitError || out != "" || errs != c.says {
			t.Errorf("%s: exit code %d, %q, %q", c.args, code, out, errs)
		}
	}
}

// recording is a tracer that keeps the last request.
type recording struct{ last trace.Request }

func (r *recording) Run(_ context.Context, request trace.Request) (trace.Answer, error) {
	r.last = request
	return trace.Answer{}, nil
}

// Each request of a trace with changes has them.
func TestChangesAreInEachRequest(t *testing.T) {
	var r recording
	tracer := changedTracer{&r, []json.RawMessage{[]byte(`{"op":"comment"}`)}}
	_, err := tracer.Run(t.Context(), trace.Request{Ports: []string{"p"}})
	if err != nil || len(r.last.Changes) != 1 || len(r.last.Ports) != 1 {
		t.Errorf("request %+v, %v", r.last, err)
	}
}
