package operator

import (
	"maps"
	"slices"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/ovndb"
)

// preflight returns what an operator would change. It fails the test if that changes the database or the API server.
func (w *world) preflight() (changes []ovndb.Change, rows int) {
	w.Helper()
	objects, log := w.written(), w.nb.Transactions()
	managerOptions, err := controllers.ManagerOptions()
	w.must(err)
	mgr, err := ctrl.NewManager(controllers.WithoutWrites(restConfig), managerOptions)
	w.must(err)
	changes, rows, err = controllers.Preflight(w.Context(), mgr,
		controllers.Options{Northbound: []string{w.nb.Endpoint()}, CountDelay: w.countDelay, Lookup: w.lookup})
	w.must(err)
	if n := w.nb.Transactions() - log; n != 0 {
		w.Errorf("a preflight makes %d transactions", n)
	}
	if now := w.written(); !maps.Equal(now, objects) {
		w.Errorf("a preflight writes to the API server: %v, before %v", now, objects)
	}
	return changes, rows
}

// written returns the versions of all objects that an operator writes, including its events.
func (w *world) written() map[string]string {
	w.Helper()
	found := w.versions()
	var events eventsv1.EventList
	w.must(api.List(w.Context(), &events))
	for _, event := range events.Items {
		found["event "+event.Name] = event.ResourceVersion
	}
	return found
}

// TestPreflight checks that a preflight reports a version's changes before they are made: nothing for a correct
// database, damaged rows, and rows without an owner.
func TestPreflight(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 3)
	o.stop()
	changes, rows := w.preflight()
	if len(changes) > 0 || rows < len(pods) {
		t.Errorf("a preflight of %d rows would change %+v", rows, changes)
	}
	w.nb.Ctl("set", "Logical_Switch", "n1", "other_config:subnet=192.0.2.0/24")
	gone, lost := w.port(pods[0]).Name, w.port(pods[1]).Name
	w.nb.Ctl("lsp-del", lost)
	w.delete(pods[0])
	changes, _ = w.preflight()
	var got []string
	for _, c := range changes {
		if c.Op == ovndb.OpInsert || c.Op == ovndb.OpDelete || c.Table == "Logical_Switch" && c.Op == ovndb.OpUpdate {
			got = append(got, string(c.Op)+" "+c.Name)
		}
	}
	slices.Sort(got)
	if want := []string{"delete " + gone, "insert " + lost, "update n1"}; !slices.Equal(got, want) {
		t.Errorf("the preflight reports %q, want %q", got, want)
	}
}
