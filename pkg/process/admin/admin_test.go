package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"

	"github.com/weft-network/weft/pkg/ovndb"
)

// net/http lets the client read the refusal of a long body for half a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fake returns its input.
type fake struct{ err error }

func (f fake) Plan(_ context.Context, request PlanRequest) (Changes, error) {
	var c Changes
	for _, d := range request.Objects {
		c.Notes = append(c.Notes, fmt.Sprintf("%s delete=%v", d, request.Delete))
	}
	return c, f.err
}

func (f fake) Operations(_ context.Context, request PlanRequest) (Operations, error) {
	operation := fmt.Sprintf(`{"op":"comment","comment":"%d objects"}`, len(request.Objects))
	return Operations{Operations: []json.RawMessage{json.RawMessage(operation)}}, f.err
}

func (f fake) Drift(context.Context) (Changes, error) {
	return Changes{Changes: []ovndb.Change{{Owner: "pod/demo/web-0", Op: ovndb.OpInsert}}}, f.err
}

func (f fake) Check(context.Context) (Violations, error) {
	return Violations{Checked: []string{"UniqueAddress"}}, f.err
}

func (f fake) History(_ context.Context, request HistoryRequest) (History, error) {
	return History{Writer: fmt.Sprintf("%s, %d", request.Object, request.Limit)}, f.err
}

// serve starts a server and returns its socket.
func serve(t *testing.T, operator Operator) string {
	t.Helper()
	server := NewServer(filepath.Join(t.TempDir(), "admin.sock"), operator, logr.Discard())
	// A client that dials before Serve waits in the listener's queue, so that the test needs no other sign of
	// readiness.
	listener, err := listen(server.Socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.Socket
}

func admin(t *testing.T, socket, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Command(t.Context(), append([]string{"--socket", socket}, args...), strings.NewReader(in), &out)
	return out.String(), err
}

const twoPods = `{apiVersion: v1, kind: Pod, metadata: {name: a}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}}
`

func TestAnswers(t *testing.T) {
	socket := serve(t, fake{})
	for _, test := range []struct {
		args []string
		says []string
	}{
		{[]string{"plan"}, []string{"document 1 (Pod a) delete=false", "document 2 (Pod b) delete=false"}},
		{[]string{"plan", "--delete"}, []string{"(Pod a) delete=true"}},
		{[]string{"operations"}, []string{`{"op":"comment","comment":"2 objects"}`}},
		{[]string{"drift"}, []string{`"owner":"pod/demo/web-0"`}},
		{[]string{"check"}, []string{"UniqueAddress"}},
		{[]string{"history"}, []string{`"writer":", 20"`, `"entries":[]`}},
		{[]string{"history", "--limit=3", "--", "pod/demo/a&b"}, []string{"pod/demo/a\\u0026b, 3"}},
	} {
		out, err := admin(t, socket, twoPods, test.args...)
		if err != nil || !json.Valid([]byte(out)) {
			t.Errorf("%v: %q, %v", test.args, out, err)
		}
		for _, word := range test.says {
			if !strings.Contains(out, word) {
				t.Errorf("%v: %s does not say %q", test.args, out, word)
			}
		}
	}
}

func TestErrorsArriveInWords(t *testing.T) {
	killed := filepath.Join(t.TempDir(), "killed")
	if listener, err := listen(killed); err != nil || listener.Close() != nil {
		t.Fatalf("create a socket without a listener: %v", err)
	}
	healthy, broken := serve(t, fake{}),
		serve(t, fake{fmt.Errorf("%w: this operator does not lead%s", ErrUnavailable, strings.Repeat("ü", maxFailure))})
	for _, test := range []struct {
		name, socket, in string
		args             []string
		says             string
	}{
		{"the operator's own words", broken, twoPods, []string{"plan"}, "does not lead"},
		{"a malformed object", healthy, "{apiVersion: v1, kind: Pod}", []string{"plan"}, "document 1: Pod without metadata.name"},
		{"no operator", filepath.Join(t.TempDir(), "none"), "", []string{"drift"}, "no operator listens"},
		{"an operator that was killed", killed, "", []string{"drift"}, "no operator listens"},
		{"an unknown command", healthy, "", []string{"explain"}, `unknown command "explain"`},
		{"a word too many", healthy, "", []string{"drift", "now"}, `unexpected argument "now"`},
		{"no number", healthy, "", []string{"history", "--limit=0"}, `limit "0": want 1 to 1000`},
		{"two objects", healthy, "", []string{"history", "pod/a", "pod/b"}, `unexpected argument "pod/b"`},
		{"nothing", healthy, "", nil, "usage"},
	} {
		if out, err := admin(t, test.socket, test.in, test.args...); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: answer %q, error %v, which should say %q", test.name, out, err, test.says)
		} else if len(err.Error()) > maxFailure+len("...") || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: the error has %d bytes or is no text", test.name, len(err.Error()))
		}
	}
}

func TestTooManyManifests(t *testing.T) {
	socket := serve(t, fake{})
	long := strings.NewReader(strings.Repeat("#", MaxManifests+1))
	if err := Command(t.Context(), []string{"--socket", socket, "plan"}, long, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "too large") {
		t.Errorf("error is %v, want one that says too large", err)
	}
}

// The network must not stop because the admin socket fails.
func TestServerWithoutASocketEndsWithoutAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	if err := NewServer(filepath.Join(file, "admin.sock"), fake{}, log).Start(t.Context()); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "cannot serve the admin socket") {
		t.Errorf("logged %q", logged)
	}
}

// A process that was killed leaves its socket, which the next process of the pod replaces.
func TestSocketIsPrivateAndReplacesAnEarlierOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	for range 2 {
		listener, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket is %v, %v; want mode 0600", info, err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other name is left: %v", err)
	}
}
