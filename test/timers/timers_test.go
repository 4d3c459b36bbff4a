// Package timers keeps the list of the agent's timers in docs/dev/timers.md complete.
package timers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// agent lists the packages that run on a node.
var agent = []string{"cmd/weft-agent", "cmd/weft-cni", "cmd/weft-ovn", "cmd/weft-capture", "pkg/kubectl/capture", "pkg/install/launch",
	"pkg/agent", "pkg/cni",
	"pkg/cni/cniwire", "pkg/cni/tombstone", "pkg/process/trigger", "pkg/ovn/unixctl", "pkg/ovndb"}

// path lists the code through which an ADD or DEL passes. Nothing there may wait for a clock.
var path = []string{"cmd/weft-cni/", "pkg/cni/", "pkg/cni/cniwire/", "pkg/agent/cniserver/",
	"pkg/agent/attach/add.go", "pkg/agent/attach/handler.go", "pkg/agent/attach/attachments.go",
	"pkg/agent/attach/stage.go", "pkg/agent/bindings/bindings.go", "pkg/agent/attach/result.go", "pkg/agent/attach/state.go"}

// timed are the functions that wait for a clock, or that schedule work with one.
var timed = map[string]bool{
	"time.NewTicker": true, "time.Tick": true, "time.NewTimer": true, "time.After": true, "time.AfterFunc": true, "time.Sleep": true,
	"context.WithTimeout": true, "context.WithTimeoutCause": true, "context.WithDeadline": true, "context.WithDeadlineCause": true,
}

// delayed are methods and fields of work queues, matched only by name.
var delayed = []string{"EnqueueAfter", "AddAfter", "AddRateLimited", "RequeueAfter"}

// timer is a use of a timer in the code.
type timer struct{ file, call string }

// inCode finds the timers of the agent's packages, without tests.
func inCode(t *testing.T) (found []timer) {
	t.Helper()
	for _, dir := range agent {
		err := filepath.WalkDir(filepath.Join(root, dir), func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && strings.HasSuffix(file, "test"): // pkg/ovndb/ovndbtest
				return filepath.SkipDir
			case !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"):
				return nil
			}
			calls, err := callsIn(file)
			for _, call := range calls {
				found = append(found, timer{filepath.ToSlash(strings.TrimPrefix(file, root+"/")), call})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func callsIn(file string) (calls []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if call := named(n.Fun); call != "" {
				calls = append(calls, call)
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(delayed, key.Name) {
				calls = append(calls, key.Name)
			}
		}
		return true
	})
	return calls, nil
}

// named returns the name of a function that waits for a clock, or an empty string. All functions of k8s.io's package
// wait count.
func named(fun ast.Expr) string {
	selector, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	of, _ := selector.X.(*ast.Ident)
	switch {
	case of != nil && (timed[of.Name+"."+selector.Sel.Name] || of.Name == "wait" && ast.IsExported(selector.Sel.Name)):
		return of.Name + "." + selector.Sel.Name
	case slices.Contains(delayed, selector.Sel.Name):
		return selector.Sel.Name
	}
	return ""
}

// row is a line of the table: file, call, when it runs, duration, purpose.
type row struct {
	timer
	when string
}

// inDocs reads the table.
func inDocs(t *testing.T) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "dev", "timers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## The agent's timers\n")
	if !ok {
		t.Fatal("docs/dev/timers.md has no section on the agent's timers")
	}
	section, _, _ := strings.Cut(after, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) == 7 && strings.Contains(cells[1], "`") {
			clean := func(i int) string { return strings.Trim(strings.TrimSpace(cells[i]), "`") }
			rows = append(rows, row{timer{clean(1), clean(2)}, clean(3)})
		}
	}
	return rows
}

func TestEveryTimerOfTheAgentIsListed(t *testing.T) {
	var listed []timer
	for _, r := range inDocs(t) {
		listed = append(listed, r.timer)
	}
	order := func(a, b timer) int { return strings.Compare(a.file+a.call, b.file+b.call) }
	code := inCode(t)
	slices.SortFunc(listed, order)
	slices.SortFunc(code, order)
	if diff := cmp.Diff(listed, code, cmp.AllowUnexported(timer{})); diff != "" {
		t.Errorf("docs/dev/timers.md, The agent's timers (-listed +code):\n%s", diff)
	}
}

func TestNothingOnThePathOfAddAndDelWaitsForAClock(t *testing.T) {
	onPath := func(file string) bool {
		return slices.ContainsFunc(path, func(p string) bool { return strings.HasPrefix(file, p) })
	}
	seen := 0
	for _, r := range inDocs(t) {
		if !onPath(r.file) {
			continue
		}
		seen++
		if r.when != "deadline" || !strings.HasPrefix(r.call, "context.") && r.call != "time.AfterFunc" {
			t.Errorf("%s has %s as %q on the path of ADD and DEL, where only deadlines are allowed", r.file, r.call, r.when)
		}
	}
	if seen == 0 {
		t.Error("no deadline of a request is listed; have the path's files been renamed?")
	}
}

func TestCallsAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some.go")
	const source = `package some
func f() {
	select { case <-time.After(d): }
	wait.PollUntilContextTimeout(ctx, a, b, true, nil)
	return ctrl.Result{RequeueAfter: d}
	queue.AddAfter(x, d)
	time.Since(x)
	context.AfterFunc(ctx, f)
}`
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	calls, err := callsIn(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"time.After", "wait.PollUntilContextTimeout", "RequeueAfter", "AddAfter"}, calls); diff != "" {
		t.Error(diff)
	}
}
