package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/admin"
)

// query calls the operator as "weft admin" does.
func (o *operator) query(body any, into any, args ...string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := admin.Command(o.world.Context(), append([]string{"--socket", o.socket}, args...), bytes.NewReader(text), &out); err != nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), into)
}

// list returns the objects with their kinds, as kubectl sends them.
func (w *world) list(objects ...client.Object) map[string]any {
	w.Helper()
	for _, object := range objects {
		gvk, err := api.GroupVersionKindFor(object)
		w.must(err)
		object.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
}

// plan returns what objects would change, and fails the test if the query changed anything.
func (o *operator) plan(args []string, objects ...client.Object) admin.Changes {
	w := o.world
	w.Helper()
	w.awaitTopologyReady()
	o.settle()
	rowsBefore, versions, committed, log, written := w.dump(), w.versions(), o.transactions(), w.nb.Transactions(),
		len(apartFromReports(o.writes("")))
	var answer admin.Changes
	w.must(o.query(w.list(objects...), &answer, args...))
	o.settle()
	if got := o.transactions() - committed; got != 0 {
		w.Errorf("the plan committed %d transactions", got)
	}
	if got := w.nb.Transactions() - log; got != 0 {
		w.Errorf("the database's log grew by %d", got)
	}
	if got := apartFromReports(o.writes("")); len(got) != written {
		w.Errorf("the plan wrote to the API: %v", got[written:])
	}
	if after := w.dump(); !slices.Equal(after, rowsBefore) {
		w.Errorf("the plan changed rows:\n%s", difference(rowsBefore, after))
	}
	late := func(object, _ string) bool { return strings.Contains(object, "ClusterNetworkList") } // its status follows earlier changes late
	after := w.versions()
	maps.DeleteFunc(versions, late)
	maps.DeleteFunc(after, late)
	if !maps.Equal(after, versions) {
		w.Errorf("the plan changed objects: %v, before %v", after, versions)
	}
	return answer
}

// awaitTopologyReady waits until the operator has reported for every NodeNetwork that its rows are in the database.
func (w *world) awaitTopologyReady() {
	w.Helper()
	w.until(func() error {
		var list networkv1alpha1.NodeNetworkList
		if err := view.List(w.Context(), &list); err != nil {
			return err
		}
		for _, nn := range list.Items {
			c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionTopologyReady)
			if c == nil || c.ObservedGeneration != nn.Generation {
				return fmt.Errorf("NodeNetwork %s of generation %d has the condition %+v", nn.Name, nn.Generation, c)
			}
		}
		return nil
	})
}

// versions returns the resource version of every relevant object.
func (w *world) versions() map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.NodeList{},
		&networkv1alpha1.NodeNetworkList{}, &networkv1alpha1.ClusterNetworkList{}} {
		w.must(api.List(w.Context(), list))
		text, err := json.Marshal(list)
		w.must(err)
		var parsed metav1.PartialObjectMetadataList
		w.must(json.Unmarshal(text, &parsed))
		for _, item := range parsed.Items {
			found[fmt.Sprintf("%T %s/%s", list, item.Namespace, item.Name)] = item.ResourceVersion
		}
	}
	return found
}

// dryRun makes the API server default and validate a new object, as the command does.
func (w *world) dryRun(object client.Object) client.Object {
	w.Helper()
	w.must(api.Create(w.Context(), object, client.DryRunAll))
	object.SetResourceVersion("")
	return object
}

// comesTrue applies a planned change and waits until the database differs by exactly the plan.
func (w *world) comesTrue(plan admin.Changes, apply func() (uid string)) {
	w.Helper()
	before := w.selectRows()
	uid := apply()
	w.until(func() error {
		after := w.selectRows()
		planned, got := describe(plan, uid, before, after), differences(before, after)
		if len(planned) == 0 || !slices.Equal(planned, got) {
			return fmt.Errorf("the plan and the write differ:\n%s", difference(planned, got))
		}
		return nil
	})
}

func TestPlanOfAPod(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1", "n2"}, 2)
	planned := o.plan([]string{"plan"}, w.dryRun(pod("web", "n1")))
	if len(planned.Changes) != 2 || planned.Changes[0].Owner != "pod/default/web" || len(planned.Notes) != 0 {
		t.Errorf("plan is %+v, want a port and its place on the switch", planned)
	}
	for _, c := range planned.Changes {
		if c.Op == ovndb.OpInsert && c.UUID != "(known after apply)" {
			t.Errorf("the UUID of the port of a pod without UID is %s", c.UUID)
		}
	}
	w.comesTrue(planned, func() string { return string(w.create("n1", "web")[0].UID) })
}

// TestPlanOfAPodWithARecord plans a pod that requests its record. The plan only simulates the write of the record to
// the pod, which does not exist.
func TestPlanOfAPodWithARecord(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	recorded := func() *corev1.Pod {
		p := pod("web", "n1")
		p.Annotations = map[string]string{networkv1alpha1.PodRecordAnnotation: "true"}
		return p
	}
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(recorded())), func() string {
		made := recorded()
		w.run(made)
		return string(made.UID)
	})
}

// TestPlanOfPodsAndOfTheirDeletion creates pods in the planned order, so that they get the planned addresses.
func TestPlanOfPodsAndOfTheirDeletion(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1", "n2"}, 2)
	planned := o.plan([]string{"plan", "--delete"}, pods[0], pods[3])
	w.comesTrue(planned, func() string {
		w.delete(pods[0], pods[3])
		return ""
	})
	w.counted(2)

	unscheduled, onHost := pod("later", ""), pod("host", "n1")
	onHost.Spec.HostNetwork = true
	planned = o.plan([]string{"plan"}, w.dryRun(pod("a", "n2")), w.dryRun(pod("b", "n2")), w.dryRun(unscheduled), w.dryRun(onHost))
	w.says(strings.Join(planned.Notes, "\n"), "default/later is not scheduled", "default/host uses its node's network")
	var addresses []string
	for _, c := range planned.Changes {
		for _, column := range c.Columns {
			if column.Column == "addresses" {
				addresses = append(addresses, column.Want)
			}
		}
	}
	for i, p := range []string{"a", "b"} {
		if got := w.port(w.create("n2", p)[0]).Addresses; len(addresses) != 2 || got[0] != addresses[i] {
			t.Errorf("pod %s has %v, the plan showed %v", p, got, addresses)
		}
	}
}

func TestPlanOfANode(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	planned := o.plan([]string{"plan"}, w.dryRun(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}), w.dryRun(pod("early", "n2")))
	w.says(strings.Join(planned.Notes, "\n"), "Node n2 waits for its agent", "default/early")
	w.comesTrue(planned, func() string {
		w.register("n2")
		w.create("n2", "early")
		return ""
	})
	w.ready("n1")
	w.until(func() error { return unavailable("n2", corev1.ConditionTrue) })
	w.report("n2")
	w.ready("n2")
	w.counted(2)

	planned = o.plan([]string{"plan", "--delete"}, w.node("n2"))
	w.says(strings.Join(planned.Notes, "\n"), "Node n2 does not exist; without a port: default/early")
	w.comesTrue(planned, func() string {
		w.delete(w.node("n2"))
		return ""
	})
}

// TestPlanOfAFreedAddress checks that a deleted pod's address goes to a waiting pod, in the plan too.
func TestPlanOfAFreedAddress(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(entry("10.244.0.0/16", 29)) // 4 addresses for pods on each node
	w.join("n1")
	pods := w.create("n1", names("p", 4)...)
	for _, p := range pods {
		w.port(p)
	}
	w.ready("n1")
	w.counted(4)
	planned := o.plan([]string{"plan"}, w.dryRun(pod("waits", "n1")))
	if len(planned.Changes) != 0 {
		t.Errorf("plan has %+v for a pod without an address", planned.Changes)
	}
	w.says(strings.Join(planned.Notes, "\n"), "Pod default/waits would get a warning: FailedAddressAllocation", "10.244.0.0/29")
	waits := w.create("n1", "waits")[0]
	w.event("waits", "FailedAddressAllocation")
	w.counted(4)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		if s.Refused == nil {
			return errors.New("the status does not list the waiting pod")
		}
		return nil
	})
	planned = o.plan([]string{"plan", "--delete"}, pods[2])
	w.comesTrue(planned, func() string {
		w.delete(pods[2])
		return ""
	})
	w.port(waits)
}

// TestPlanOfADeletedNodeNetwork checks that a deleted NodeNetwork is recreated with its previous values even if
// others are free, in the plan too.
func TestPlanOfADeletedNodeNetwork(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1", "n2"}, 1)
	w.delete(w.node("n1")) // frees the first ID and subnet
	w.until(func() error { return isGone(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) })
	w.counted(1)
	planned := o.plan([]string{"plan", "--delete"}, w.nodeNetwork("n2"))
	w.says(strings.Join(planned.Notes, "\n"), "Node n2 waits for its agent")
	w.comesTrue(planned, func() string {
		w.delete(w.nodeNetwork("n2"))
		return ""
	})
	w.report("n2")
	w.ready("n2")
}

// TestPlanOfAnAppendedClusterNetwork checks that an appended network gives a subnet to a node without one. Before
// that, the plan of such a node warns.
func TestPlanOfAnAppendedClusterNetwork(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	cn := w.network(entry("10.244.0.0/23", 24))
	w.join("n1", "n2")
	w.ready("n1", "n2")
	w.counted(0)
	planned := o.plan([]string{"plan"}, w.dryRun(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}))
	if len(planned.Changes) != 0 {
		t.Errorf("plan has %+v for a node without a subnet", planned.Changes)
	}
	w.says(strings.Join(planned.Notes, "\n"), "Node n3 would get a warning: FailedSubnetAllocation", "10.244.0.0/23",
		"would be degraded: SubnetsExhausted")

	w.register("n3")
	w.event("n3", "FailedSubnetAllocation")
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		return condition(s.Conditions, networkv1alpha1.ConditionDegraded, networkv1alpha1.ReasonSubnetsExhausted, metav1.ConditionTrue)
	})
	w.until(func() error { return unavailable("n3", corev1.ConditionTrue) })
	w.must(api.Get(t.Context(), keyOf(cn), cn))
	cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, entry("10.245.0.0/16", 24))
	wanted, ok := cn.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatal("no object")
	}
	w.must(api.Update(t.Context(), wanted, client.DryRunAll))
	planned = o.plan([]string{"plan"}, wanted)
	if !slices.ContainsFunc(planned.Changes, func(c ovndb.Change) bool { return c.Owner == "node/n3" && c.Op == ovndb.OpInsert }) {
		t.Errorf("plan is %+v, want the rows of n3", planned)
	}
	w.comesTrue(planned, func() string {
		w.must(api.Update(t.Context(), cn))
		return ""
	})
}

// TestPlanOfNothingNew plans existing objects, and kinds that Weft does not read, which change nothing.
func TestPlanOfNothingNew(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1"}, 1)
	var cn networkv1alpha1.ClusterNetwork
	w.must(api.Get(t.Context(), client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn))
	w.must(api.Get(t.Context(), client.ObjectKeyFromObject(pods[0]), pods[0]))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
	planned := o.plan([]string{"plan"}, &cn, w.node("n1"), w.nodeNetwork("n1"), pods[0], config)
	if len(planned.Changes) != 0 || len(planned.Notes) != 1 {
		t.Errorf("plan is %+v", planned)
	}
	w.says(planned.Notes[0], "ConfigMap default/c: Weft creates no rows")
	planned = o.plan([]string{"plan", "--delete"}, pod("none", ""))
	if len(planned.Changes) != 0 || len(planned.Notes) != 1 {
		t.Errorf("plan is %+v", planned)
	}
	w.says(planned.Notes[0], "default/none", "no such object exists")
}

// TestPlanOfAPodWhoseNameIsTaken checks that a plan reports a name conflict with a foreign row, which the database
// refuses at the commit.
func TestPlanOfAPodWhoseNameIsTaken(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	w.nb.Ctl("ls-add", "foreign", "--", "lsp-add", "foreign", "default_web")
	web := w.list(w.dryRun(pod("web", "n1")))
	w.until(func() error { // the operator receives the foreign row with a delay
		var planned admin.Changes
		if err := o.query(web, &planned, "plan"); err != nil {
			return err
		}
		if notes := strings.Join(planned.Notes, "\n"); !strings.Contains(notes,
			"pod/default/web would be refused by the database") || !strings.Contains(notes, "default_web") {
			return fmt.Errorf("notes are %q", notes)
		}
		return nil
	})
	w.nb.Ctl("ls-del", "foreign")
}

func TestPlanReportsInvalidInput(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	var answer admin.Changes
	for _, test := range []struct {
		name string
		body any
		says []string
	}{
		{"a field of another type", map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "p", "namespace": "default"},
			"spec":     map[string]any{"nodeName": 7}}, []string{"document 1", "Pod default/p", "nodeName"}},
		{"no name", map[string]any{"apiVersion": "v1", "kind": "Pod"}, []string{"document 1", "metadata.name"}},
		{"an existing object without its metadata", w.list(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
			[]string{"Node n1", "UID"}},
	} {
		err := o.query(test.body, &answer, "plan")
		if err == nil {
			t.Errorf("%s: the plan succeeded", test.name)
			continue
		}
		w.says(err.Error(), test.says...)
	}
}

func TestDriftAndCheckReportPresentDifferences(t *testing.T) {
	w := newWorld(t)
	cn := w.network(dualStack()...)
	w.setDriftMode(cn, networkv1alpha1.DriftReport)
	o := w.start()
	w.join("n1")
	port := w.port(w.create("n1", "p")[0])
	w.counted(1)
	o.settle()
	var drift admin.Changes
	var checked admin.Violations
	w.must(errors.Join(o.query(nil, &drift, "drift"), o.query(nil, &checked, "check")))
	if len(drift.Changes) != 0 || len(checked.Violations) != 0 || len(checked.Checked) == 0 {
		t.Errorf("before any change drift is %+v and check returns %+v", drift, checked)
	}

	w.unsound = "the difference is not repaired"
	w.nb.Ctl("lsp-set-addresses", port.Name, "unknown")
	w.until(func() error { // the operator receives the change with a delay
		if err := o.query(nil, &drift, "drift"); err != nil {
			return err
		}
		if len(drift.Changes) != 1 || drift.Changes[0].Op != ovndb.OpUpdate || drift.Changes[0].Name != port.Name ||
			drift.Changes[0].Owner != "pod/default/p" {
			return fmt.Errorf("drift is %+v", drift)
		}
		return nil
	})
	w.must(o.query(nil, &checked, "check"))
	var found []string
	for _, v := range checked.Violations {
		found = append(found, v.String())
	}
	w.says(strings.Join(found, "\n"), "DatabaseAsWanted: Logical_Switch_Port default_p of pod/default/p differs in addresses")
}

func TestNoAnswerWithoutADatabase(t *testing.T) {
	w := newWorld(t)
	o, _ := w.settled([]string{"n1"}, 1)
	w.nb.Stop()
	w.until(func() error {
		if o.engine.Connected() {
			return errors.New("still connected")
		}
		return nil
	})
	for _, command := range []string{"plan", "drift", "check"} {
		err := o.query(w.list(), &admin.Changes{}, command)
		if err == nil {
			t.Errorf("%s succeeded", command)
			continue
		}
		w.says(err.Error(), "northbound database is not connected")
	}
}

// apartFromReports removes events of conditions and counts of free addresses, because reports of earlier changes arrive late.
func apartFromReports(calls []string) []string {
	return slices.DeleteFunc(calls, func(call string) bool {
		if strings.HasPrefix(call, "PATCH ") && strings.Contains(call, "/clusternetworks/default/status ") {
			return strings.Contains(call, `"addressesFree"`)
		}
		return strings.Contains(call, "/events") && (strings.Contains(call, `"action":"Report`) || strings.Contains(call, `"series"`))
	})
}
