package operator

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// cost is what one event cost, without a clock.
type cost struct {
	transactions int
	requests     int            // of the API server, without watches
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
	requests, before := len(o.requests()), o.world.reconciliations()
	c := cost{transactions: o.changes(do), reconciled: map[string]int{}}
	c.requests = len(o.requests()) - requests
	after := o.world.reconciliations()
	for _, controller := range concerned {
		if n := after[controller] - before[controller]; n > 0 {
			c.reconciled[controller] = n
		}
	}
	return c
}

// TestWhatEachEventCosts checks that an event costs what it changes: transactions, calls of the API server and
// reconciliations are the same beside 10 pods and beside 40, of which a policy of a new selector selects all.
func TestWhatEachEventCosts(t *testing.T) {
	for _, pods := range []int{10, 40} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			w := newWorld(t)
			w.countDelay = patience // so that the status of the cluster does not mix with the events
			o, _ := w.settled([]string{"n1"}, 0)
			for i := range pods {
				w.podLabelled("n1", fmt.Sprintf("web-%d", i), []string{"web", "client"}[i%2])
			}
			w.testCosts(o)
		})
	}
}

func (w *world) testCosts(o *operator) {
	w.Helper()
	var late *corev1.Pod
	var web *corev1.Service
	var slice *discoveryv1.EndpointSlice
	backed := func(addresses string) {
		w.balances("web", map[string]map[string]string{"tcp": {web.Spec.ClusterIP + ":80": addresses}})
	}
	policy := policyObject("p", "web", "client")
	for _, event := range []struct {
		name string
		do   func()
		want cost // an upper bound; a controller without an entry must not reconcile
	}{
		{"pod add", func() { late = w.podLabelled("n1", "late", "web") }, cost{1, 0, map[string]int{"pod": 2, "podports": 2}}},
		{"pod delete", func() { w.delete(late); w.noPort(late) }, cost{1, 0, map[string]int{"pod": 2, "podports": 2}}},
		{"service with 2 endpoints", func() {
			web = w.service("web")
			slice = w.endpoints("web-a", "web", "10.244.0.3", "10.244.0.4")
			backed("10.244.0.3:8080,10.244.0.4:8080")
		}, cost{2, 0, map[string]int{"service": 2}}},
		{"endpoint change", func() {
			patch(w, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Addresses[0] = "10.244.0.5" })
			backed("10.244.0.3:8080,10.244.0.5:8080")
		}, cost{1, 0, map[string]int{"service": 1}}},
		{"service delete", func() {
			w.must(api.Delete(w.Context(), web))
			w.balances("web", map[string]map[string]string{})
			w.must(api.Delete(w.Context(), slice))
		}, cost{1, 0, map[string]int{"service": 2}}},
		{"policy of new selectors", func() { w.must(api.Create(w.Context(), policy)); w.isolates("p", 3) },
			cost{2, 0, map[string]int{"networkpolicy": 1}}},
		{"its delete", func() { w.must(api.Delete(w.Context(), policy)); w.isolates("p", 0); w.noGroups() },
			cost{2, 0, map[string]int{"networkpolicy": 1}}},
		{"policy of all namespaces", func() {
			policy = policyObject("all", "web", "client")
			policy.Spec.Ingress[0].From[0].NamespaceSelector = &metav1.LabelSelector{}
			w.must(api.Create(w.Context(), policy))
			w.isolates("all", 3)
		}, cost{2, 0, map[string]int{"networkpolicy": 1}}},
	} {
		have := o.cost(event.do)
		w.Logf("%-25s %+v", event.name, have)
		over := maps.Clone(have.reconciled)
		maps.DeleteFunc(over, func(controller string, n int) bool { return n <= event.want.reconciled[controller] })
		if have.transactions > event.want.transactions || have.requests > event.want.requests || len(over) > 0 {
			w.Errorf("%s cost %+v, want at most %+v", event.name, have, event.want)
		}
	}
	w.must(client.IgnoreNotFound(api.Delete(w.Context(), policy)))
}
