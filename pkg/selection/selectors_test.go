package selection

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// queued holds the triggers that selectors enqueue in, and the units that they join.
type queued struct {
	*Selectors
	triggers *trigger.Set
	units    *units
}

// units records the calls since the last look.
type units struct {
	joined    []unit.Key
	ended     []unit.Key
	left      []unit.Ref
	regrouped [][]unit.Regrouping
}

func (u *units) Join(keys []unit.Key, _ func(unit.Unit) []unit.Membership) {
	u.joined = append(u.joined, keys...)
}

func (u *units) Regroup(changes []unit.Regrouping) { u.regrouped = append(u.regrouped, changes) }

func (u *units) End(keys []unit.Key, rows []unit.Ref) {
	u.ended, u.left = append(u.ended, keys...), append(u.left, rows...)
}

func newQueued() queued {
	q := queued{triggers: &trigger.Set{}, units: &units{}}
	q.Selectors = NewSelectors(q.triggers)
	q.Units = q.units
	return q
}

// joins returns the units that have joined since the last call, sorted.
func (q queued) joins() []unit.Key {
	defer func() { q.units.joined = nil }()
	return slices.Sorted(slices.Values(q.units.joined))
}

// reconcile reconciles the unit of a pod.
func (q queued) reconcile(pod string) {
	q.Started(topology.PodKey("demo", pod))
	q.Reconciled(topology.PodKey("demo", pod))
}

// take returns the names enqueued for a kind since the last call, sorted.
func (q queued) take(kind string) (names []string) {
	for _, r := range q.triggers.Of(kind).Take() {
		names = append(names, r.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func selects(namespace, pods string) facts.PodSelector {
	selector, err := labels.Parse(pods)
	if err != nil {
		panic(err)
	}
	return facts.PodSelector{Namespace: namespace, Pods: selector}
}

func aPod(name string, set labels.Set, ports ...facts.NamedPort) facts.SelectedPod {
	return facts.SelectedPod{Namespace: "demo", Name: name, Labels: set, Ports: ports}
}

func podName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "demo", Name: name}
}

func these(names ...types.NamespacedName) Pods {
	return func(context.Context, facts.PodSelector) ([]types.NamespacedName, error) { return names, nil }
}

// A new selector joins the units of its pods, and its group is created then.
func TestASelectorJoinsItsPods(t *testing.T) {
	s := newQueued()
	s.Begin()
	web := selects("demo", "app=web")
	group, policy := topology.PodGroupKey(web), topology.NetworkPolicyKey("demo", "p")
	want := map[unit.Key]facts.PodSelector{group: web}
	failed := func(context.Context, facts.PodSelector) ([]types.NamespacedName, error) {
		return nil, errors.New("no list")
	}
	if err := s.Use(t.Context(), policy, want, failed); err == nil || s.State(group) != Waiting {
		t.Errorf("without a list: %v, state %d", err, s.State(group))
	}
	if err := s.Use(t.Context(), policy, want, these(podName("a"), podName("b"))); err != nil {
		t.Fatal(err)
	}
	pods := s.take(topology.KindPod)
	if got := s.joins(); !slices.Equal(got, []unit.Key{"pod/demo/a", "pod/demo/b"}) || len(pods) > 0 {
		t.Errorf("joined %v, enqueued pods %v", got, pods)
	}
	if unmade, ready := s.Unmade(want); s.State(group) != Ready || !ready || !slices.Equal(unmade, []unit.Key{group}) {
		t.Errorf("state %d, ready: %t, without the group: %v", s.State(group), ready, unmade)
	}
	s.take(topology.KindNetworkPolicy)
	s.Complete([]unit.Key{group}, "")
	if unmade, ready := s.Unmade(want); len(unmade) > 0 || !ready || !slices.Equal(s.take(topology.KindNetworkPolicy), []string{"demo/p"}) {
		t.Error("the policy is not enqueued when its group is complete")
	}
	if s.End(group) || len(s.units.ended) > 0 || s.User(group) != policy {
		t.Errorf("a group that is in use ends, or its user is %q", s.User(group))
	}
	if s.Drop(policy, nil); s.State(group) != Unused || len(s.uses)+len(s.index)+len(s.users)+len(s.awaiting)+len(s.listing) > 0 {
		t.Errorf("left %+v", s.Selectors)
	}
	if s.User(group) != "" || !slices.Equal(s.units.ended, []unit.Key{group}) || !slices.Equal(s.units.left, topology.SelectedRows(group)) {
		t.Errorf("ended %v, which left %v", s.units.ended, s.units.left)
	}
	if !s.End(group) || len(s.units.ended) != 2 {
		t.Error("an unused group cannot be ended again")
	}
}

// A policy that has created its groups itself is not enqueued for them, and the other policies are.
func TestAPolicyIsNotEnqueuedForItsOwnGroups(t *testing.T) {
	s := newQueued()
	s.Begin()
	one, two := topology.NetworkPolicyKey("demo", "one"), topology.NetworkPolicyKey("demo", "two")
	other := selects("demo", "app=other")
	for _, policy := range []unit.Key{one, two} {
		if err := s.Use(t.Context(), policy, map[unit.Key]facts.PodSelector{topology.PodGroupKey(other): other}, these()); err != nil {
			t.Fatal(err)
		}
	}
	s.Complete([]unit.Key{topology.PodGroupKey(other)}, one)
	if got := s.take(topology.KindNetworkPolicy); !slices.Equal(got, []string{"demo/two"}) {
		t.Errorf("enqueued %v by demo/one", got)
	}
}

// A policy that changes before its first selectors were listed is enqueued for the selectors that it uses now. The
// first are never listed, because no policy wants them.
func TestAPolicyDoesNotWaitForFormerSelectors(t *testing.T) {
	s := newQueued()
	policy := topology.NetworkPolicyKey("demo", "p")
	for i, selector := range []facts.PodSelector{selects("demo", "app=web"), selects("demo", "app=client")} {
		if i == 1 {
			s.Begin()
		}
		if err := s.Use(t.Context(), policy, map[unit.Key]facts.PodSelector{topology.PodGroupKey(selector): selector}, these()); err != nil {
			t.Fatal(err)
		}
	}
	s.take(topology.KindNetworkPolicy)
	s.Complete([]unit.Key{topology.PodGroupKey(selects("demo", "app=client"))}, "")
	if got := s.take(topology.KindNetworkPolicy); !slices.Equal(got, []string{"demo/p"}) {
		t.Errorf("enqueued %v", got)
	}
}

// A group waits for a pod whose reconciliation has begun before the group was used, and for its next reconciliation:
// the first does not name the group.
func TestAGroupWaitsForPodsUnderway(t *testing.T) {
	s := newQueued()
	s.Begin()
	web, pod := selects("demo", "app=web"), topology.PodKey("demo", "a")
	group := topology.PodGroupKey(web)
	s.Started(pod)
	if err := s.Use(t.Context(), topology.NetworkPolicyKey("demo", "p"), map[unit.Key]facts.PodSelector{group: web},
		these(podName("a"), podName("b"))); err != nil {
		t.Fatal(err)
	}
	if got := s.joins(); !slices.Equal(got, []unit.Key{"pod/demo/b"}) || !slices.Equal(s.take(topology.KindPod), []string{"demo/a"}) {
		t.Errorf("joined %v, or the pod that is being reconciled is not enqueued", got)
	}
	s.Reconciled(pod)
	if s.State(group) != Waiting || len(s.take(topology.KindPodGroup)) > 0 {
		t.Error("a unit that was made without the group counts")
	}
	s.reconcile("a")
	if s.State(group) != Ready || !slices.Equal(s.take(topology.KindPodGroup), []string{"/" + group.Name()}) {
		t.Error("the group is not enqueued when its last pod was reconciled")
	}
	if len(s.awaiting)+len(s.underway) > 0 {
		t.Errorf("left %v and %v", s.awaiting, s.underway)
	}
}

// A pod that is reconciled while the pods are being listed decides by itself: it may have seen later labels than the
// list. The group waits for its reconciliation.
func TestPodsDecideByThemselves(t *testing.T) {
	s := newQueued()
	s.Begin()
	web, pod := selects("demo", "app=web"), topology.PodKey("demo", "a")
	group := topology.PodGroupKey(web)
	list := func(context.Context, facts.PodSelector) ([]types.NamespacedName, error) {
		s.reconcile("b")
		s.Started(pod)
		return []types.NamespacedName{podName("a"), podName("b"), podName("c")}, nil
	}
	if err := s.Use(t.Context(), topology.NetworkPolicyKey("demo", "p"), map[unit.Key]facts.PodSelector{group: web}, list); err != nil {
		t.Fatal(err)
	}
	if got := s.joins(); !slices.Equal(got, []unit.Key{"pod/demo/c"}) || s.State(group) != Waiting || len(s.take(topology.KindPod)) > 0 {
		t.Errorf("joined %v, state %d", got, s.State(group))
	}
	if s.Reconciled(pod); s.State(group) != Ready {
		t.Error("the group does not wait for the pod's own reconciliation alone")
	}
}

// A list that was read for an earlier use of a selector does not count for the present one.
func TestAnOldListDoesNotCount(t *testing.T) {
	s := newQueued()
	s.Begin()
	web := selects("demo", "app=web")
	group, one, two := topology.PodGroupKey(web), topology.NetworkPolicyKey("demo", "one"), topology.NetworkPolicyKey("demo", "two")
	want := map[unit.Key]facts.PodSelector{group: web}
	list := func(ctx context.Context, _ facts.PodSelector) ([]types.NamespacedName, error) {
		s.Drop(one, nil)
		return []types.NamespacedName{podName("old")}, s.Use(ctx, two, want, these(podName("new")))
	}
	if err := s.Use(t.Context(), one, want, list); err != nil {
		t.Fatal(err)
	}
	if got := s.joins(); !slices.Equal(got, []unit.Key{"pod/demo/new"}) {
		t.Errorf("joined %v", got)
	}
}

// Two policies share a group. It exists until the last one is deleted.
func TestASharedGroupStays(t *testing.T) {
	s := newQueued()
	s.Begin()
	web := selects("demo", "app=web")
	want := map[unit.Key]facts.PodSelector{topology.PodGroupKey(web): web}
	one, two := topology.NetworkPolicyKey("demo", "one"), topology.NetworkPolicyKey("demo", "two")
	for _, policy := range []unit.Key{one, two} {
		if err := s.Use(t.Context(), policy, want, these()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Drop(one, nil); s.State(topology.PodGroupKey(web)) != Ready {
		t.Error("the group goes with the first of two")
	}
	if s.Drop(two, nil); s.State(topology.PodGroupKey(web)) != Unused {
		t.Error("the group stays with the last one")
	}
}

// Selectors that exist at start wait for the first pass. Selectors that are added during it list their pods
// afterwards.
func TestTheStart(t *testing.T) {
	s := newQueued()
	early, late := selects("demo", "app=web"), selects("demo", "app=client")
	use := func(name string, selector facts.PodSelector, pods ...types.NamespacedName) {
		t.Helper()
		if err := s.Use(t.Context(), topology.NetworkPolicyKey("demo", name),
			map[unit.Key]facts.PodSelector{topology.PodGroupKey(selector): selector}, these(pods...)); err != nil {
			t.Fatal(err)
		}
	}
	loads := 0
	s.LoadFrom(func(context.Context) error { loads++; use("early", early, podName("a")); return nil })
	for range 2 {
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	use("late", late, podName("b"))
	if loads != 1 || s.State(topology.PodGroupKey(early)) != Waiting || s.State(topology.PodGroupKey(late)) != Waiting ||
		len(s.joins()) > 0 {
		t.Errorf("%d loads; before the first pass is over something is ready or has joined", loads)
	}
	s.Begin()
	if s.State(topology.PodGroupKey(early)) != Ready || s.State(topology.PodGroupKey(late)) != Waiting {
		t.Error("after the first pass what was there is not ready, or what came later is")
	}
	if got := s.take(topology.KindNetworkPolicy); !slices.Equal(got, []string{"demo/early", "demo/late"}) {
		t.Errorf("enqueued policies %v", got)
	}
	use("late", late, podName("b"))
	if got := s.joins(); !slices.Equal(got, []unit.Key{"pod/demo/b"}) {
		t.Errorf("joined %v", got)
	}
}

// The index finds the same selectors as a full scan.
func TestIndexFindsAll(t *testing.T) {
	s := newQueued()
	s.Begin()
	var selectors []facts.PodSelector
	for _, pods := range []string{"", "app=web", "app in (web,client)", "app=client", "app,tier=db", "app!=web",
		"!app", "app in (web),tier=db"} {
		selectors = append(selectors, selects("demo", pods), selects("other", pods))
		everywhere := selects("", pods)
		everywhere.Namespaces = labels.SelectorFromSet(labels.Set{"team": "red"})
		selectors = append(selectors, everywhere)
	}
	for _, selector := range selectors {
		if err := s.Use(t.Context(), topology.NetworkPolicyKey("demo", "p"),
			map[unit.Key]facts.PodSelector{topology.PodGroupKey(selector): selector}, these()); err != nil {
			t.Fatal(err)
		}
	}
	for _, set := range []labels.Set{nil, {"app": "web"}, {"app": "client"}, {"app": "web", "tier": "db"}, {"tier": "db"}} {
		for _, namespace := range []labels.Set{nil, {"team": "red"}} {
			pod := aPod("a", set)
			pod.NamespaceLabels = namespace
			var want []unit.Key
			for _, selector := range selectors {
				if selector.Matches(pod) {
					want = append(want, topology.PodGroupKey(selector))
				}
			}
			slices.Sort(want)
			if got := s.Of(pod); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("pod with %v in a namespace with %v: %v, want %v", set, namespace, got, want)
			}
		}
	}
}

// A policy is read again when a number of a named port is added or removed, and not for every pod.
func TestAPolicyIsReadAgainForNumbers(t *testing.T) {
	s := newQueued()
	policy, http := topology.NetworkPolicyKey("demo", "p"), facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP}
	held := NewPort(selects("demo", "app=web"), http)
	web := func(name string, numbers ...uint16) facts.SelectedPod {
		pod := aPod(name, labels.Set{"app": "web"})
		for _, n := range numbers {
			pod.Ports = append(pod.Ports, facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP, Number: n})
		}
		return pod
	}
	held.Hold(podName("a"), []uint16{8080})
	s.Read(policy, []*Port{held})
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() { s.Of(web("a", 8080)) }, false},
		{func() { s.Of(web("b", 8080)) }, false},
		{func() {
			s.Of(aPod("c", nil, facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP, Number: 9}))
		}, false},
		{func() { s.Of(web("c", 8081)) }, true},
		{func() { s.Of(web("d", 8081)) }, false},
		{func() { s.Gone(podName("c")) }, false},
		{func() { s.Gone(podName("d")) }, true},
		{func() { s.Gone(podName("d")) }, false},
		{func() { s.Gone(podName("a")) }, false},
		{func() { s.Of(aPod("b", nil)) }, true}, // its label was removed
		{func() { s.Fork(s.triggers, s.units).Of(web("b", 8080)) }, true},
		{func() { s.Of(web("b", 8080)) }, true}, // the fork has a state of its own
		{func() { s.Read(policy, nil); s.Gone(podName("b")) }, false},
	} {
		step.do()
		if got := len(s.take(topology.KindNetworkPolicy)) > 0; got != step.want {
			t.Errorf("step %d: policy enqueued: %t, want %t", i, got, step.want)
		}
	}
	if n := len(s.named.policies) + len(s.named.byPort) + len(s.named.byPod); n > 0 {
		t.Errorf("%d ports are left of a deleted policy", n)
	}
}

// The group of a selector on a Network waits for the units that have the pods' ports there. The pod's unit of the
// cluster network does not count, and a port on a Network gives no number to a named port.
func TestGroupsOfNetworks(t *testing.T) {
	s := newQueued()
	s.Begin()
	web := selects("demo", "app=web")
	on, policy := web.On("blue"), topology.MultiNetworkPolicyKey("demo", "p")
	want := map[unit.Key]facts.PodSelector{topology.PodGroupKey(on): on}
	for _, key := range []unit.Key{topology.PodKey("demo", "a"), topology.PodPortsKey("demo", "a")} {
		s.Started(key)
	}
	if err := s.Use(t.Context(), policy, want, these(podName("a"))); err != nil {
		t.Fatal(err)
	}
	if ports, pods := s.take(topology.KindPodPorts), s.take(topology.KindPod); !slices.Equal(ports, []string{"demo/a"}) || len(pods) > 0 {
		t.Errorf("enqueued ports %v and pods %v", ports, pods)
	}
	s.Reconciled(topology.PodPortsKey("demo", "a"))
	s.reconcile("a")
	if s.State(topology.PodGroupKey(on)) != Waiting {
		t.Error("the pod's unit of the cluster network counts")
	}
	s.Started(topology.PodPortsKey("demo", "a"))
	s.Reconciled(topology.PodPortsKey("demo", "a"))
	if s.State(topology.PodGroupKey(on)) != Ready {
		t.Error("the unit of the pod's ports does not count")
	}
	pod := aPod("a", labels.Set{"app": "web"}, facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP, Number: 80})
	for network, want := range map[string]int{"": 0, "blue": 1, "green": 0} {
		pod.Network = network
		if got := len(s.Of(pod)); got != want {
			t.Errorf("a port on %q is in %d groups, want %d", network, got, want)
		}
	}
	s.Read(policy, []*Port{NewPort(web, facts.NamedPort{Name: "http", Protocol: corev1.ProtocolTCP})})
	s.take(topology.KindMultiNetworkPolicy)
	for _, step := range []struct {
		network string
		want    bool
	}{{"blue", false}, {"", true}, {"blue", false}, {"", false}} {
		pod.Network = step.network
		s.Of(pod)
		if got := len(s.take(topology.KindMultiNetworkPolicy)) > 0; got != step.want {
			t.Errorf("a port on %q enqueues the policy: %t, want %t", step.network, got, step.want)
		}
	}
}
