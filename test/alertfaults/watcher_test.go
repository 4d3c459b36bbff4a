//go:build e2e

package alertfaults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/testbed"
)

const (
	// undivided are the original rules, and divided the rules with durations that a test can wait for. Each range of
	// a divided rule is still longer than the interval of what it counts (one measurement a minute: 2 minutes).
	undivided, divided = 1, 15
	// interval is 30 s, divided.
	interval = 2 * time.Second

	firing, inactive = "firing", "inactive"
)

// event is a line of weft-alerts' output.
type event struct {
	Time    time.Time
	Alert   string
	Factor  int
	Labels  map[string]string
	State   string
	Summary string
	Targets map[string]bool
	Error   string
}

// watcher records the history of every alert.
type watcher struct {
	mu      sync.Mutex
	events  []event
	targets map[string]bool
}

// watch starts weft-alerts in the control plane's network until the test's end, and waits until it reads all agents
// and one operator.
func watch(t *testing.T, bed *testbed.Bed) *watcher {
	t.Helper()
	program, err := bed.Build(t.Context(), "test/alertrules", "./cmd/weft-alerts")
	must(t, err)
	root, err := tools.SourceRoot()
	must(t, err)
	nodes, err := bed.Nodes()
	must(t, err)
	var agents, operators []string
	for _, n := range nodes {
		agents = append(agents, n.IPv4.Addr().String()+ports.Any(ports.AgentMetrics))
		operators = append(operators, n.IPv4.Addr().String()+ports.Any(ports.OperatorMetrics)) // the operator runs on one of them
	}
	ctx, stop := context.WithCancel(context.Background()) // it also watches repairs
	cmd := bed.NetworkCommand(ctx, program, "-rules="+filepath.Join(root, "dist", "prometheus-rules.yaml"),
		fmt.Sprintf("-factors=%d,%d", undivided, divided), "-interval="+interval.String(),
		"-targets="+strings.Join(append(slices.Clone(agents), operators...), ","))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // weft-alerts ends with this process
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	w := &watcher{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := json.NewDecoder(out)
		for e := (event{}); lines.Decode(&e) == nil; e = (event{}) {
			w.add(e)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-read
		_ = cmd.Wait() // killed
	})
	eventually(t, time.Minute, func() error { return w.reads(agents, operators) })
	return w
}

func (w *watcher) add(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	if e.Targets != nil {
		w.targets = e.Targets
	}
}

// reads returns nil if all targets of the first list and one of the second can be read.
func (w *watcher) reads(all, one []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	isRead := func(target string) bool { return w.targets[target] }
	if !slices.ContainsFunc(one, isRead) || slices.ContainsFunc(all, func(target string) bool { return !isRead(target) }) {
		return fmt.Errorf("want all of %v and one of %v readable, have %v", all, one, w.targets)
	}
	return nil
}

// since lists the events at or after a time.
func (w *watcher) since(at time.Time) []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []event
	for _, e := range w.events {
		if !e.Time.Before(at) {
			found = append(found, e)
		}
	}
	return found
}

// expected is an alert that a fault must raise.
type expected struct {
	alert  string
	factor int
	labels map[string]string // the alert may have more labels
	lasts  bool              // its range is so long that the test does not wait for its end
	passes bool              // its cause happens once, so it may end before the repair
}

func (x expected) String() string {
	return fmt.Sprintf("%s%v (durations divided by %d)", x.alert, x.labels, x.factor)
}

func (x expected) is(e event) bool {
	if x.alert != e.Alert || x.factor != e.Factor {
		return false
	}
	for name := range maps.Keys(x.labels) {
		if e.Labels[name] != x.labels[name] {
			return false
		}
	}
	return true
}

// state returns the last event of an alert.
func (w *watcher) state(x expected) event {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range slices.Backward(w.events) {
		if x.is(e) {
			return e
		}
	}
	return event{State: inactive}
}

// fired returns the first event at which an alert fired since a time.
func (w *watcher) fired(x expected, since time.Time) (event, error) {
	events := w.since(since)
	for _, e := range events {
		if x.is(e) && e.State == firing {
			return e, nil
		}
	}
	return event{}, fmt.Errorf("%v did not fire; it is %+v", x, w.state(x))
}

// ended returns nil if an alert does not fire.
func (w *watcher) ended(x expected) (event, error) {
	e := w.state(x)
	if e.State == firing {
		return e, fmt.Errorf("%v still fires: %s", x, e.Summary)
	}
	return e, nil
}
