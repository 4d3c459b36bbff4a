package forbidden

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/process/options"
)

// allowed sends writes that must succeed.
func allowed(t *testing.T, who *identity, writes []attempt) {
	t.Helper()
	for _, w := range writes {
		t.Run(w.what, func(t *testing.T) { must(t, who, w.request) })
	}
}

func TestTheOperatorWritesWhatItIsFor(t *testing.T) {
	w := newWorld(t)
	allowed(t, w.operator, []attempt{
		{"a record", request{"PATCH", pods + "/plain", annotation(v1alpha1.PodNetworksAnnotation, record)}, nil},
		{"another record", request{"PATCH", pods + "/recorded", annotation(v1alpha1.PodNetworksAnnotation, `{"version":"v1"}`)}, nil},
		{"a removed record", request{"PATCH", pods + "/recorded",
			`{"metadata":{"annotations":{"network.weft.dev/pod-networks":null}}}`}, nil},
		{"a Node's condition", request{"PATCH", nodes + "/n2/status",
			status(`"conditions":[{"type":"NetworkUnavailable","status":"False","reason":"WeftReady"}]`)}, nil},
		{"a removed startup taint", request{"PATCH", nodes + "/n2", taints(t, "n2", []corev1.Taint{startup})}, nil},
		{"a pod's condition", request{"PATCH", pods + "/plain/status",
			status(
				`"conditions":[{"type":"network.weft.dev/PortReady","status":"False","reason":"DatabaseRefused"}]`)},
			nil},
		{"a service's condition", request{"PATCH", apiService + "/status",
			status(
				`"conditions":[{"type":"network.weft.dev/AddressesReady","status":"False","reason":"Reserved",` +
					`"message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}]`)}, nil},
		{"a NodeNetwork's condition", request{"PATCH", networks + "/n1/status",
			status(
				`"conditions":[{"type":"TopologyReady","status":"True","reason":"AsExpected","message":"",` +
					`"lastTransitionTime":"2026-01-02T03:04:05Z"}]`)}, nil},
		{"a spec", request{"PATCH", networks + "/n2", `{"spec":{"mtu":1300}}`}, nil},
		{"the ClusterNetwork's status", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":1300`)}, nil},
		{"an event", request{"POST", eventsPath, eventBody("e1", "weft-operator", "weft", "Pod", "plain")}, nil},
		{"no NodeNetwork", request{"DELETE", networks + "/n2", ""}, nil},
		{"a recreated NodeNetwork", request{"POST", networks, nodeNetworkBody("n2", 2)}, nil},
	})
}

func TestTheOperatorHoldsItsLease(t *testing.T) {
	w := newWorld(t)
	lock, err := controllers.Lease(options.Operator{Namespace: system, Identity: "test"}).Lock(w.operator.config)
	if err != nil {
		t.Fatal(err)
	}
	held := resourcelock.LeaderElectionRecord{HolderIdentity: "test", LeaseDurationSeconds: 8,
		AcquireTime: metav1.Now(), RenewTime: metav1.Now()}
	if err := lock.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.CoordinationV1().Leases(system).Delete(context.Background(), "weft-operator", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Error(err)
	}
	held.RenewTime = metav1.NewTime(time.Now().Add(time.Second))
	if err := lock.Update(t.Context(), held); err != nil {
		t.Error(err)
	}
}

// TestLeasesHaveAPriorityOfTheirOwn checks that a renewal does not wait behind other requests: the API server treats
// it like a component's own request, but not the operator's other requests.
func TestLeasesHaveAPriorityOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	own, err := admin.FlowcontrolV1().FlowSchemas().Get(t.Context(), "weft-leases", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.HTTPClientFor(w.operator.config)
	if err != nil {
		t.Fatal(err)
	}
	schema := func(path string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.operator.config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid")
	}
	for path, want := range map[string]bool{"/apis/coordination.k8s.io/v1/namespaces/" + system +
		"/leases/weft-operator": true, "/api/v1/pods": false} {
		if got := schema(path); got == "" || (got == string(own.UID)) != want {
			t.Errorf("%s is served by FlowSchema %q; weft-leases is %q, expected to serve it: %t", path, got, own.UID, want)
		}
	}
}

// TestAnAgentWritesItsOwnStatus sends the agent's computed status as the agent's patch. Failure mode I10: a
// reinstalled node has another chassis, and must recover without help.
func TestAnAgentWritesItsOwnStatus(t *testing.T) {
	w := newWorld(t)
	api := typed(t, w.agent["n1"])
	for _, chassis := range []string{"n1", "5f3c2c1e-7a38-4d3f-8f0f-0a3f4a4d6b11", "{0a}.b:c_d"} {
		nn := nodeNetwork(t, "n1")
		health := desired.Health{Used: 3, Status: v1alpha1.NodeNetworkStatus{Chassis: chassis, EncapIP: "2001:db8::1",
			EncapType:    v1alpha1.EncapsulationGeneve,
			DatapathType: v1alpha1.DatapathSystem, LinkMTU: 1500, OVSVersion: "3.5.0", OVNVersion: "25.03.1", Pods: 3},
			Stages: []desired.Stage{{Type: v1alpha1.ConditionOVSReady}, {Type: v1alpha1.ConditionCNIReady,
				Reason: v1alpha1.ReasonNotReady, Err: context.Canceled}}}
		patched := nn.DeepCopy()
		patched.Status = desired.NodeStatus(nn, health)
		if err := api.Status().Patch(t.Context(), patched, client.MergeFrom(nn)); err != nil {
			t.Fatal(err)
		}
		if got := nodeNetwork(t, "n1"); got.Status.Chassis != chassis || len(got.Status.Conditions) != len(patched.Status.Conditions) {
			t.Errorf("the status is %+v", got.Status)
		}
	}
	allowed(t, w.agent["n1"], []attempt{
		{"host ports of its pod", request{"PATCH", pods + "/plain/status", annotation(v1alpha1.HostPortsAnnotation, "[]")}, nil},
		{"host ports for Galaxy's users", request{"PATCH", pods + "/plain/status",
			annotation(v1alpha1.GalaxyPortMappingAnnotation, "[]")}, nil},
		{"its first conditions", request{"PATCH", networks + "/n1/status", status(`"conditions":[]`)}, nil},
		{"an event about a pod", request{"POST", eventsPath, eventBody("e1", "n1", "weft-agent", "Pod", "plain")}, nil},
		{"a repeated event", request{"PATCH", eventsPath + "/e1", repeated}, nil},
		{"an event about its Node", request{"POST", nodeEvents, eventBody("e2", "n1", "weft-agent", "Node", "n1")}, nil},
	})
	if err := admin.EventsV1().Events("default").Delete(t.Context(), "e2", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestAnAgentsStatusCarriesNothingElse checks that a status endpoint ignores everything except the status.
func TestAnAgentsStatusCarriesNothingElse(t *testing.T) {
	w := newWorld(t)
	before := nodeNetwork(t, "n1")
	must(t, w.agent["n1"], request{"PATCH", networks + "/n1/status",
		`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"finalizers":["a.example/b"],
			"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n2","uid":"1"}]},
"spec":{"mtu":9000},"status":{"pods":9}}`})
	after := nodeNetwork(t, "n1")
	if after.Status.Pods != 9 {
		t.Errorf("the status has %d pods", after.Status.Pods)
	}
	if len(after.Labels)+len(after.Annotations)+len(after.Finalizers)+len(after.OwnerReferences) > 0 || after.Spec.MTU != before.Spec.MTU {
		t.Errorf("something besides the status was written: %+v", after)
	}
}

func TestUsersDoAsBefore(t *testing.T) {
	newWorld(t)
	user := person(t, "developer", team, rule("", "pods pods/eviction", "*"))
	allowed(t, user, []attempt{
		{"a request", request{"PATCH", pods + "/plain", annotation(v1alpha1.PodRecordAnnotation, "true")}, nil},
		{"a request for addresses", request{"PATCH", pods + "/recorded", annotation(v1alpha1.RequestedIPsAnnotation, "10.244.1.77")}, nil},
		{"a request of a pod that has a record", request{"PATCH", pods + "/recorded",
			annotation(v1alpha1.PodRecordAnnotation, "true")}, nil},
		{"a pod with requests", request{"POST", pods, podBody("new",
			`{"network.weft.dev/pod-record":"true","network.weft.dev/random-host-ports":"true","tkestack.io/portmapping":""}`)}, nil},
		{"a pod without a name", request{"POST", pods,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-"},"spec":{"containers":[{"name":"c",` +
				`"image":"example.org/c:1"}]}}`}, nil},
		{"a label", request{"PATCH", pods + "/recorded", `{"metadata":{"labels":{"a":"b"}}}`}, nil},
		{"other annotations", request{"PATCH", pods + "/recorded", annotation("a", "b")}, nil},
		{"a pod from a backup", request{"POST", pods, podBody("restored", `{"k8s.v1.cni.cncf.io/network-status":"[]"}`)}, nil},
		{"another annotation beside a report", request{"PATCH", pods + "/restored", annotation("a", "b")}, nil},
		{"no pod", request{"DELETE", pods + "/new", ""}, nil},
	})
	multus := person(t, "multus", "", rule("", "pods", "get"), rule("", "pods pods/status", "patch update"))
	allowed(t, multus, []attempt{
		{"a report with the status", request{"PATCH", pods + "/plain/status", annotation("k8s.v1.cni.cncf.io/network-status", "[]")}, nil},
		{"a report", request{"PATCH", pods + "/plain", annotation("k8s.v1.cni.cncf.io/network-status", "[{}]")}, nil},
	})
}

// TestTheControlPlaneDoesAsBefore checks the control plane's own writes: binding, status, garbage collection,
// labels.
func TestTheControlPlaneDoesAsBefore(t *testing.T) {
	newWorld(t)
	controlPlane := person(t, "control-plane", "", rule("", "pods pods/status pods/binding nodes nodes/status", "*"),
		rule("network.weft.dev", "*", "*"))
	allowed(t, controlPlane, []attempt{
		{"a binding", request{"POST", pods + "/unbound/binding",
			`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"unbound"},"target":{"kind":"Node","name":"n2"}}`}, nil},
		{"the status of a pod with a record", request{"PATCH", pods + "/recorded/status",
			status(`"phase":"Running","podIP":"10.244.1.5"`)}, nil},
		{"a Node's status", request{"PATCH", nodes + "/n1/status",
			status(`"capacity":{"cpu":"4"},"conditions":[{"type":"NetworkUnavailable","status":"True"}]`)}, nil},
		{"a NodeNetwork's owner", request{"PATCH", networks + "/n1",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"1"}]}}`}, nil},
		{"a NodeNetwork's label", request{"PATCH", networks + "/n1", `{"metadata":{"labels":{"a":"b"}}}`}, nil},
		{"no NodeNetwork", request{"DELETE", networks + "/n1", ""}, nil},
		{"a ClusterNetwork's spec", request{"PATCH", clusterNetwork + "/default", `{"spec":{"mtu":1300}}`}, nil},
	})
}

// TestPoliciesGoWithTheOperator deletes Weft's manifests in different orders. What remains of it must not block
// pods.
func TestPoliciesGoWithTheOperator(t *testing.T) {
	newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	withoutNetwork(t)
	if err := admin.CoreV1().ServiceAccounts(system).Delete(ctx, "weft-operator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := enforced(ctx, false); err != nil {
		t.Error(err)
	}
	allowed(t, identityOf(t, restConfig), []attempt{
		{"a pod", request{"POST", pods, podBody("new", "{}")}, nil},
		{"no record", request{"PATCH", pods + "/recorded", `{"metadata":{"annotations":null}}`}, nil},
		{"no NodeNetwork", request{"DELETE", networks + "/n1", ""}, nil},
	})
	if err := install(ctx); err != nil { // again, over the existing objects
		t.Fatal(err)
	}
}

func TestUninstall(t *testing.T) {
	newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	withoutNetwork(t)
	crds := listKinds(t)
	if err := kubectl(ctx, "delete", "-f", bundle, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	endNamespace(t, system)
	if err := kubectl(ctx, append([]string{"wait", "--for=delete", "--timeout=30s", "namespace/" + system}, crds...)...); err != nil {
		t.Error(err)
	}
	left, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d policies remain: %v", len(left.Items), err)
	}
	if err := enforced(ctx, false); err != nil {
		t.Error(err)
	}
	if err := install(ctx); err != nil {
		t.Fatal(err)
	}
}

// listKinds lists the objects of each of Weft's kinds, as the operator does, and returns the names of the CRDs for kubectl.
// A server that has never listed a kind fails its first deletion of the kind's CRD. If it then tries again with an old CRD, it
// forgets it until the next resynchronization, after 5 minutes (Kubernetes 1.36, CRDFinalizer.sync).
func listKinds(t *testing.T) (crds []string) {
	t.Helper()
	kinds, err := admin.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds.APIResources {
		if strings.Contains(kind.Name, "/") { // a subresource
			continue
		}
		path := "/apis/" + kinds.GroupVersion + "/" + kind.Name
		if _, err := admin.RESTClient().Get().RequestURI(path).DoRaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, "crd/"+kind.Name+"."+v1alpha1.GroupVersion.Group)
	}
	return crds
}

// endNamespace finishes a namespace's deletion as the namespace controller would; it does not run here.
func endNamespace(t *testing.T, name string) {
	t.Helper()
	namespace, err := admin.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if _, err := admin.CoreV1().Namespaces().Finalize(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func typed(t *testing.T, who *identity) client.Client {
	t.Helper()
	managerOptions, err := controllers.ManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(who.config, client.Options{Scheme: managerOptions.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func nodeNetwork(t *testing.T, name string) *v1alpha1.NodeNetwork {
	t.Helper()
	raw, err := admin.RESTClient().Get().RequestURI(networks + "/" + name).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nn := &v1alpha1.NodeNetwork{}
	if err := json.Unmarshal(raw, nn); err != nil {
		t.Fatal(err)
	}
	return nn
}
