package watch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
)

// TestDivide checks that all durations of a rule are divided, wherever they are, and nothing else.
func TestDivide(t *testing.T) {
	const rules = `
groups:
- name: weft
  rules:
  - alert: A
    expr: max by (area) (rate(a_total{b="5m"}[10m] offset 1m)) > 20.48 or max_over_time(x[1h:2m]) == 15
    for: 15m
    labels: {severity: warning}
  - alert: B
    expr: b == 0
    for: 0m
`
	dir := t.TempDir()
	path := filepath.Join(dir, "all.yaml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	divided, err := divide(path, dir, 15)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.ParseFile(divided, false)
	if len(errs) > 0 || len(groups.Groups) != 1 || len(groups.Groups[0].Rules) != 2 {
		t.Fatalf("%v: %+v", errs, groups)
	}
	a, b := groups.Groups[0].Rules[0], groups.Groups[0].Rules[1]
	want := `max by (area) (rate(a_total{b="5m"}[40s] offset 4s)) > 20.48 or max_over_time(x[4m:8s]) == 15`
	if a.Expr != want || a.For.String() != "1m" || a.Labels["severity"] != "warning" {
		t.Errorf("%+v, want %s for 1m", a, want)
	}
	if b.Expr != "b == 0" || b.For != 0 || groups.Groups[0].Labels[factorLabel] != "15" {
		t.Errorf("%+v, labels %v", b, groups.Groups[0].Labels)
	}
}

// TestDivideTheProductsRules checks that all rules of the product can be divided.
func TestDivideTheProductsRules(t *testing.T) {
	divided, err := divide("../../../dist/prometheus-rules.yaml", t.TempDir(), 15)
	if err != nil {
		t.Fatal(err)
	}
	if groups, errs := rulefmt.ParseFile(divided, false); len(errs) > 0 || len(groups.Groups[0].Rules) < 13 {
		t.Errorf("%v", errs)
	}
}

// TestRun checks that an alert becomes pending, fires and ends, at the times given by its durations. A target that
// cannot be read has no series.
func TestRun(t *testing.T) {
	var bad atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch bad.Load() {
		case 0, 1:
			fmt.Fprintf(w, "# TYPE bad gauge\nbad{area=\"x\"} %d\n", bad.Load())
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	const rules = `
groups:
- name: weft
  rules:
  - {alert: Bad, expr: bad == 1, for: 2s, annotations: {summary: "{{ $labels.area }} is bad"}}
  - {alert: Gone, expr: absent(bad), for: 0s}
  - {alert: Slow, expr: bad == 1, for: 1h}
`
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	events := make(chan Event, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Rules: path, Factors: []int{1, 10},
			Targets: []string{strings.TrimPrefix(server.URL, "http://")}, Interval: 100 * time.Millisecond},
			func(e Event) { events <- e })
	}()
	await := func(what string, is func(Event) bool) Event {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			select {
			case e := <-events:
				if e.Error != "" {
					t.Fatalf("%+v", e)
				}
				if e.Alert == "Slow" && e.State == "firing" {
					t.Errorf("%+v too early", e)
				}
				if is(e) {
					return e
				}
			case <-deadline:
				t.Fatalf("no %s", what)
			}
		}
	}
	is := func(alert string, factor int, state string) func(Event) bool {
		return func(e Event) bool { return e.Alert == alert && e.Factor == factor && e.State == state }
	}
	await("targets that are read", func(e Event) bool { return len(e.Targets) == 1 && !strings.Contains(fmt.Sprint(e.Targets), "false") })
	began := time.Now()
	bad.Store(1)
	await("pending", is("Bad", 10, "pending"))
	await("firing, divided", is("Bad", 10, "firing"))
	e := await("firing", is("Bad", 1, "firing"))
	if took := time.Since(began); took < 2*time.Second || e.Summary != "x is bad" || e.Labels["area"] != "x" || len(e.Labels) != 3 {
		t.Errorf("%+v after %s", e, took)
	}
	bad.Store(2)
	await("absence", is("Gone", 1, "firing"))
	bad.Store(0)
	await("the end", is("Gone", 10, "inactive"))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
