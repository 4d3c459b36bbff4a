package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// routeTo is an ExternalRoute of all pods by these routers. The first is watched.
func routeTo(routers ...networkv1alpha1.EgressAddress) *networkv1alpha1.ExternalRoute {
	e := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "route"}}
	for i, a := range routers {
		e.Spec.NextHops.Static = append(e.Spec.NextHops.Static, networkv1alpha1.StaticNextHop{Address: a, BFD: i == 0})
	}
	return e
}

// routers waits until pods have so many routes to routers in all, and so many of them name a BFD session.
func (w *world) routers(routes, watched int) {
	w.Helper()
	w.until(func() error {
		haveRoutes, haveWatched := 0, 0
		for _, row := range w.selectRows()[nbdb.LogicalRouterStaticRouteTable] {
			if !slices.Contains(row["options"], "ecmp_symmetric_reply=true") {
				continue
			}
			haveRoutes++
			haveWatched += len(row["bfd"])
		}
		if haveRoutes != routes || haveWatched != watched {
			return fmt.Errorf("%d routes to routers, %d of them watched, want %d and %d", haveRoutes, haveWatched, routes, watched)
		}
		return nil
	})
}

func (w *world) clearRoute(ctx context.Context) {
	w.Helper()
	w.must(client.IgnoreNotFound(api.Delete(ctx, routeTo())))
	w.routers(0, 0)
}

// TestWhatAnExternalRouteCosts checks that an ExternalRoute costs few transactions for all pods, a pod still one for its port and one
// for its BFD, and a restart none.
func TestWhatAnExternalRouteCosts(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	var pods []*corev1.Pod
	for i := range 10 {
		pods = append(pods, w.create([]string{"n1", "n2"}[i%2], fmt.Sprintf("p%d", i))...)
	}
	for _, p := range pods {
		w.port(p)
	}
	o.settle()
	e := routeTo("192.0.2.201", "192.0.2.202")
	if got := o.changes(func() { w.must(api.Create(w.Context(), e)); w.routers(20, 10); o.settle() }); got > 8 {
		t.Errorf("an ExternalRoute of 10 pods cost %d transactions", got)
	}
	w.must(api.Get(w.Context(), keyOf(e), e))
	if c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("the conditions are %+v", e.Status.Conditions)
	}
	if got := o.changes(func() { w.port(w.create("n1", "late")[0]); w.routers(22, 11); o.settle() }); got > 2 {
		t.Errorf("a pod cost %d transactions, want one for its port and one for its session", got)
	}
	o.stop()
	before := w.dump()
	o = w.start()
	w.must(o.engine.Wait(t.Context(), func() (bool, error) {
		return o.engine.Connected() && o.engine.Wanted(topology.GatewayKey("n1")), nil
	}))
	o.settle()
	if got := o.transactions(); got != 0 {
		t.Errorf("a restart with an ExternalRoute wrote %d transactions", got)
	}
	w.same(before)
	w.clearRoute(w.Context())
	w.until(func() error {
		rows := w.selectRows()
		for _, row := range rows[nbdb.NATTable] {
			if strings.Contains(fmt.Sprint(row["match"]), "routed_") {
				return fmt.Errorf("translation %v remains", row)
			}
		}
		if left := rows[nbdb.BFDTable]; len(left) > 0 {
			return fmt.Errorf("sessions %v remain", left)
		}
		return nil
	})
	if got := o.drifted(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// A pod uses the routers on the segment of its own node only, also when the node gets another link.
func TestRoutersOfAnotherSegment(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1", "n2")
	w.port(w.create("n1", "a")[0])
	w.port(w.create("n2", "b")[0])
	w.must(api.Create(w.Context(), routeTo("192.0.2.201", "198.51.100.201", "203.0.113.9")))
	w.routers(2, 2)
	w.until(func() error {
		nn := w.nodeNetwork("n2")
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.Gateway.Addresses = []networkv1alpha1.InterfaceAddress{"198.51.100.12/24"}
		return api.Status().Patch(w.Context(), nn, patch)
	})
	w.routers(2, 1)
	e := routeTo()
	w.until(func() error {
		w.must(api.Get(w.Context(), keyOf(e), e))
		c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.Reason != networkv1alpha1.ReasonNextHopsUnusable || !strings.Contains(c.Message, "203.0.113.9 is not used") ||
			len(e.Status.NextHops) != 2 {
			return fmt.Errorf("status is %+v", e.Status)
		}
		return nil
	})
	w.clearRoute(w.Context())
}

// TestPlanOfAnExternalRoute checks that a plan shows the routes, the sessions and the translations.
func TestPlanOfAnExternalRoute(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1")
	for _, p := range w.create("n1", "a", "b") {
		w.port(p)
	}
	o.settle()
	made := func() *networkv1alpha1.ExternalRoute { return routeTo("192.0.2.201", "192.0.2.202") }
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(made())), func() string {
		w.must(api.Create(w.Context(), made()))
		w.routers(4, 2)
		return ""
	})
	w.comesTrue(o.plan([]string{"plan", "--delete"}, made()), func() string {
		w.clearRoute(w.Context())
		return ""
	})
}

// A namespace may get its labels after the first ExternalRoute or EgressIP that names them, and no pod changes in between.
func TestANamespaceThatGetsItsLabelsLater(t *testing.T) {
	labelled := func(value string) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
		if err := api.Patch(context.Background(), namespace, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"late":%s}}}`, value))); err != nil {
			t.Fatal(err)
		}
	}
	late := metav1.LabelSelector{MatchLabels: map[string]string{"late": "yes"}}
	begin := func(t *testing.T) *world {
		t.Cleanup(func() { labelled("null") })
		w := newWorld(t)
		w.start()
		w.network(entry("10.244.0.0/16", 24))
		w.joinShared("n1")
		w.port(w.create("n1", "a")[0])
		return w
	}
	t.Run("ExternalRoute", func(t *testing.T) {
		w := begin(t)
		e := routeTo("192.0.2.201")
		e.Spec.NamespaceSelector = late
		w.must(api.Create(w.Context(), e))
		w.until(func() error {
			if err := view.Get(w.Context(), keyOf(e), e); err != nil || len(e.Status.NextHops) == 0 {
				return fmt.Errorf("status %+v: %w", e.Status, err)
			}
			return nil
		})
		labelled(`"yes"`)
		w.routers(1, 1)
		w.clearRoute(w.Context())
	})
	t.Run("EgressIP", func(t *testing.T) {
		w := begin(t)
		w.mayCarry(true, "n1")
		e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
		e.Spec.EgressIPs, e.Spec.NamespaceSelector = []networkv1alpha1.EgressAddress{"192.0.2.100"}, late
		w.must(api.Create(w.Context(), e))
		w.Cleanup(func() { _ = api.Delete(context.Background(), e) })
		w.carried(e, "192.0.2.100 n1")
		labelled(`"yes"`)
		w.until(func() error {
			for _, row := range w.selectRows()[nbdb.AddressSetTable] {
				if strings.HasPrefix(fmt.Sprint(row["name"]), "[egressip_late") && len(row["addresses"]) > 0 {
					return nil
				}
			}
			return errors.New("the EgressIP has no pod")
		})
	})
}

// An ExternalRoute names a router that does not answer, and says whether it selects no pod.
func TestAnExternalRouteSaysWhatHasNoEffect(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.joinShared("n1")
	e := routeTo("192.0.2.201", "192.0.2.202")
	w.must(api.Create(w.Context(), e))
	w.Cleanup(func() { w.clearRoute(context.Background()) })
	ready := func(status metav1.ConditionStatus, message string) {
		t.Helper()
		w.until(func() error {
			if err := view.Get(context.Background(), keyOf(e), e); err != nil {
				return err
			}
			c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady)
			if c == nil || c.Status != status || c.Message != message {
				return fmt.Errorf("condition is %+v, want %s %q", c, status, message)
			}
			return nil
		})
	}
	ready(metav1.ConditionTrue, "routers in use: 2; the selectors select no pod")
	p := w.create("n1", "a")[0]
	w.port(p)
	w.routers(2, 1)
	ready(metav1.ConditionTrue, "routers in use: 2")
	session := strings.TrimSpace(w.nb.Ctl("--bare", "--columns=_uuid", "list", "BFD"))
	w.nb.Ctl("set", "BFD", session, "status=down")
	ready(metav1.ConditionFalse, "next hop 192.0.2.201 is down: it answers no BFD of n1; routers in use: 1 of 2")
	if down := e.Status.Down; len(down) != 1 || down[0] != (networkv1alpha1.DownNextHop{Address: "192.0.2.201", Nodes: 1}) {
		t.Errorf("down are %+v", down)
	}
	w.nb.Ctl("set", "BFD", session, "status=up")
	ready(metav1.ConditionTrue, "routers in use: 2")
	w.must(api.Delete(w.Context(), p, client.GracePeriodSeconds(0)))
	ready(metav1.ConditionTrue, "routers in use: 2; the selectors select no pod")
}
