package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/model"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/invariantcheck"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/test/poll"
)

// patience bounds how long a test waits for an expected state; a tenth of a second is usual.
const patience = time.Minute

// world is one test's cluster: the shared API server and the test's own northbound database.
type world struct {
	*testing.T
	nb        *ovndbtest.Server
	rows      *ovndb.Conn // the test's own copy of the database
	operators []*operator

	countDelay time.Duration                // of operators started later
	lookup     resolver.Lookup              // of operators started later; nil: they use this machine's name servers
	inZone     kind.Zone                    // of operators started later
	workloads  controllers.WorkloadObserver // of operators started later; may be nil
	namespace  string                       // of operators started later; may be empty
	unsound    string                       // why invariants may fail at the end of the test; empty: they must hold
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := connectWorld(t)
	t.Cleanup(w.clear)
	w.follow()
	return w
}

// zone returns the part of the cluster with this name, which has a database of its own.
func (w *world) zone(name kind.Zone) *world {
	w.Helper()
	z := connectWorld(w.T)
	z.inZone = name
	z.follow()
	return z
}

func connectWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, nb: ovndbtest.Start(t, "ovn-nb"), countDelay: 50 * time.Millisecond}
	w.rows = ovndb.NewConn(ovndb.Config{
		Schema: northbound.Schema(), Endpoints: []string{w.nb.Endpoint()}, Log: logr.Discard(),
		OnRow:     func(string, model.Model, ovndb.RowEvent) { news.Notify() },
		OnConnect: func(bool) { news.Notify() },
	})
	return w
}

// follow keeps the test's copy of the database up to date, and ends the operators with the test.
func (w *world) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.rows.Run(ctx) }()
	w.Cleanup(func() {
		for _, o := range w.operators {
			o.stop()
		}
		cancel()
		<-done
	})
	w.Cleanup(w.holds) // runs before the other cleanups
}

// holds fails the test unless all invariants hold when the last operator, if it still works, is idle.
func (w *world) holds() {
	w.Helper()
	if w.Failed() || w.unsound != "" || len(w.operators) == 0 || !w.operators[len(w.operators)-1].works() {
		return
	}
	reader := &invariantcheck.Reader{Client: view, Zone: w.inZone, Database: w.rows, ClusterPolicies: clusterPolicies}
	w.until(func() error {
		present, err := reader.World(context.Background()) // the test's own context has ended
		if err != nil {
			return err
		}
		var wrong error
		for _, v := range invariant.Check(present) {
			wrong = errors.Join(wrong, errors.New(v.String()))
		}
		return wrong
	})
}

// clear empties the API server for the next test. The test's own context has ended by now.
func (w *world) clear() {
	w.Helper()
	ctx := context.Background()
	w.must(api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0)))
	w.clearFirewalls(ctx)
	w.clearQoS(ctx)
	w.clearPolicies(ctx)
	w.clearServices(ctx)
	for _, object := range []client.Object{&corev1.Node{}, &networkv1alpha1.NodeNetwork{}, &networkv1alpha1.ClusterNetwork{}} {
		w.must(api.DeleteAllOf(ctx, object))
	}
	w.until(func() error {
		var events eventsv1.EventList // the API server writes some too, in any namespace and at any time
		if err := view.List(ctx, &events); err != nil {
			return err
		}
		for i := range events.Items {
			if err := api.Delete(ctx, &events.Items[i]); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.NodeList{},
			&networkv1alpha1.NodeNetworkList{}, &networkv1alpha1.ClusterNetworkList{}, &eventsv1.EventList{}} {
			if err := view.List(ctx, list, client.InNamespace(corev1.NamespaceAll)); err != nil {
				return err
			}
			if n := lengthOf(list); n != 0 {
				return fmt.Errorf("%d objects remain in %T", n, list)
			}
		}
		return nil
	})
}

func lengthOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *corev1.PodList:
		return len(l.Items)
	case *corev1.NodeList:
		return len(l.Items)
	case *networkv1alpha1.NodeNetworkList:
		return len(l.Items)
	case *networkv1alpha1.ClusterNetworkList:
		return len(l.Items)
	case *eventsv1.EventList:
		return len(l.Items)
	}
	return -1
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits until wrong returns nil. It calls wrong at each change of the API server's common kinds and of the database, and
// at an interval for what no watch of these tests shows.
func (w *world) until(wrong func() error) {
	w.Helper()
	poll.Wait{Timeout: patience, Interval: poll.SlowInterval, Changes: news.Next}.Eventually(w, wrong)
}

// event waits for an event about an object, with all words in its text, and returns the text.
func (w *world) event(name, reason string, words ...string) (note string) {
	w.Helper()
	w.until(func() error {
		var list eventsv1.EventList
		if err := view.List(context.Background(), &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			lacks := func(word string) bool { return !strings.Contains(e.Note, word) }
			if e.Regarding.Name == name && e.Reason == reason && !slices.ContainsFunc(words, lacks) {
				note = e.Note
				return nil
			}
		}
		return fmt.Errorf("no event %s of %s with %q", reason, name, words)
	})
	return note
}

// says fails the test unless a text contains all words.
func (w *world) says(text string, words ...string) {
	w.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.Errorf("%q lacks %q", text, word)
		}
	}
}

// dump returns the rows of Weft's tables as the server has them, sorted, with UUIDs, references and tunnel keys.
func (w *world) dump() []string {
	w.Helper()
	var dump []string
	for _, table := range []string{"Logical_Router", "Logical_Router_Port", "Logical_Switch", "Logical_Switch_Port", "QoS"} {
		text := ovndbtest.Command(w, "ovsdb-client", "-f", "csv", "--no-headings", "dump", w.nb.Endpoint(), "OVN_Northbound", table)
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, " table") {
				dump = append(dump, table+": "+line)
			}
		}
	}
	slices.Sort(dump)
	return dump
}

func (w *world) node(name string) *corev1.Node {
	w.Helper()
	var node corev1.Node
	w.must(api.Get(w.Context(), types.NamespacedName{Name: name}, &node))
	return &node
}

var errAbsent = errors.New("absent")
