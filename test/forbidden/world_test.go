package forbidden

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// Paths of the objects for the attempted writes.
const (
	networks       = "/apis/network.weft.dev/v1alpha1/nodenetworks"
	clusterNetwork = "/apis/network.weft.dev/v1alpha1/clusternetworks"
	nodes          = "/api/v1/nodes"
	pods           = "/api/v1/namespaces/team-a/pods"
	apiService     = "/api/v1/namespaces/default/services/kubernetes"
	eventsPath     = "/apis/events.k8s.io/v1/namespaces/team-a/events"
	nodeEvents     = "/apis/events.k8s.io/v1/namespaces/default/events" // for objects without a namespace
)

const record = `{"version":"v1","networks":[]}`

// Taints with which both nodes are registered; the API server may add others.
var (
	startup   = corev1.Taint{Key: v1alpha1.AgentNotReadyTaint, Effect: corev1.TaintEffectNoExecute}
	dedicated = corev1.Taint{Key: "dedicated", Value: "team-a", Effect: corev1.TaintEffectNoSchedule}
)

// taints returns a patch of a Node's taints that removes and adds taints.
func taints(t *testing.T, node string, without []corev1.Taint, with ...corev1.Taint) string {
	t.Helper()
	have, err := admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := slices.DeleteFunc(have.Spec.Taints, func(taint corev1.Taint) bool { return slices.Contains(without, taint) })
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": append(list, with...)}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// world is a cluster of two nodes with a ready network, and a namespace with two pods: recorded has a VIF record,
// plain has none.
type world struct {
	operator *identity // on node n1
	agent    map[string]*identity
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"n1", "n2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{startup, dedicated}}}
		if _, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}
	if _, err := admin.CoreV1().Namespaces().Get(ctx, team, metav1.GetOptions{}); err != nil {
		if _, err := admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { clear(t) })
	w := &world{operator: onNode(t, "weft-operator", "n1"),
		agent: map[string]*identity{"n1": onNode(t, "weft-agent", "n1"), "n2": onNode(t, "weft-agent", "n2")}}
	administrator := identityOf(t, restConfig)
	must(t, administrator, request{"POST", clusterNetwork, clusterNetworkBody})
	must(t, w.operator, request{"PATCH", clusterNetwork + "/default/status", `{"status":{"mtu":1400}}`})
	for i, name := range []string{"n1", "n2"} {
		must(t, w.operator, request{"POST", networks, nodeNetworkBody(name, i+1)})
		must(t, w.agent[name], request{"PATCH", networks + "/" + name + "/status", statusBody(name)})
	}
	for _, name := range []string{"recorded", "plain"} {
		if _, err := admin.CoreV1().Pods(team).Create(ctx, podOf(team, name, "n1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.CoreV1().Pods(team).Create(ctx, podOf(team, "unbound", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, w.operator, request{"PATCH", pods + "/recorded", annotation("network.weft.dev/pod-networks", record)})
	must(t, w.agent["n2"], request{"POST", eventsPath, eventBody("of-n2", "n2", "weft-agent", "Pod", "plain")})
	return w
}

const clusterNetworkBody = `{"apiVersion":"network.weft.dev/v1alpha1","kind":"ClusterNetwork","metadata":{"name":"default"},
"spec":{"clusterNetwork":[{"cidr":"10.244.0.0/16"},{"cidr":"fd00:10:244::/48"}],"serviceNetwork":["10.96.0.0/16","fd00:10:96::/112"]}}`

func nodeNetworkBody(name string, id int) string {
	return fmt.Sprintf(`{"apiVersion":"network.weft.dev/v1alpha1","kind":"NodeNetwork","metadata":{"name":%q},
"spec":{"nodeID":%d,"podSubnets":["10.244.%d.0/24","fd00:10:244:%d::/64"],"mtu":1400}}`, name, id, id, id)
}

func statusBody(chassis string) string {
	return fmt.Sprintf(`{"status":{"observedGeneration":1,"chassis":%q,"encapIP":"192.0.2.1","encapType":"Geneve","linkMTU":1500,
"addresses":{"total":253,"used":1,"free":252},"pods":1}}`, chassis)
}

func annotation(key, value string) string {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		panic(err) // cannot fail for strings
	}
	return string(text)
}

// eventBody returns an Event about a namespaced object of team-a or, in the namespace "default", about a Node.
func eventBody(name, instance, controller, kind, regarding string) string {
	namespace, object := team, fmt.Sprintf(`"namespace":%q,"name":%q`, team, regarding)
	if kind == "Node" {
		namespace, object = "default", fmt.Sprintf(`"name":%q`, regarding)
	}
	return fmt.Sprintf(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":%q,"namespace":%q},
"eventTime":"2026-01-02T03:04:05.000000Z",
"reportingController":%q,"reportingInstance":%q,"action":"Attach","reason":"FailedAttach","type":"Warning","note":"text",
"regarding":{"apiVersion":"v1","kind":%q,%s}}`, name, namespace, controller, instance, kind, object)
}

// repeated is the patch for a repeated event; nothing else of an event can change.
const repeated = `{"series":{"count":2,"lastObservedTime":"2026-01-02T03:05:05.000000Z"}}`

func podBody(name, annotations string) string {
	return fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"annotations":%s},"spec":{"containers":[{"name":"c",`+
			`"image":"example.org/c:1"}]}}`, name, annotations)
}

func must(t *testing.T, who *identity, r request) {
	t.Helper()
	if err := who.do(context.WithoutCancel(t.Context()), r); err != nil { // also during cleanup
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
}

// clear removes the objects of newWorld.
func clear(t *testing.T) {
	t.Helper()
	ctx, administrator := context.Background(), identityOf(t, restConfig)
	if uid := networkUID(ctx, t); uid != "" {
		must(t, administrator, confirmation(uid))
	}
	for _, path := range []string{pods + "?gracePeriodSeconds=0", eventsPath, networks, clusterNetwork, nodes} {
		if err := administrator.do(ctx, request{"DELETE", path, ""}); err != nil {
			t.Error(err)
		}
	}
}

// versions lists every writable object with its resource version, so that equal texts mean that nothing was written.
func versions(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, path := range []string{nodes, networks, clusterNetwork, pools, floating, pods, eventsPath,
		"/api/v1/namespaces/weft-system/pods", "/api/v1/namespaces/weft-system/serviceaccounts",
		"/apis/coordination.k8s.io/v1/namespaces/weft-system/leases", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/weft-system/rolebindings"} {
		raw, err := admin.RESTClient().Get().RequestURI(path).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Items []metav1.PartialObjectMetadata
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			lines = append(lines, path+"/"+item.Name+" "+item.ResourceVersion)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
