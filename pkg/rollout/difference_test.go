package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/operand"
)

// Before anything is replaced, the wanted operator says what it would change in the northbound database; the preflight goes when the rollout has begun.
func TestPreflightComparesFirst(t *testing.T) {
	w := newWorld(t, v1, "n1")
	w.wanted, w.says = v2, `{"rows":912,"inserts":{"Meter":1},"updates":{"ACL":3}}`
	w.settle()
	s := w.expect(networkv1alpha1.RolloutComplete)
	if w.done[0] != "compare" || w.pods[operand.Preflight] != nil || slices.Index(w.done, "forget") < 1 {
		t.Errorf("done %q, pods %v", w.done, w.pods)
	}
	if want := "1 Meter made, 3 ACL changed, of 912 rows"; s.Difference != want {
		t.Errorf("difference %q, want %q", s.Difference, want)
	}
}

// A version that would remove what no version has a reason for replaces nothing, until it is allowed to, or another one is wanted.
func TestPreflightBlocksWhatWouldRemoveTooMuch(t *testing.T) {
	for name, way := range map[string]func(*world){
		"allowed": func(w *world) {
			w.network.Annotations = map[string]string{networkv1alpha1.AcceptDifferenceAnnotation: v2.version}
		},
		"back": func(w *world) { w.wanted = v1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1, "n1")
			w.wanted, w.says = v2, `{"rows":300,"deletes":{"ACL":20,"Logical_Switch_Port":11}}`
			w.settle()
			if s := w.expect(networkv1alpha1.RolloutBlocked); s.Stage != networkv1alpha1.StagePreflight || !strings.Contains(s.Message, "11 Logical_Switch_Port removed") ||
				!strings.Contains(s.Message, networkv1alpha1.AcceptDifferenceAnnotation+"=v1.1.0") || w.replaced() != "" {
				t.Errorf("replaced %q, status %+v", w.replaced(), s)
			}
			way(w)
			w.settle()
			if s := w.expect(networkv1alpha1.RolloutComplete); s.Version != w.wanted.version || w.pods[operand.Preflight] != nil {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// Another version that is wanted meanwhile gets a preflight of its own.
func TestPreflightIsOfTheWantedVersion(t *testing.T) {
	w := newWorld(t, v1, "n1")
	w.wanted, w.says = v2, `{"rows":300,"deletes":{"ACL":31}}`
	w.settle()
	w.expect(networkv1alpha1.RolloutBlocked)
	w.wanted, w.says = newOVS, `{"rows":300}`
	w.settle()
	if s := w.expect(networkv1alpha1.RolloutComplete); s.Difference != "none, of 300 rows" {
		t.Errorf("status %+v", s)
	}
}

// No answer holds nobody up for long: a database that cannot be read may be why there is another version.
func TestPreflightWithoutAnAnswer(t *testing.T) {
	for says, want := range map[string]string{
		"hangs":                     "not known: the preflight took too long",
		`{"error":"no connection"}`: "not known: no connection",
		"":                          "not known: no answer",
		"panic: no":                 "not known: no answer panic: no",
	} {
		w := newWorld(t, v1, "n1")
		w.wanted, w.says = v2, says
		w.settle()
		if says == "hangs" {
			w.expect(networkv1alpha1.RolloutProgressing)
			w.now = w.now.Add(compareTime + time.Second)
			w.settle()
		}
		if s := w.expect(networkv1alpha1.RolloutComplete); s.Difference != want {
			t.Errorf("says %q: difference %q, want %q", says, s.Difference, want)
		}
	}
}
