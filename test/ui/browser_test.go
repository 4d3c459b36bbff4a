package ui

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var program string // kubectl-weft

// TestMain builds kubectl-weft once for all tests.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/ui:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "weft-ui-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "kubectl-weft")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/kubectl-weft")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return m.Run(), nil
}

// chromium returns the path of a browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no Chromium in PATH: apt-get install chromium"
	if os.Getenv("WEFT_UI_BROWSER") == "required" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// serve starts "kubectl weft ui" and returns its link.
func serve(t *testing.T, kubeconfig string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "ui", "--kubeconfig", kubeconfig)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = command.Wait() }) // it ends by the signal
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "Open "))
}

// patience is how long a test waits for what the browser shows.
const patience = time.Minute

// page is a tab of the browser.
type page struct {
	context.Context
	t *testing.T
}

// open starts a browser with a link.
func open(t *testing.T, link string) page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.WindowSize(width, height))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	w := &wrongs{}
	tab, closeTab := chromedp.NewContext(allocator, chromedp.WithListener(w.listen),
		chromedp.WithErrorf(func(string, ...any) {})) // the events of newer browsers are no failure
	t.Cleanup(closeTab)
	t.Cleanup(func() { w.report(t) })
	if err := chromedp.Do(tab); err != nil { // the browser lives as long as the context of the first action
		t.Fatal(err)
	}
	p := page{tab, t}
	p.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(link))
	return p
}

// The size of the browser's window.
const width, height = 1360, 850

func (p page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until an expression is true. It checks at every frame.
func (p page) await(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("new Promise(done => { const check = () => ("+expression+
		") ? done(true) : requestAnimationFrame(check); check(); })", chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s is not true: %v; the page shows\n%s", expression, err, eval[string](p, "document.body.innerText"))
	}
}

// eval returns the value of an expression.
func eval[T any](p page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// show opens a view.
func (p page) show(view, title string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf("(location.hash = %q, true)", "#/"+view))
	p.await(fmt.Sprintf("document.querySelector('h1')?.textContent === %q", title))
}

// press types keys.
func (p page) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}
