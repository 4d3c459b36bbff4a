package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// cost is what one event cost, without a clock.
type cost struct {
	transactions int
	rows         int            // rows that were added, changed or removed
	requests     int            // of the API server, without watches and ClusterNetwork's status, which counts
	reconciled   map[string]int // reconciliations by controller, of the kinds that an event may concern
}

// concerned are the controllers whose reconciliations are counted. Others follow the status of the cluster.
var concerned = []string{"pod", "podports", "service", "networkpolicy", "podgroup", "podset"}

// reconciliations returns the reconciliations of this process so far.
func (w *world) reconciliations() map[string]int {
	w.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	w.must(err)
	counts := map[string]int{}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "controller" {
					counts[label.GetValue()] += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return counts
}

// cost returns the cost of an event until the database has it.
func (o *operator) cost(do func()) cost {
	o.world.Helper()
	o.settle()
	rows, requests, before := o.world.selectRows(), o.calledForEvents(), o.world.reconciliations()
	c := cost{transactions: o.changes(do), reconciled: map[string]int{}}
	c.rows, c.requests = changedRows(rows, o.world.selectRows()), o.calledForEvents()-requests
	after := o.world.reconciliations()
	for _, controller := range concerned {
		if n := after[controller] - before[controller]; n > 0 {
			c.reconciled[controller] = n
		}
	}
	return c
}

func (o *operator) calledForEvents() (n int) {
	for _, request := range o.requests() {
		if !strings.Contains(request, "/clusternetworks/") {
			n++
		}
	}
	return n
}

// changedRows counts the rows that are in one state only, or differ.
func changedRows(before, after rows) (n int) {
	for table := range before {
		for uuid := range union(before[table], after[table]) {
			if len(rowDifferences(table, uuid, before, after)) > 0 {
				n++
			}
		}
	}
	return n
}

// labelNamespace labels the namespace of the pods. An empty value removes the label.
func (w *world) labelNamespace(key, value string) {
	w.Helper()
	var namespace corev1.Namespace
	w.must(api.Get(context.Background(), types.NamespacedName{Name: "default"}, &namespace))
	before := client.MergeFrom(namespace.DeepCopy())
	if namespace.Labels[key] = value; value == "" {
		delete(namespace.Labels, key)
	}
	w.must(api.Patch(context.Background(), &namespace, before))
}

// teamHas waits until the sets of the policy "team" have the addresses of a number of pods.
func (w *world) teamHas(pods int) {
	w.Helper()
	w.until(func() error {
		found := w.selectRows()
		for _, acl := range found[nbdb.ACLTable] {
			if !slices.Contains(acl["external_ids"], "weft.dev/unit=networkpolicy/default/team") {
				continue
			}
			for _, set := range found[nbdb.AddressSetTable] {
				name, has := set["name"][0], len(set["addresses"])
				if strings.HasPrefix(name, "podset_") && strings.Contains(acl["match"][0], "$"+name) && has != pods {
					return fmt.Errorf("set %s has %d addresses, want %d", name, has, pods)
				}
			}
		}
		return nil
	})
}

// TestWhatEachEventCosts checks that an event costs what it changes: transactions, calls of the API server and
// reconciliations are the same beside 10 pods and beside 40, of which a policy of a new selector selects all.
func TestWhatEachEventCosts(t *testing.T) {
	for _, pods := range []int{10, 40} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			w := newWorld(t)
			o, _ := w.settled([]string{"n1"}, 0)
			for i := range pods {
				w.podLabelled("n1", fmt.Sprintf("web-%d", i), []string{"web", "client"}[i%2])
			}
			w.testCosts(o, pods)
		})
	}
}

func (w *world) testCosts(o *operator, pods int) {
	w.Helper()
	var late *corev1.Pod
	var web *corev1.Service
	var slice *discoveryv1.EndpointSlice
	backed := func(addresses string) {
		w.balances("web", map[string]map[string]string{"tcp": {web.Spec.ClusterIP + ":80": addresses}})
	}
	policy := policyObject("p", "web", "client")
	everywhere := func(name string, namespaces metav1.LabelSelector) {
		policy = policyObject(name, "web", "client")
		policy.Spec.Ingress[0].From[0].NamespaceSelector = &namespaces
		w.must(api.Create(w.Context(), policy))
		w.isolates(name, 3)
	}
	w.Cleanup(func() { w.labelNamespace("team", "") })
	for _, event := range []struct {
		name string
		do   func()
		want cost // an upper bound; a controller without an entry must not reconcile
	}{
		{"pod add", func() { late = w.podLabelled("n1", "late", "web") }, cost{1, 2, 0, map[string]int{"pod": 2, "podports": 2}}},
		{"pod delete", func() { w.delete(late); w.noPort(late) }, cost{1, 2, 0, map[string]int{"pod": 2, "podports": 2}}},
		{"service with 2 endpoints", func() {
			web = w.service("web")
			slice = w.endpoints("web-a", "web", "10.244.0.3", "10.244.0.4")
			backed("10.244.0.3:8080,10.244.0.4:8080")
		}, cost{2, 3, 0, map[string]int{"service": 2}}},
		{"endpoint change", func() {
			patch(w, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Addresses[0] = "10.244.0.5" })
			backed("10.244.0.3:8080,10.244.0.5:8080")
		}, cost{1, 1, 0, map[string]int{"service": 1}}},
		{"service delete", func() {
			w.must(api.Delete(w.Context(), web))
			w.balances("web", map[string]map[string]string{})
			w.must(api.Delete(w.Context(), slice))
		}, cost{1, 3, 0, map[string]int{"service": 2}}},
		{"policy of new selectors", func() { w.must(api.Create(w.Context(), policy)); w.isolates("p", 3) },
			cost{2, 8, 0, map[string]int{"networkpolicy": 1}}},
		{"its delete", func() { w.must(api.Delete(w.Context(), policy)); w.isolates("p", 0); w.noGroups() },
			cost{2, 8, 0, map[string]int{"networkpolicy": 1}}},
		{"policy of all namespaces", func() { everywhere("all", metav1.LabelSelector{}) },
			cost{2, 8, 0, map[string]int{"networkpolicy": 1}}},
		{"policy of labelled namespaces", func() { everywhere("team", metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}}) },
			cost{2, 8, 0, map[string]int{"networkpolicy": 1}}},
		{"namespace's label", func() { w.labelNamespace("team", "blue"); w.teamHas(pods / 2) },
			cost{1, 2, 0, nil}},
		{"its removal", func() { w.labelNamespace("team", ""); w.teamHas(0) },
			cost{1, 2, 0, nil}},
	} {
		have := o.cost(event.do)
		w.Logf("%-30s %+v", event.name, have)
		over := maps.Clone(have.reconciled)
		maps.DeleteFunc(over, func(controller string, n int) bool { return n <= event.want.reconciled[controller] })
		if have.transactions > event.want.transactions || have.rows > event.want.rows || have.requests > event.want.requests || len(over) > 0 {
			w.Errorf("%s cost %+v, want at most %+v", event.name, have, event.want)
		}
	}
}
