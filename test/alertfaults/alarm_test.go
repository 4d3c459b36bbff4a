//go:build e2e

package alertfaults

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/test/lab/tools"
)

// TestNodes injects faults on nodes and in rows. Two of them are detected only every 5 minutes; the others run
// meanwhile. Faults whose alert is an area's state come first, because an area reports only its worst state.
func TestNodes(t *testing.T) {
	w := open(t)
	quiet := time.Now()
	w.live(t)
	w.nothingElse(t, quiet)
	late := []*struck{w.strike(t, w.broken()), w.strike(t, w.violated()), w.strike(t, w.poolless())}
	w.suffer(t, w.agentPending())
	w.suffer(t, w.controllerAway())
	slow := w.strike(t, w.slow(w.serve(t)))
	w.suffer(t, w.spoiled())
	for _, s := range late {
		s.awaitAlarm(t)
		s.heal(t)
	}
	refused := w.strike(t, w.refused())
	for _, s := range []*struck{slow, refused} {
		s.awaitAlarm(t)
		s.heal(t)
	}
	for _, s := range []*struck{slow, refused} {
		s.awaitEnd(t, aftermath)
	}
	w.awaitNodes(t)
	w.suffer(t, w.southboundBlocked())
	for _, s := range late {
		s.awaitEnd(t, 6*time.Minute) // the same intervals
	}
	w.nothingElse(t, quiet)
	t.Log(w.table())
}

// TestCentral injects faults that stop all changes.
func TestCentral(t *testing.T) {
	w := open(t)
	quiet := time.Now()
	backend := w.serve(t)
	w.suffer(t, w.northboundAway())
	w.suffer(t, w.northdAway(backend))
	w.suffer(t, w.noOperator())
	w.nothingElse(t, quiet)
	t.Log(w.table())
}

// live creates and deletes pods for a while on a healthy network.
func (w *ward) live(t *testing.T) {
	t.Helper()
	for round := range 2 {
		for _, node := range []string{"n1", "n2"} {
			for i := range 2 {
				pod := w.Pausing(fmt.Sprintf("lives-%s-%d-%d", node, round, i), node)
				w.run(t, pod)
				must(t, w.Remove(t.Context(), pod))
			}
		}
	}
}

// TestEveryAlertHasAFault checks that every alert in the rules has a fault here.
func TestEveryAlertHasAFault(t *testing.T) {
	root, err := tools.SourceRoot()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "dist", "prometheus-rules.yaml"))
	must(t, err)
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	must(t, yaml.Unmarshal(text, &file))
	w, expected := &ward{}, map[string]bool{}
	for _, f := range []fault{w.broken(), w.violated(), w.poolless(), w.slow(nil), w.spoiled(), w.refused(), w.southboundBlocked(),
		w.controllerAway(), w.agentPending(),
		w.northboundAway(), w.northdAway(nil), w.noOperator()} {
		for _, x := range f.alerts {
			expected[x.alert] = true
		}
	}
	for _, rule := range file.Groups[0].Rules {
		if !expected[rule.Alert] {
			t.Errorf("no fault for alert %s", rule.Alert)
		}
		delete(expected, rule.Alert)
	}
	if len(expected) > 0 {
		t.Errorf("faults expect missing alerts %v", expected)
	}
}
