package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// policyObject isolates the pods with a label, except from peers with another label.
func policyObject(name, subject string, peers ...string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.PodSelector.MatchLabels = map[string]string{"app": subject}
	for _, peer := range peers {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": peer}}
		p.Spec.Ingress = append(p.Spec.Ingress,
			networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selector}}})
	}
	return p
}

// isolates waits until a policy has the given number of ACLs besides the ACLs that pass to its tier.
func (w *world) isolates(name string, acls int) {
	w.Helper()
	w.until(func() error {
		have := 0
		for _, row := range w.selectRows()[nbdb.ACLTable] {
			if slices.Contains(row["external_ids"], "weft.dev/unit=networkpolicy/default/"+name) &&
				!slices.Contains(row["action"], nbdb.ACLActionPass) {
				have++
			}
		}
		if have != acls {
			return fmt.Errorf("policy %s has %d ACLs, want %d", name, have, acls)
		}
		return nil
	})
}

// noGroups waits until no selector has a group or sets.
func (w *world) noGroups() {
	w.Helper()
	w.until(func() error {
		rows := w.selectRows()
		for _, table := range []string{nbdb.PortGroupTable, nbdb.AddressSetTable} {
			for _, row := range rows[table] {
				for _, pair := range row["external_ids"] {
					if strings.HasPrefix(pair, "weft.dev/unit=podgroup/") || strings.HasPrefix(pair, "weft.dev/unit=podset/") {
						return fmt.Errorf("there is %s", pair)
					}
				}
			}
		}
		return nil
	})
}

func (w *world) clearPolicies(ctx context.Context) {
	w.Helper()
	w.must(api.DeleteAllOf(ctx, &networkingv1.NetworkPolicy{}, client.InNamespace("default")))
}

// podLabelled creates a pod of an app.
func (w *world) podLabelled(node, name, app string, ports ...corev1.ContainerPort) *corev1.Pod {
	w.Helper()
	object := pod(name, node)
	object.Labels = map[string]string{"app": app}
	object.Spec.Containers[0].Ports = ports
	w.run(object)
	w.port(object)
	return object
}

// TestWhatAPolicyCosts checks that a policy costs its groups and sets, and then its ACLs. A pod costs one
// transaction, whatever the number of policies. 50 policies with the same selectors share their groups and sets.
func TestWhatAPolicyCosts(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 0)
	for i := range 10 {
		w.podLabelled("n1", fmt.Sprintf("web-%d", i), "web")
		w.podLabelled("n1", fmt.Sprintf("client-%d", i), "client")
	}
	count := func(table, kind string) (n int) {
		for _, row := range w.selectRows()[table] {
			if slices.ContainsFunc(row["external_ids"], func(pair string) bool {
				return len(pair) > len(kind) && pair[:len(kind)] == kind
			}) {
				n++
			}
		}
		return n
	}
	const ofGroups, ofSets = "weft.dev/unit=podgroup/", "weft.dev/unit=podset/"
	first := o.changes(func() { w.must(api.Create(w.Context(), policyObject("p-0", "web", "client"))); w.isolates("p-0", 3) })
	if first != 1 {
		t.Errorf("a policy cost %d transactions, want one for its group, its sets and its ACLs", first)
	}
	for i := range 49 {
		name := fmt.Sprintf("p-%d", i+1)
		if got := o.changes(func() {
			w.must(api.Create(w.Context(), policyObject(name, "web", "client")))
			w.isolates(name, 3)
		}); got != 1 {
			t.Fatalf("a policy with an existing group and set cost %d transactions, want 1", got)
		}
	}
	if groups, sets := count(nbdb.PortGroupTable, ofGroups), count(nbdb.AddressSetTable, ofSets); groups != 1 || sets != 2 {
		t.Errorf("50 policies have %d port groups and %d address sets, want 1 and 2", groups, sets)
	}
	var late *corev1.Pod
	if got := o.changes(func() { late = w.podLabelled("n1", "late", "web") }); got != 1 {
		t.Errorf("a pod under 50 policies cost %d transactions, want 1", got)
	}
	if got := o.changes(func() { w.delete(late); w.noPort(late) }); got != 1 {
		t.Errorf("its deletion cost %d transactions, want 1", got)
	}
	o.settle()
	o.stop()
	before := w.dump()
	o = w.start()
	w.must(o.engine.Wait(t.Context(), func() (bool, error) {
		return o.engine.Connected() && o.engine.Wanted(topology.NetworkPolicyKey("default", "p-49")), nil
	}))
	o.settle()
	if got := o.transactions(); got != 0 {
		t.Errorf("a restart with 50 policies wrote %d transactions", got)
	}
	w.same(before)
	w.clearPolicies(w.Context())
	w.until(func() error {
		if left := count(nbdb.PortGroupTable, ofGroups) + count(nbdb.AddressSetTable, ofSets) + count(nbdb.ACLTable,
			"weft.dev/unit=networkpolicy/"); left > 0 {
			return fmt.Errorf("%d rows of policies remain", left)
		}
		return nil
	})
	if got := o.drifted(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// TestNamedPortsFollowPods checks that a number appears with the first pod that has it, and disappears with the
// last.
func TestNamedPortsFollowPods(t *testing.T) {
	w := newWorld(t)
	w.settled([]string{"n1"}, 0)
	policy, http := policyObject("named", "web", "client"), intstr.FromString("http")
	policy.Spec.Ingress[0].Ports = []networkingv1.NetworkPolicyPort{{Port: &http}}
	w.must(api.Create(w.Context(), policy))
	w.isolates("named", 2) // without a pod there is no number: only the isolation and the pod's own node
	numbers := func(want ...string) {
		t.Helper()
		w.until(func() error {
			var matches []string
			for _, row := range w.selectRows()[nbdb.ACLTable] {
				if slices.Contains(row["external_ids"], "weft.dev/rule=ingress[0]") {
					matches = append(matches, row["match"]...)
				}
			}
			for _, n := range want {
				if !slices.ContainsFunc(matches, func(m string) bool { return strings.HasSuffix(m, "tcp.dst == "+n) }) {
					return fmt.Errorf("matches %q lack %s", matches, n)
				}
			}
			return nil
		})
	}
	one := w.podLabelled("n1", "one", "web", corev1.ContainerPort{Name: "http", ContainerPort: 8080})
	numbers("8080")
	two := w.podLabelled("n1", "two", "web", corev1.ContainerPort{Name: "http", ContainerPort: 8081})
	numbers("8080", "8081")
	w.isolates("named", 4)
	w.delete(one, two)
	w.isolates("named", 2)
}

// TestPlanOfAPolicy checks that a plan shows the groups, sets and ACLs of a policy and the pods in them, and what is
// deleted with it.
func TestPlanOfAPolicy(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 0)
	for _, app := range []string{"web", "client", "other"} {
		w.podLabelled("n1", app, app)
	}
	w.counted(3)
	o.settle()
	policy := func() *networkingv1.NetworkPolicy { return policyObject("p", "web", "client") }
	planned := o.plan([]string{"plan"}, w.dryRun(policy()))
	w.comesTrue(planned, func() string { w.must(api.Create(w.Context(), policy())); return "" })
	o.settle()

	selected := func() *corev1.Pod {
		p := pod("web-2", "n1")
		p.Labels = map[string]string{"app": "web"}
		return p
	}
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(selected())), func() string {
		made := selected()
		w.run(made)
		return string(made.UID)
	})
	w.counted(4)
	o.settle()

	gone := policy()
	w.must(api.Get(w.Context(), keyOf(gone), gone))
	w.comesTrue(o.plan([]string{"plan", "--delete"}, gone), func() string { w.clearPolicies(w.Context()); return "" })
}
