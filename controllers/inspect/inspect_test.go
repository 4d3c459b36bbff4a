package inspect

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

// Two replicas listen. The replica that does not lead has no database.
func TestOperatorThatDoesNotLeadSaysSo(t *testing.T) {
	a := &Inspector{elected: make(chan struct{})}
	_, planned := a.Plan(t.Context(), admin.PlanRequest{})
	_, drift := a.Drift(t.Context())
	_, checked := a.Check(t.Context())
	_, told := a.History(t.Context(), admin.HistoryRequest{})
	for question, err := range map[string]error{"plan": planned, "drift": drift, "check": checked, "history": told} {
		if !errors.Is(err, admin.ErrUnavailable) || !strings.Contains(err.Error(), "does not lead") {
			t.Errorf("%s: %v", question, err)
		}
	}
}

// An object has the units of all kinds that reconcile it, and the changes that it caused elsewhere.
func TestUnitsOfAnObject(t *testing.T) {
	node, pod := func() client.Object { return &corev1.Node{} }, func() client.Object { return &corev1.Pod{} }
	kinds := []*kind.Kind{{Name: "network", Object: "clusternetwork"}, {Name: "node", Owner: node}, {Name: "gateway", Owner: node},
		{Name: "pod", Owner: pod}, {Name: "podports", Owner: pod}, {Name: "podgroup", Shared: true}}
	for object, want := range map[unit.Key][]unit.Key{
		"node/n1": {"node/n1", "gateway/n1"}, "pod/demo/a": {"pod/demo/a", "podports/demo/a"}, "podgroup/5f": {"podgroup/5f"},
		"clusternetwork/default": {"network/default"}, "gateway/n1": nil, "pod": nil, "ingress/demo/a": nil,
	} {
		if got := unitsOf(object, kinds); !slices.Equal(got, want) {
			t.Errorf("%s has the units %v, want %v", object, got, want)
		}
		concerns, err := concerning(object, kinds)
		if len(want) == 0 {
			if !errors.Is(err, admin.ErrInvalid) || !strings.Contains(err.Error(), "clusternetwork, node, pod, podgroup") {
				t.Errorf("%s: %v", object, err)
			}
			continue
		}
		for _, c := range []struct {
			change history.Change
			cause  history.Cause
			want   bool
		}{
			{history.Change{Owner: want[0]}, history.Cause{}, true},
			{history.Change{Holder: want[0]}, history.Cause{}, true},
			{history.Change{Owner: "x/y"}, history.Cause{Object: object}, true},
			{history.Change{Owner: "x/y"}, history.Cause{Object: "x/y"}, false},
		} {
			if got := concerns(c.change, c.cause); got != c.want {
				t.Errorf("%s: %+v because of %+v concerns it: %t", object, c.change, c.cause, got)
			}
		}
	}
}
