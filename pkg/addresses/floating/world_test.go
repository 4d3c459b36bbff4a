package floating_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// world is a book with an API server that never refuses a write.
type world struct {
	testing.TB
	*floating.Book
	version int
	now     time.Time
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, Book: floating.NewBook(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// poolOf parses an IPPool of all namespaces. A range is "192.0.2.0/28", or "192.0.2.0/28 rack=1" for the nodes of a rack.
func poolOf(t testing.TB, name string, ranges ...string) floating.Pool {
	t.Helper()
	object := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.Location, object.Spec.Namespaces = networkv1alpha1.LocationOverlay, &metav1.LabelSelector{}
	for _, text := range ranges {
		addresses, selector, selects := strings.Cut(text, " ")
		r := networkv1alpha1.IPPoolRange{Addresses: addresses}
		if selects {
			r.NodeSelector = metav1.SetAsLabelSelector(setOf(selector))
		}
		object.Spec.Ranges = append(object.Spec.Ranges, r)
	}
	pool, err := floating.ParsePool(object)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func setOf(text string) labels.Set {
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		panic(err)
	}
	return set
}

func (w *world) pool(ranges ...string) { w.SetPool(poolOf(w, "web", ranges...), "") }

// requesterOf returns a pod of a workload, "StatefulSet db", which requests an address of pool web. The name of the pod is its UID.
func requesterOf(workload, pod string, fields ...string) floating.Requester {
	kind, name, _ := strings.Cut(workload, " ")
	a := floating.Requester{Namespace: "demo", Name: pod, UID: types.UID(pod),
		Workload: floating.Workload{APIVersion: "apps/v1", Kind: kind, Namespace: "demo", Name: name}}
	annotations := map[string]string{networkv1alpha1.IPPoolAnnotation: "web"}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "limit":
			a.Limit, _ = strconv.Atoi(value)
			a.Limited = true
		case "uid":
			a.UID = types.UID(value)
		default:
			annotations[networkv1alpha1.GroupName+"/ip-"+key] = value
		}
	}
	var err error
	if a.Request, _, err = networkv1alpha1.ParseFloatingRequest(annotations); err != nil {
		panic(err)
	}
	return a
}

// nodeOf returns a node whose name is its rack and a letter: "1a".
func nodeOf(name string) floating.Node {
	return floating.Node{Name: name, Labels: labels.Set{"rack": name[:1]}}
}

// get gives a pod its addresses on a node, and returns them, or the error.
func (w *world) get(a floating.Requester, node string) string {
	choices, err := w.Choose(a, nodeOf(node))
	if err != nil {
		return err.Error()
	}
	var got []string
	for _, c := range choices {
		got = append(got, c.Address.String())
		if !c.IsHeld(a.UID) {
			w.write(floating.Claimed(c, a, node, metav1.NewTime(w.now)))
		}
	}
	return strings.Join(got, " ")
}

// drop ends what a pod has besides its addresses on a node, and returns it.
func (w *world) drop(a floating.Requester, node string) string {
	choices, err := w.Choose(a, nodeOf(node))
	if err != nil {
		return err.Error()
	}
	var dropped []string
	for _, f := range w.Extra(a.UID, choices) {
		dropped = append(dropped, string(f.Spec.Address))
		w.write(floating.Ended(f, floating.Dropped(f), metav1.NewTime(w.now)))
	}
	return strings.Join(dropped, " ")
}

// end ends a pod of a workload that has replicas; a negative number says that the workload is gone.
func (w *world) end(pod string, replicas int) {
	for _, f := range w.Of(types.UID(pod)) {
		state := floating.State{Exists: replicas >= 0, Replicas: replicas}
		o := floating.Decide(f, state, w.Before, w.now, w.now)
		w.write(floating.Ended(f, o, metav1.NewTime(w.now)))
	}
	w.now = w.now.Add(time.Second)
}

// again decides again about the addresses that a workload keeps.
func (w *world) again(workload floating.Workload, state floating.State) {
	for _, f := range w.OfWorkload(workload) {
		if f.Spec.Holder.PodUID == "" {
			o := floating.Decide(f, state, w.Before, f.Spec.Holder.Since.Time, w.now)
			w.write(floating.Ended(f, o, metav1.NewTime(w.now)))
		}
	}
}

func (w *world) write(f *networkv1alpha1.FloatingIP) {
	w.version++
	f.ResourceVersion = strconv.Itoa(w.version)
	if f.UID == "" {
		f.UID = types.UID("object-" + f.ResourceVersion)
	}
	if !w.Observe(f) {
		w.Fatalf("the book does not take version %s of %s", f.ResourceVersion, f.Name)
	}
}

// reserve sets or removes the label that keeps an address from everybody.
func (w *world) reserve(address string, reserved bool) {
	f := w.Get(netip.MustParseAddr(address))
	if f == nil {
		f = &networkv1alpha1.FloatingIP{}
		f.Name = networkv1alpha1.FloatingIPName(netip.MustParseAddr(address))
		f.Spec.Address, f.Spec.Pool = networkv1alpha1.EgressAddress(address), "web"
	}
	f = f.DeepCopy()
	if delete(f.Labels, networkv1alpha1.ReservedLabel); reserved {
		metav1.SetMetaDataLabel(&f.ObjectMeta, networkv1alpha1.ReservedLabel, "")
	}
	w.write(f)
}

// holders lists who has which address: "192.0.2.1:web-0", or "192.0.2.1:(web)" for an address kept for a workload.
func (w *world) holders() string {
	var list []string
	for _, f := range w.InPool("web") {
		who := "-"
		switch h := f.Spec.Holder; {
		case h != nil && h.PodUID != "":
			who = string(h.PodUID)
		case h != nil && h.Pod != "":
			who = "(" + h.Pod + ")"
		case h != nil:
			who = "(" + h.Name + ")"
		}
		list = append(list, fmt.Sprintf("%s:%s", f.Spec.Address, who))
	}
	return strings.Join(list, " ")
}

// is fails the test unless got is want. A want that ends with "..." is only the beginning.
func (w *world) is(got, want string) {
	w.Helper()
	if beginning, cut := strings.CutSuffix(want, "..."); got != want && (!cut || !strings.HasPrefix(got, beginning)) {
		w.Errorf("got  %s\nwant %s", got, want)
	}
}
