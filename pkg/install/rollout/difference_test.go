package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// Before anything is replaced, the new operator computes what it would change in the northbound database. The
// preflight is deleted once the rollout has begun.
func TestPreflightComparesFirst(t *testing.T) {
	w := newWorld(t, v1, "n1")
	w.wanted, w.output = v2, `{"rows":912,"inserts":{"Meter":1},"updates":{"ACL":3}}`
	w.settle()
	s := w.expect(networkv1alpha1.RolloutComplete)
	if w.done[0] != "start preflight" || w.pods[render.Preflight] != nil || slices.Index(w.done, "delete preflight") < 1 {
		t.Errorf("steps %q, pods %v", w.done, w.pods)
	}
	if want := "1 Meter created, 3 ACL changed, of 912 rows"; s.Difference != want {
		t.Errorf("difference %q, want %q", s.Difference, want)
	}
}

// A version that would remove too many rows replaces nothing until the administrator accepts it or another version is
// wanted.
func TestPreflightBlocksWhatWouldRemoveTooMuch(t *testing.T) {
	for name, resolve := range map[string]func(*world){
		"accepted": func(w *world) {
			w.network.Annotations = map[string]string{networkv1alpha1.AcceptDifferenceAnnotation: v2.version}
		},
		"back": func(w *world) { w.wanted = v1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1, "n1")
			w.wanted, w.output = v2, `{"rows":300,"deletes":{"ACL":20,"Logical_Switch_Port":11}}`
			w.settle()
			s := w.expect(networkv1alpha1.RolloutBlocked)
			if s.Stage != networkv1alpha1.StagePreflight || !strings.Contains(s.Message, "11 Logical_Switch_Port removed") ||
				!strings.Contains(s.Message, networkv1alpha1.AcceptDifferenceAnnotation+"=v1.1.0") || w.replaced() != "" {
				t.Errorf("replaced %q, status %+v", w.replaced(), s)
			}
			resolve(w)
			w.settle()
			if s := w.expect(networkv1alpha1.RolloutComplete); s.Version != w.wanted.version || w.pods[render.Preflight] != nil {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// If another version becomes wanted meanwhile, it gets its own preflight.
func TestPreflightIsOfTheWantedVersion(t *testing.T) {
	w := newWorld(t, v1, "n1")
	w.wanted, w.output = v2, `{"rows":300,"deletes":{"ACL":31}}`
	w.settle()
	w.expect(networkv1alpha1.RolloutBlocked)
	w.wanted, w.output = newOVS, `{"rows":300}`
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutComplete); s.Difference != "none, of 300 rows" {
		t.Errorf("status %+v", s)
	}
}

// A preflight without a result delays the rollout only briefly, because an unreadable database may be the reason for
// the upgrade.
func TestPreflightWithoutAResult(t *testing.T) {
	for output, want := range map[string]string{
		"hangs":                     "unknown: the preflight took too long",
		`{"error":"no connection"}`: "unknown: no connection",
		"":                          "unknown: no result",
		"panic: no":                 "unknown: no result panic: no",
	} {
		w := newWorld(t, v1, "n1")
		w.wanted, w.output = v2, output
		w.settle()
		if output == "hangs" {
			w.expect(networkv1alpha1.RolloutProgressing)
			w.now = w.now.Add(compareTime + time.Second)
			w.settle()
		}
		if s := w.expect(networkv1alpha1.RolloutComplete); s.Difference != want {
			t.Errorf("output %q: difference %q, want %q", output, s.Difference, want)
		}
	}
}
