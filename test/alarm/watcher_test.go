//go:build e2e

package alarm

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

	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/testbed"
)

const (
	// undivided are the rules as they are, and divided those by whose durations a test can wait for. Each range of a divided rule is still
	// longer than the time between two of what it counts (a measurement a minute: 2 minutes).
	undivided, divided = 1, 15
	// interval is 30 s, divided.
	interval = 2 * time.Second

	firing, inactive = "firing", "inactive"
)

// event is what weft-alerts writes.
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

// watcher knows what every alert did.
type watcher struct {
	mu      sync.Mutex
	events  []event
	targets map[string]bool
}

// watch starts weft-alerts in the control plane's network until the test's end, and waits until it reads all agents and an operator.
func watch(t *testing.T, bed *testbed.Bed) *watcher {
	t.Helper()
	program, err := bed.Build(t.Context(), "test/alerts", "./cmd/weft-alerts")
	must(t, err)
	root, err := tools.SourceRoot()
	must(t, err)
	nodes, err := bed.Nodes()
	must(t, err)
	var agents, operators []string
	for _, n := range nodes {
		agents = append(agents, n.IPv4.Addr().String()+":9443")
		operators = append(operators, n.IPv4.Addr().String()+":9441") // on one of them
	}
	ctx, stop := context.WithCancel(context.Background()) // it watches cures too
	cmd := bed.NetworkCommand(ctx, program, "-rules="+filepath.Join(root, "dist", "prometheus-rules.yaml"),
		fmt.Sprintf("-factors=%d,%d", undivided, divided), "-interval="+interval.String(), "-targets="+strings.Join(append(slices.Clone(agents), operators...), ","))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // it ends with this process
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

// reads is nil when all of some targets and one of others can be read.
func (w *watcher) reads(all, one []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	isRead := func(target string) bool { return w.targets[target] }
	if !slices.ContainsFunc(one, isRead) || slices.ContainsFunc(all, func(target string) bool { return !isRead(target) }) {
		return fmt.Errorf("of %v and one of %v are read: %v", all, one, w.targets)
	}
	return nil
}

// since lists the events of a time and later.
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

// expected is an alert that a fault is about.
type expected struct {
	alert  string
	factor int
	labels map[string]string // it has these, and may have others
	lasts  bool              // it looks so far back that its end is not waited for
	passes bool              // what it counts comes in one go, so that it may end before the cure
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

// state is the last that is known of an alert, with its time.
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

// fired is the first time since then at which an alert fired.
func (w *watcher) fired(x expected, since time.Time) (event, error) {
	events := w.since(since)
	for _, e := range events {
		if x.is(e) && e.State == firing {
			return e, nil
		}
	}
	return event{}, fmt.Errorf("%v did not fire; it is %+v", x, w.state(x))
}

// ended is nil when an alert does not fire.
func (w *watcher) ended(x expected) (event, error) {
	e := w.state(x)
	if e.State == firing {
		return e, fmt.Errorf("%v still fires: %s", x, e.Summary)
	}
	return e, nil
}
