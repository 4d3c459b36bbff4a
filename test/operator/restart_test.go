package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/clusternetwork"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// settled starts a network with nodes and pods, and returns when everything is written.
func (w *world) settled(nodes []string, perNode int) (*operator, []*corev1.Pod) {
	w.Helper()
	o := w.start()
	w.network(dualStack()...)
	w.join(nodes...)
	var pods []*corev1.Pod
	for _, node := range nodes {
		pods = append(pods, w.create(node, names(node+"-p", perNode)...)...)
	}
	for _, pod := range pods {
		w.port(pod)
	}
	w.counted(len(pods))
	w.ready(nodes...)
	return o, pods
}

// ready waits until nodes are ready and have the MTU that their agents reported, after which nothing changes.
func (w *world) ready(nodes ...string) {
	w.Helper()
	for _, node := range nodes {
		w.until(func() error { return unavailable(node, corev1.ConditionFalse) })
		w.until(func() error {
			nn := w.nodeNetwork(node)
			topology := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionTopologyReady)
			if nn.Spec.MTU == 0 || topology == nil || topology.ObservedGeneration != nn.Generation {
				return fmt.Errorf("node %s has the MTU %d and, in generation %d, the condition %+v", node,
					nn.Spec.MTU, nn.Generation, topology)
			}
			return nil
		})
	}
}

// counted waits until the ClusterNetwork is ready and counts the given number of IPv4 addresses.
func (w *world) counted(used int) {
	w.Helper()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if len(s.Addresses) == 0 || s.Addresses[0].Used != int64(used) {
			return fmt.Errorf("addresses are %+v, want %d in use", s.Addresses, used)
		}
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
}

func TestUnchangedRestartWritesNothing(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 10)
	o.stop()
	before := w.dump()
	log := w.nb.Transactions()

	w.countDelay = controllers.CountDelay // long enough for any other write
	o = w.start()
	// One more pod shows that the operator works. Its count shows that the operator has reported everything.
	extra := w.port(w.create("n1", "extra")[0])
	w.counted(len(pods) + 1)
	for _, pod := range pods {
		if key := topology.PodKey(pod.Namespace, pod.Name); !o.engine.Wanted(key) {
			t.Errorf("unit %s was not compared", key)
		}
	}
	o.settle()
	if got := o.transactions(); got != 1 {
		t.Errorf("the restart wrote %d transactions besides the new pod's", got-1)
	}
	if got := w.nb.Transactions() - log; got != 2 {
		t.Errorf("the database's log grew by %d, want the fence's 1 and the new pod's", got)
	}
	if after := without(w.dump(), extra); !slices.Equal(before, after) {
		t.Errorf("rows differ:\n%s", difference(before, after))
	}
	if writes := o.writes(""); len(writes) != 1 || !strings.Contains(writes[0], "/clusternetworks/default/status ") {
		t.Errorf("API writes: %v, want the count of the new pod only", writes)
	}
}

// slowDatabase connects while a caller waits for it.
type slowDatabase struct {
	connected bool
	slow      int   // how many times a caller waits in vain before that
	failure   error // why no attempt to connect succeeds
}

func (d *slowDatabase) Apply(context.Context, unit.Unit) error { return nil }
func (d *slowDatabase) Connected() bool                        { return d.connected }
func (d *slowDatabase) Refused() error                         { return nil }
func (d *slowDatabase) Failure() error                         { return d.failure }
func (d *slowDatabase) Drifts() ovndb.DriftReport              { return ovndb.DriftReport{} }
func (d *slowDatabase) ReportOnly(bool)                        {}

// Wait implements clusternetwork.Database.
func (d *slowDatabase) Wait(_ context.Context, ready func() (bool, error)) error {
	d.connected = d.slow == 0 && d.failure == nil
	d.slow--
	if ok, err := ready(); ok || err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// Used implements clusternetwork.Addresses.
func (d *slowDatabase) Used(netip.Prefix) (int64, bool) { return 0, true }

// Outdated implements clusternetwork.Addresses.
func (d *slowDatabase) Outdated(int) (int, []alloc.Outdated) { return 0, nil }

// TestFirstReportWaitsForTheDatabase checks that a start is not reported as an outage while the database connects, and
// while a large database is copied. A server that cannot be reached is one.
func TestFirstReportWaitsForTheDatabase(t *testing.T) {
	w := newWorld(t)
	cn := w.network(dualStack()...)
	w.firstReports(cn, &slowDatabase{}, networkv1alpha1.ReasonAsExpected, networkv1alpha1.ReasonDatabaseUnavailable)
	w.firstReports(cn, &slowDatabase{slow: 1}, networkv1alpha1.ReasonAsExpected, networkv1alpha1.ReasonDatabaseUnavailable)
	w.firstReports(cn, &slowDatabase{failure: errors.New("connection refused")}, networkv1alpha1.ReasonDatabaseUnavailable)
}

// withoutIndexes lists all objects instead of the objects of an index.
type withoutIndexes struct{ client.Client }

func (c withoutIndexes) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.Client.List(ctx, list, slices.DeleteFunc(slices.Clone(options), func(o client.ListOption) bool {
		_, isIndex := o.(client.MatchingFields)
		return isIndex
	})...)
}

// firstReports reconciles the ClusterNetwork in a new process, and compares the reasons of its condition Ready. The
// database is disconnected after the first.
func (w *world) firstReports(cn *networkv1alpha1.ClusterNetwork, db *slowDatabase, reasons ...string) {
	t := w.T
	w.Helper()
	r := &clusternetwork.Reconciler{Client: withoutIndexes{api}, Database: db, Addresses: db,
		Floating: claim.New(api, api, time.Now), Policies: func(context.Context) ([]metav1.Object, error) { return nil, nil }}
	for _, want := range reasons {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: clusternetwork.Name}); err != nil {
			t.Fatal(err)
		}
		w.must(api.Get(t.Context(), keyOf(cn), cn))
		if ready := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionReady); ready == nil || ready.Reason != want {
			t.Errorf("Ready is %+v, want reason %s", ready, want)
		}
		db.connected = false // a later disconnection is an outage
	}
}

// without removes a port and its element of a switch from a dump.
func without(dump []string, port *nbdb.LogicalSwitchPort) []string {
	rest := slices.DeleteFunc(dump, func(row string) bool { return strings.Contains(row, port.Name) })
	for i, row := range rest {
		rest[i] = strings.NewReplacer(", "+port.UUID, "", port.UUID+", ", "").Replace(row)
	}
	return rest
}

// difference lists the lines that occur in only one dump.
func difference(before, after []string) string {
	var text strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintln(&text, "-", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			fmt.Fprintln(&text, "+", line)
		}
	}
	return text.String()
}

func TestDatabaseEmptiedWhileRunning(t *testing.T) {
	w := newWorld(t)
	_, _ = w.settled([]string{"n1", "n2"}, 10)
	before := w.dump()

	w.nb.Kill()
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonDatabaseUnavailable, metav1.ConditionFalse)
	})
	w.nb.Empty()
	w.nb.Run()
	w.same(before)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionReady, networkv1alpha1.ReasonAsExpected, metav1.ConditionTrue)
	})
}

// same waits until the database has exactly these rows.
func (w *world) same(want []string) {
	w.Helper()
	w.until(func() error {
		if got := w.dump(); !slices.Equal(got, want) {
			return fmt.Errorf("rows differ:\n%s", difference(want, got))
		}
		return nil
	})
}

func TestDatabaseEmptiedWhileDown(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 10)
	before := map[string][]netip.Addr{}
	for i, pod := range pods {
		before[pod.Name] = w.addresses(w.port(pod))
		if i%10 != 9 { // each node's last pod has not reported its addresses
			w.phase(pod, corev1.PodRunning, before[pod.Name]...)
		}
	}
	o.stop()
	w.nb.Kill()
	w.nb.Empty()
	w.nb.Run()
	w.start()
	seen := map[netip.Addr]string{}
	for i, pod := range pods {
		got := w.addresses(w.port(pod))
		if i%10 != 9 && !slices.Equal(got, before[pod.Name]) {
			t.Errorf("pod %s has %v, had %v", pod.Name, got, before[pod.Name])
		}
		for _, address := range got {
			if other, taken := seen[address]; taken {
				t.Errorf("pods %s and %s both have %s", other, pod.Name, address)
			}
			seen[address] = pod.Name
		}
	}
	if len(seen) != 2*len(pods) {
		t.Errorf("%d addresses: %v", len(seen), slices.Sorted(maps.Values(seen)))
	}
}

// TestDatabaseFromABackup restores an old database with ports of earlier pods, whose addresses other pods have now.
// A running pod has precedence.
func TestDatabaseFromABackup(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1"}, 2)
	old := pods[0]
	address := w.addresses(w.port(old))
	oldKeys := []string{w.port(old).Options["requested-tnl-key"], w.port(pods[1]).Options["requested-tnl-key"]}
	o.stop()
	w.delete(old, pods[1])
	// Each name has a new pod with its own address. Another pod has the old address of one; the old address of the
	// other is free.
	renewed, alone, heir := pod(old.Name, "n1"), pod(pods[1].Name, "n1"), pod("heir", "n1")
	w.run(renewed, alone, heir)
	own := []netip.Addr{address[0].Next().Next(), address[1].Next().Next()}
	apart := []netip.Addr{own[0].Next().Next(), own[1].Next().Next()}
	w.phase(alone, corev1.PodRunning, apart...)
	w.phase(renewed, corev1.PodRunning, own...)
	w.phase(heir, corev1.PodRunning, address...)
	w.start()
	if got := w.addresses(w.port(renewed)); !slices.Equal(got, own) {
		t.Errorf("pod %s reported %v but has %v", renewed.Name, own, got)
	}
	if got := w.addresses(w.port(alone)); !slices.Equal(got, apart) {
		t.Errorf("pod %s reported %v but has %v", alone.Name, apart, got)
	}
	if got := w.addresses(w.port(heir)); !slices.Equal(got, address) {
		t.Errorf("pod heir reported %v but has %v", address, got)
	}
	keys := map[string]bool{}
	for _, port := range w.podPorts() {
		keys[port.Options["requested-tnl-key"]] = true
	}
	if len(keys) != 3 || keys[oldKeys[0]] || keys[oldKeys[1]] {
		t.Errorf("three ports have the keys %v; two of them had %v in the database", slices.Sorted(maps.Keys(keys)), oldKeys)
	}
}

func TestSecondOperatorFencesTheFirst(t *testing.T) {
	w := newWorld(t)
	first, _ := w.settled([]string{"n1"}, 1)
	second := w.start()
	w.must(second.engine.Wait(t.Context(), func() (bool, error) { return second.engine.Connected(), nil }))
	p := w.create("n1", "after")[0]
	w.port(p)
	<-first.ended // its next write ends it
	if !errors.Is(first.err, ovndb.ErrFenced) {
		t.Errorf("the first operator ended with %v, want ErrFenced", first.err)
	}
	select {
	case <-second.ended:
		t.Errorf("the second operator ended too: %v", second.err)
	default:
	}
	if err := first.engine.Apply(t.Context(), unit.Unit{Key: topology.PodKey("default", "after")}); !ovndb.IsPending(err) {
		t.Errorf("the first operator's engine returns %v", err)
	}
	w.port(w.create("n1", "another")[0])
}

// TestRestartWhileAnAgentIsSilent checks that the pods of a node whose agent does not report at a start stay in
// their groups and sets, because otherwise their isolation would end.
func TestRestartWhileAnAgentIsSilent(t *testing.T) {
	for what, silence := range map[string]func(*world){
		"its chassis is missing": func(w *world) {
			nn := w.nodeNetwork("n2")
			patch := client.MergeFrom(nn.DeepCopy())
			nn.Status.Chassis = ""
			w.must(api.Status().Patch(w.Context(), nn, patch))
		},
		"its network was deleted": func(w *world) { w.delete(w.nodeNetwork("n2")) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			o, _ := w.settled([]string{"n1", "n2"}, 0)
			w.podLabelled("n1", "near", "web")
			w.podLabelled("n2", "far", "web")
			w.podLabelled("n2", "client", "client")
			w.must(api.Create(w.Context(), policyObject("p", "web", "client")))
			defer w.clearPolicies(context.Background())
			w.isolates("p", 3)
			w.counted(3)
			o.settle()
			o.stop()
			members := func() (found []string) {
				rows := w.selectRows()
				for _, table := range []string{nbdb.PortGroupTable, nbdb.AddressSetTable} {
					for id, row := range rows[table] {
						found = append(found, fmt.Sprint(table, id, row["ports"], row["addresses"]))
					}
				}
				slices.Sort(found)
				return found
			}
			before := members()
			silence(w)
			o = w.start()
			w.port(w.create("n1", "extra")[0]) // the operator works and has reconciled all pods
			w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
				if len(s.Addresses) == 0 || s.Addresses[0].Used != 4 {
					return fmt.Errorf("addresses are %+v, want 4 in use", s.Addresses)
				}
				return nil
			})
			o.settle()
			if after := members(); !slices.Equal(before, after) {
				t.Errorf("groups and sets differ:\n%s", difference(before, after))
			}
		})
	}
}

// TestPoliciesFollowWhileAnAgentIsSilent recreates a NodeNetwork whose agent is silent. Its pods must join the
// groups and sets of new policies too.
func TestPoliciesFollowWhileAnAgentIsSilent(t *testing.T) {
	w := newWorld(t)
	w.settled([]string{"n1", "n2"}, 0)
	w.podLabelled("n1", "near", "web")
	far, peer := w.podLabelled("n2", "far", "web"), w.podLabelled("n2", "client", "client")
	w.counted(3)
	address := w.addresses(w.port(peer))[0].String()
	had := w.nodeNetwork("n2").UID
	w.delete(w.nodeNetwork("n2"))
	w.until(func() error {
		var nn networkv1alpha1.NodeNetwork
		if err := api.Get(w.Context(), types.NamespacedName{Name: "n2"}, &nn); err != nil {
			return err
		}
		if nn.UID == had || nn.Status.Chassis != "" {
			return fmt.Errorf("n2's NodeNetwork is %s with chassis %q", nn.UID, nn.Status.Chassis)
		}
		return nil
	})
	w.must(api.Create(w.Context(), policyObject("late", "web", "client")))
	defer w.clearPolicies(context.Background())
	w.until(func() error {
		rows := w.selectRows()
		for _, c := range []struct{ table, column, element string }{
			{nbdb.PortGroupTable, "ports", topology.PodPortUUID(far.Namespace, far.Name, string(far.UID))},
			{nbdb.AddressSetTable, "addresses", address}} {
			holders := 0
			for _, r := range rows[c.table] {
				if slices.Contains(r[c.column], c.element) {
					holders++
				}
			}
			if holders != 1 {
				return fmt.Errorf("%s is in column %s of %d rows of %s, want one", c.element, c.column, holders, c.table)
			}
		}
		return nil
	})
}
