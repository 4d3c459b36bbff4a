package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// rows are the units of a database. nil means that it is not connected.
type rows struct {
	owners map[unit.Key]int
	wanted []unit.Key
}

func (r rows) Owners() (map[unit.Key]int, bool) { return r.owners, r.owners != nil }

func (r rows) Wanted(key unit.Key) bool { return slices.Contains(r.wanted, key) }

// kinds returns a few kinds of each sort.
func kinds() map[string]*kind.Kind {
	found := map[string]*kind.Kind{}
	for _, k := range []*kind.Kind{
		{Name: topology.KindNetwork},
		{Name: topology.KindPod, Owner: func() client.Object { return &corev1.Pod{} }},
		{Name: topology.KindNode, Owner: func() client.Object { return &corev1.Node{} }},
		{Name: topology.KindService, Owner: func() client.Object { return &corev1.Service{} }, Optional: true},
		{Name: topology.KindPodSet, Shared: true},
		{Name: topology.KindPodPorts, Owner: func() client.Object { return &corev1.Pod{} }},
	} {
		found[k.Name] = k
	}
	return found
}

func clientOf(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{networkv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

var (
	theNetwork = &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	web        = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}
	n1         = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	front      = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "front"}}
)

// many are units of one kind.
func many(kind string, n int) map[unit.Key]int {
	owners := map[unit.Key]int{}
	for i := range n {
		owners[unit.NewKey(kind, fmt.Sprintf("gone-%d", i))] = 1
	}
	return owners
}

func TestReconcile(t *testing.T) {
	for name, c := range map[string]struct {
		rows    rows
		cached  []client.Object
		live    []client.Object
		awaited []unit.Key
		// enqueued are the first enqueued objects, sorted: "kind/namespace/name". count, if set, is the number of
		// all.
		enqueued []string
		count    int
		event    string
		lags     bool
	}{
		"the database is away": {
			cached: []client.Object{theNetwork}, awaited: []unit.Key{topology.NodeKey("n9")},
		},
		"there is no ClusterNetwork": {
			rows: rows{owners: map[unit.Key]int{topology.PodKey("demo", "web"): 1}}, awaited: []unit.Key{topology.NodeKey("n9")},
		},
		"the owner is gone": {
			rows: rows{owners: map[unit.Key]int{topology.PodKey("demo", "web"): 1}}, cached: []client.Object{theNetwork},
			enqueued: []string{"pod/demo/web"},
		},
		"the owner is there: its controller decides": {
			rows: rows{owners: map[unit.Key]int{topology.PodKey("demo", "web"): 1}}, cached: []client.Object{theNetwork, web},
			enqueued: []string{"pod/demo/web"},
		},
		"the unit was applied by this process": {
			rows:   rows{owners: map[unit.Key]int{topology.PodKey("demo", "web"): 1}, wanted: []unit.Key{topology.PodKey("demo", "web")}},
			cached: []client.Object{theNetwork},
		},
		"nodes that are not cached yet are no vanished ones": {
			rows: rows{owners: many(topology.KindNode, 21)}, cached: []client.Object{theNetwork}, live: nodes(21),
			lags: true,
		},
		"the cache does not have the owner yet": { // its reconciler would remove the rows
			rows: rows{owners: map[unit.Key]int{topology.PodKey("demo", "web"): 1}}, cached: []client.Object{theNetwork},
			live: []client.Object{web}, lags: true,
		},
		"too many nodes at once": {
			rows: rows{owners: many(topology.KindNode, 21)}, cached: []client.Object{theNetwork},
			event: "rows of 21 node units whose owner is gone are kept: 21 of 21 are too many", lags: true,
		},
		"so many nodes may go": {
			rows: rows{owners: many(topology.KindNode, 20)}, cached: []client.Object{theNetwork}, count: 20,
		},
		"pods have no limit": {
			rows: rows{owners: many(topology.KindPod, 300)}, cached: []client.Object{theNetwork}, count: 300,
		},
		"Services have no limit": {
			rows: rows{owners: many(topology.KindService, 300)}, cached: []client.Object{theNetwork}, count: 300,
		},
		"a kind of another version": {
			rows: rows{owners: map[unit.Key]int{"later/x": 1}}, cached: []client.Object{theNetwork},
			event: "does not have the kind",
		},
		"a set with users": {
			rows: rows{owners: map[unit.Key]int{"podset/abc": 1}}, cached: []client.Object{theNetwork}, enqueued: []string{"podset//abc"},
		},
		"the cluster's own unit": {
			rows: rows{owners: map[unit.Key]int{topology.NetworkKey(): 1}}, cached: []client.Object{theNetwork},
		},
		"an optional kind is read past the cache": {
			rows: rows{owners: map[unit.Key]int{topology.ServiceKey("demo", "front"): 1}}, cached: []client.Object{theNetwork, front},
			enqueued: []string{"service/demo/front"},
		},
		"a node that never arrives": {
			rows:   rows{owners: map[unit.Key]int{}, wanted: []unit.Key{topology.NodeKey("n1")}},
			cached: []client.Object{theNetwork, n1}, enqueued: []string{"node//n9"},
			awaited: []unit.Key{topology.NodeKey("n1"), topology.NodeKey("n9")},
		},
		"ports on Networks were deleted by somebody else": {
			rows:   rows{owners: map[unit.Key]int{}, wanted: []unit.Key{topology.PodPortsKey("demo", "web")}},
			cached: []client.Object{theNetwork, web}, enqueued: []string{"podports/demo/gone", "podports/demo/web"},
			awaited: []unit.Key{topology.PodPortsKey("demo", "web"), topology.PodPortsKey("demo", "gone")},
		},
		"somebody emptied the database before the sweep found a pod's port": {
			rows:   rows{owners: map[unit.Key]int{}, wanted: []unit.Key{topology.PodKey("demo", "web")}},
			cached: []client.Object{theNetwork, web}, enqueued: []string{"pod/demo/gone"},
			awaited: []unit.Key{topology.PodKey("demo", "web"), topology.PodKey("demo", "gone")},
		},
		"somebody emptied the database before a pod with attachments was applied": {
			rows: rows{owners: map[unit.Key]int{}}, cached: []client.Object{theNetwork, web}, enqueued: []string{"podports/demo/web"},
			awaited: []unit.Key{topology.PodPortsKey("demo", "web")},
		},
		"a pod with attachments that is not cached yet": {
			rows: rows{owners: map[unit.Key]int{}}, cached: []client.Object{theNetwork}, live: []client.Object{web},
			awaited: []unit.Key{topology.PodPortsKey("demo", "web")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			triggers, recorder := &trigger.Set{}, events.NewFakeRecorder(10)
			cache := clientOf(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
				key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if _, optional := o.(*corev1.Service); optional {
					t.Errorf("the cache is read for %T, which may never be in sync", o)
				}
				return c.Get(ctx, key, o, options...)
			}}, c.cached...)
			r := &Reconciler{Client: cache, Live: clientOf(t, interceptor.Funcs{},
				slices.Concat(withoutNetwork(c.cached), c.live)...), Database: c.rows, Events: recorder,
				Triggers: triggers, Kinds: kinds(), Awaited: func() []unit.Key { return c.awaited }}
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if lags := result.RequeueAfter > 0; lags != c.lags {
				t.Errorf("the sweep repeats itself after %s", result.RequeueAfter)
			}
			got := enqueued(triggers)
			if c.count > 0 {
				if len(got) != c.count {
					t.Errorf("%d enqueued, want %d", len(got), c.count)
				}
			} else if !slices.Equal(got, c.enqueued) {
				t.Errorf("enqueued %v, want %v", got, c.enqueued)
			}
			event := ""
			select {
			case event = <-recorder.Events:
			default:
			}
			if (c.event == "") != (event == "") || !strings.Contains(event, c.event) {
				t.Errorf("event %q, want %q", event, c.event)
			}
		})
	}
}

// Rows of unlikely many vanished owners go after a while.
func TestManyVanishedOwnersAreBelievedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		triggers := &trigger.Set{}
		r := &Reconciler{Client: clientOf(t, interceptor.Funcs{}, theNetwork), Live: clientOf(t, interceptor.Funcs{}),
			Database: rows{owners: many(topology.KindNode, 21)}, Events: events.NewFakeRecorder(10), Triggers: triggers, Kinds: kinds(),
			Awaited: func() []unit.Key { return nil }}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 0}, {doubt - time.Second, 0}, {time.Second, 21}} {
			time.Sleep(step.after)
			result, err := r.Reconcile(t.Context(), ctrl.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(enqueued(triggers)); got != step.want || (result.RequeueAfter > 0) == (step.want > 0) {
				t.Errorf("%d enqueued, want %d; again after %s", got, step.want, result.RequeueAfter)
			}
		}
	})
}

// An API server that does not respond is no proof that an owner is gone.
func TestAnErrorRemovesNothing(t *testing.T) {
	away := errors.New("the API server is away")
	live := clientOf(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey,
		client.Object, ...client.GetOption) error {
		return away
	}})
	triggers := &trigger.Set{}
	r := &Reconciler{Client: clientOf(t, interceptor.Funcs{}, theNetwork), Live: live,
		Database: rows{owners: map[unit.Key]int{topology.PodKey("demo", "web"): 1}},
		Events:   events.NewFakeRecorder(10), Triggers: triggers, Kinds: kinds(), Awaited: func() []unit.Key { return nil }}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, away) {
		t.Errorf("error %v, want %v", err, away)
	}
	if got := enqueued(triggers); len(got) > 0 {
		t.Errorf("enqueued %v", got)
	}
}

func enqueued(triggers *trigger.Set) (names []string) {
	for name := range kinds() {
		for _, r := range triggers.Of(name).Take() {
			names = append(names, name+"/"+r.Namespace+"/"+r.Name)
		}
	}
	slices.Sort(names)
	return names
}

func withoutNetwork(objects []client.Object) []client.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o client.Object) bool { return o == client.Object(theNetwork) })
}

func nodes(n int) (objects []client.Object) {
	for i := range n {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gone-%d", i)}})
	}
	return objects
}
