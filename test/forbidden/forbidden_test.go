package forbidden

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attempt is a write that must be refused.
type attempt struct {
	what string
	request
	says []string // parts of the refusal
}

// refused sends each attempt, and expects a Forbidden error that names the object, and no change.
func refused(t *testing.T, who *identity, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		t.Run(a.what, func(t *testing.T) {
			before := versions(t)
			err := who.do(t.Context(), a.request)
			if !apierrors.IsForbidden(err) {
				t.Fatalf("%s %s: not Forbidden: %v", a.method, a.path, err)
			}
			for _, part := range a.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the refusal lacks %q: %v", part, err)
				}
			}
			if after := versions(t); after != before {
				t.Errorf("something was written:\n--- before\n%s\n--- after\n%s", before, after)
			}
		})
	}
}

func status(field string) string { return `{"status":{` + field + `}}` }

func TestAnAgentWritesNothingButItsOwnStatus(t *testing.T) {
	w := newWorld(t)
	const lease = "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases"
	refused(t, w.agent["n1"], []attempt{
		{"status of another node", request{"PATCH", networks + "/n2/status", status(`"chassis":"n1"`)},
			[]string{"NodeNetwork n2", "by the agent on node n2", "on node n1"}},
		{"status of another node, applied", request{"APPLY", networks + "/n2/status",
			`{"apiVersion":"network.weft.dev/v1alpha1","kind":"NodeNetwork","status":{"pods":5}}`},
			[]string{"NodeNetwork n2", "on node n1"}},
		{"status of another node, JSON patch", request{"PATCH", networks + "/n2/status",
			`[{"op":"remove","path":"/status/chassis"}]`}, []string{"NodeNetwork n2", "on node n1"}},
		{"status of another node removed", request{"PATCH", networks + "/n2/status", `{"status":null}`}, []string{"NodeNetwork n2"}},
		{"status of another node, replaced", request{"PUT", networks + "/n2/status", nodeNetworkBody("n2", 2)},
			[]string{"n2", "nodenetworks/status"}},
		{"own spec", request{"PATCH", networks + "/n1", `{"spec":{"mtu":9000}}`}, []string{`"n1"`, "nodenetworks"}},
		{"own labels", request{"PATCH", networks + "/n1", `{"metadata":{"labels":{"a":"b"}}}`}, []string{`"n1"`}},
		{"own owner", request{"PATCH", networks + "/n1", `{"metadata":{"ownerReferences":[]}}`}, []string{`"n1"`}},
		{"a new NodeNetwork", request{"POST", networks, nodeNetworkBody("n3", 3)}, []string{"nodenetworks"}},
		{"deletion of a NodeNetwork", request{"DELETE", networks + "/n1", ""}, []string{`"n1"`}},
		{"deletion of all NodeNetworks", request{"DELETE", networks, ""}, []string{"nodenetworks"}},
		{"the ClusterNetwork's status", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":600`)}, []string{`"default"`}},
		{"the ClusterNetwork", request{"PATCH", clusterNetwork + "/default", `{"spec":{"mtu":600}}`}, []string{`"default"`}},
		{"a VIF record", request{"PATCH", pods + "/plain", annotation("network.weft.dev/pod-networks", record)}, []string{`"plain"`}},
		{"a VIF record through the status", request{"PATCH", pods + "/plain/status",
			annotation("network.weft.dev/pod-networks", record)}, []string{`"plain"`}},
		{"host ports of a pod that is not its own", request{"PATCH", pods + "/unbound/status",
			annotation("network.weft.dev/host-ports", "[]")}, []string{"pod team-a/unbound", "n1"}},
		{"a request for host ports", request{"PATCH", pods + "/plain/status",
			annotation("network.weft.dev/random-host-ports", "true")}, []string{"pod team-a/plain"}},
		{"a pod", request{"POST", pods, podBody("new", "{}")}, []string{"pods"}},
		{"deletion of a pod", request{"DELETE", pods + "/plain", ""}, []string{`"plain"`}},
		{"an eviction", request{"POST", pods + "/plain/eviction",
			`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"plain"}}`}, []string{`"plain"`}},
		{"its Node's status", request{"PATCH", nodes + "/n1/status", status(`"conditions":[]`)}, []string{`"n1"`}},
		{"its Node's labels", request{"PATCH", nodes + "/n1", `{"metadata":{"labels":{"a":"b"}}}`}, []string{`"n1"`}},
		{"another Node's taints", request{"PATCH", nodes + "/n2", `{"spec":{"taints":[]}}`}, []string{`"n2"`}},
		{"the operator's lease", request{"POST", lease,
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"weft-operator"}}`},
			[]string{"leases"}},
		{"a token of the operator", request{"POST",
			"/api/v1/namespaces/weft-system/serviceaccounts/weft-operator/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`},
			[]string{`"weft-operator"`}},
		{"deletion of a policy", request{"DELETE",
			"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/weft-nodenetworks", ""},
			[]string{`"weft-nodenetworks"`}},
		{"more rights", request{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"x"},` +
				`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`},
			[]string{"clusterrolebindings"}},
		{"an event in another agent's name", request{"POST", eventsPath, eventBody("e1", "n2", "weft-agent", "Pod",
			"plain")}, []string{"event team-a/e1", "reportingInstance n1"}},
		{"an event in kubelet's name", request{"POST", eventsPath, eventBody("e2", "n1", "kubelet", "Pod", "plain")},
			[]string{"event team-a/e2", "reportingController"}},
		{"an event about another Node", request{"POST", nodeEvents, eventBody("e3", "n1", "weft-agent", "Node",
			"n2")}, []string{"event default/e3", "Node n2", "node n1"}},
		{"an event about a Secret", request{"POST", eventsPath, eventBody("e4", "n1", "weft-agent", "Secret", "s")},
			[]string{"event team-a/e4", "Secret s"}},
		{"an event about a Service that is not idle", request{"POST", eventsPath, eventBody("e5", "n1", "weft-agent",
			"Service", "s")}, []string{"event team-a/e5", "Service s"}},
		{"another agent's event", request{"PATCH", eventsPath + "/of-n2", repeated}, []string{"event team-a/of-n2", "n1"}},
		{"an event of the core group", request{"POST", "/api/v1/namespaces/team-a/events",
			`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e5"},"involvedObject":{"kind":"Pod",` +
				`"namespace":"team-a","name":"plain"}}`}, []string{"events"}},
		{"deletion of an event", request{"DELETE", eventsPath + "/of-n2", ""}, []string{`"of-n2"`}},
	})
}

func TestAnAgentSaysNothingImplausible(t *testing.T) {
	w := newWorld(t)
	path := networks + "/n1/status"
	conditions := make([]string, 0, 33)
	for i := range 33 {
		conditions = append(conditions, fmt.Sprintf(
			`{"type":"T%d","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}`,
			i))
	}
	refused(t, w.agent["n1"], []attempt{
		{"two chassis", request{"PATCH", path, status(`"chassis":"n1,n2"`)}, []string{"NodeNetwork n1", `"n1,n2"`}},
		{"a chassis with a blank", request{"PATCH", path, status(`"chassis":"n 1"`)}, []string{"NodeNetwork n1", `"n 1"`}},
		{"a removed chassis", request{"PATCH", path, status(`"chassis":null`)}, []string{"NodeNetwork n1", "not go"}},
		{"a removed status", request{"PATCH", path, `{"status":null}`}, []string{"NodeNetwork n1"}},
		{"a loopback address", request{"PATCH", path, status(`"encapIP":"127.0.0.1"`)}, []string{"NodeNetwork n1", "127.0.0.1"}},
		{"a multicast address", request{"PATCH", path, status(`"encapIP":"ff02::1"`)}, []string{"NodeNetwork n1", "ff02::1"}},
		{"a link-local address", request{"PATCH", path, status(`"encapIP":"fe80::1"`)}, []string{"NodeNetwork n1", "fe80::1"}},
		{"a link too small for IPv6", request{"PATCH", path, status(`"linkMTU":1300`)}, []string{"NodeNetwork n1", "1300", "1338..65536"}},
		{"a link too small for a tunnel over IPv6",
			request{"PATCH", path, status(`"linkMTU":1350,"encapIP":"2001:db8::1"`)}, []string{"1358..65536"}},
		{"a negative MTU", request{"PATCH", path, status(`"linkMTU":-1`)}, []string{"NodeNetwork n1", "-1"}},
		{"an MTU beyond any link", request{"PATCH", path, status(`"linkMTU":70000`)}, []string{"NodeNetwork n1", "70000"}},
		{"a future generation", request{"PATCH", path, status(`"observedGeneration":99`)}, []string{"NodeNetwork n1", "99"}},
		{"negative pods", request{"PATCH", path, status(`"pods":-1`)}, []string{"NodeNetwork n1"}},
		{"negative addresses", request{"PATCH", path, status(`"addresses":{"total":253,"used":-5,"free":258}`)},
			[]string{"NodeNetwork n1"}},
		{"33 conditions", request{"PATCH", path, status(`"conditions":[` + strings.Join(conditions, ",") + `]`)},
			[]string{"NodeNetwork n1"}},
	})
}

func TestAnAgentWithoutANodeWritesNothing(t *testing.T) {
	newWorld(t)
	refused(t, requestToken(t, system, "weft-agent", nil), []attempt{
		{"status", request{"PATCH", networks + "/n1/status", status(`"pods":5`)}, []string{"NodeNetwork n1", "names no node"}},
		{"an event", request{"POST", eventsPath, eventBody("e1", "n1", "weft-agent", "Pod", "plain")},
			[]string{"event team-a/e1", "names its node"}},
	})
}

// TestAnAgentWithAllRightsIsStillBoundToItsNode checks that additional rights for the agents, by mistake or for a
// test, do not give them access to other nodes.
func TestAnAgentWithAllRightsIsStillBoundToItsNode(t *testing.T) {
	w := newWorld(t)
	grant(t, "agents-may-all", "", rbacv1.Subject{Kind: "ServiceAccount", Name: "weft-agent", Namespace: system},
		rule("", "events", "*"), rule("events.k8s.io", "events", "*"), rule("network.weft.dev", "*", "*"))
	refused(t, w.agent["n1"], []attempt{
		{"status of another node, replaced", request{"PATCH", networks + "/n2/status", status(`"pods":7`)}, []string{"NodeNetwork n2"}},
		{"own spec", request{"PATCH", networks + "/n1", `{"spec":{"mtu":9000}}`}, []string{"NodeNetwork n1"}},
		{"own labels", request{"PATCH", networks + "/n1", `{"metadata":{"labels":{"a":"b"}}}`}, []string{"NodeNetwork n1"}},
		{"own owner", request{"PATCH", networks + "/n1",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n2","uid":"1"}]}}`},
			[]string{"NodeNetwork n1"}},
		{"a new NodeNetwork", request{"POST", networks, nodeNetworkBody("n3", 3)}, []string{"NodeNetwork n3"}},
		{"no NodeNetwork", request{"DELETE", networks + "/n2", ""}, []string{"NodeNetwork n2"}},
		{"the ClusterNetwork", request{"PATCH", clusterNetwork + "/default", `{"spec":{"mtu":1300}}`}, []string{"ClusterNetwork default"}},
		{"the ClusterNetwork's status", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":600`)},
			[]string{"ClusterNetwork default"}},
		{"an event of the core group", request{"POST", "/api/v1/namespaces/team-a/events",
			`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e5"},"involvedObject":{"kind":"Pod",` +
				`"namespace":"team-a","name":"plain"}}`}, []string{"event team-a/e5"}},
		{"no event", request{"DELETE", eventsPath + "/of-n2", ""}, []string{"event team-a/of-n2"}},
	})
}

func TestAUserWritesNoRecordAndNoNetwork(t *testing.T) {
	newWorld(t)
	// These are the rights of the role "admin", which is not aggregated here.
	user := person(t, "developer", team, rule("", "pods pods/eviction serviceaccounts configmaps", "*"), rule("apps", "deployments", "*"))
	refused(t, user, []attempt{
		{"a pod with a record", request{"POST", pods, podBody("new", `{"network.weft.dev/pod-networks":"x"}`)},
			[]string{"pod team-a/new", "network.weft.dev/pod-networks", "team-a:developer"}},
		{"a pod with an empty record", request{"POST", pods, podBody("new", `{"network.weft.dev/pod-networks":""}`)},
			[]string{"pod team-a/new"}},
		{"a record", request{"PATCH", pods + "/plain", annotation("network.weft.dev/pod-networks", record)}, []string{"pod team-a/plain"}},
		{"another record", request{"PATCH", pods + "/recorded", annotation("network.weft.dev/pod-networks", "{}")},
			[]string{"pod team-a/recorded"}},
		{"a removed record", request{"PATCH", pods + "/recorded",
			`{"metadata":{"annotations":{"network.weft.dev/pod-networks":null}}}`}, []string{"pod team-a/recorded"}},
		{"removed annotations", request{"PATCH", pods + "/recorded", `{"metadata":{"annotations":null}}`},
			[]string{"pod team-a/recorded"}},
		{"another record, JSON patch", request{"PATCH", pods + "/recorded",
			`[{"op":"replace","path":"/metadata/annotations/network.weft.dev~1pod-networks","value":"x"}]`},
			[]string{"pod team-a/recorded"}},
		{"another record, applied", request{"APPLY", pods + "/recorded",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"recorded",` +
				`"annotations":{"network.weft.dev/pod-networks":"x"}}}`}, []string{"pod team-a/recorded"}},
		{"another record beside a request", request{"PATCH", pods + "/recorded",
			`{"metadata":{"annotations":{"network.weft.dev/pod-record":"true",` +
				`"network.weft.dev/pod-networks":"x"}}}`}, []string{"pod team-a/recorded"}},
		{"a pod with host ports", request{"POST", pods, podBody("new", `{"network.weft.dev/host-ports":"[]"}`)},
			[]string{"pod team-a/new", "network.weft.dev/host-ports", "team-a:developer", "network.weft.dev/random-host-ports"}},
		{"host ports", request{"PATCH", pods + "/plain", annotation("network.weft.dev/host-ports", "[]")},
			[]string{"pod team-a/plain", "network.weft.dev/host-ports"}},
		{"a report of interfaces", request{"PATCH", pods + "/plain", annotation("k8s.v1.cni.cncf.io/network-status", "[]")},
			[]string{"pod team-a/plain", "network-status", "team-a:developer"}},
		{"a NodeNetwork's status", request{"PATCH", networks + "/n1/status", status(`"pods":5`)}, []string{`"n1"`}},
		{"a NodeNetwork", request{"PATCH", networks + "/n1", `{"spec":{"mtu":600}}`}, []string{`"n1"`}},
		{"the ClusterNetwork", request{"PATCH", clusterNetwork + "/default", `{"spec":{"mtu":600}}`}, []string{`"default"`}},
		{"the agent's token", request{"POST", "/api/v1/namespaces/weft-system/serviceaccounts/weft-agent/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`}, []string{`"weft-agent"`}},
	})
}

// TestNobodyBringsARecordByASideDoor covers indirect writes: a Binding's annotations are copied to its pod, and a
// pod's status update carries annotations.
func TestNobodyBringsARecordByASideDoor(t *testing.T) {
	newWorld(t)
	scheduler := person(t, "scheduler", "", rule("", "pods/binding bindings", "create"))
	binding := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"unbound",` +
		`"annotations":{"network.weft.dev/pod-networks":"x"}},"target":{"kind":"Node","name":"n2"}}`
	refused(t, scheduler, []attempt{
		{"a binding of the pod", request{"POST", pods + "/unbound/binding", binding}, []string{"pod team-a/unbound"}},
		{"a binding", request{"POST", "/api/v1/namespaces/team-a/bindings", binding}, []string{"pod team-a/unbound"}},
	})
	kubelet := person(t, "kubelet", "", rule("", "pods/status", "patch update"))
	refused(t, kubelet, []attempt{
		{"host ports with the status", request{"PATCH", pods + "/plain/status",
			annotation("network.weft.dev/host-ports", "[]")}, []string{"pod team-a/plain", "network.weft.dev/host-ports"}},
		{"a record with the status", request{"PATCH", pods + "/plain/status",
			annotation("network.weft.dev/pod-networks", "x")}, []string{"pod team-a/plain"}},
		{"a removed record with the status", request{"PATCH", pods + "/recorded/status",
			`{"metadata":{"annotations":null}}`}, []string{"pod team-a/recorded"}},
	})
}

func TestAnAdministratorIsNotTheOperator(t *testing.T) {
	newWorld(t)
	refused(t, identityOf(t, restConfig), []attempt{
		{"a record", request{"PATCH", pods + "/plain", annotation("network.weft.dev/pod-networks", record)},
			[]string{"pod team-a/plain", "pod-record"}},
		{"a NodeNetwork's subnets", request{"PATCH", networks + "/n1", `{"spec":{"podSubnets":["10.244.9.0/24"]}}`},
			[]string{"NodeNetwork n1", "spec"}},
		{"a new NodeNetwork", request{"POST", networks, nodeNetworkBody("n3", 3)}, []string{"NodeNetwork n3"}},
		{"a NodeNetwork's status", request{"PATCH", networks + "/n1/status", status(`"chassis":"n2"`)},
			[]string{"NodeNetwork n1", "names no node"}},
		{"the ClusterNetwork's status", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":600`)},
			[]string{"ClusterNetwork default", "status"}},
	})
}

// TestTheOperatorPatchesNothingElse covers patches to pods and nodes, which RBAC can only allow as a whole.
func TestTheOperatorPatchesNothingElse(t *testing.T) {
	w := newWorld(t)
	balanced := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "balanced"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/cloud"),
			Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := admin.CoreV1().Services("team-a").Create(t.Context(), balanced, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.CoreV1().Services("team-a").Delete(context.Background(), balanced.Name, metav1.DeleteOptions{})
	})
	nodeStatus, podStatus := nodes+"/n1/status", pods+"/plain/status"
	refused(t, w.operator, []attempt{
		{"an image", request{"PATCH", pods + "/plain",
			`[{"op":"replace","path":"/spec/containers/0/image","value":"example.org/evil:1"}]`},
			[]string{"pod team-a/plain"}},
		{"an image with a record", request{"PATCH", pods + "/plain",
			`{"metadata":{"annotations":{"network.weft.dev/pod-networks":"x"}},"spec":{"containers":[{"name":"c",` +
				`"image":"example.org/evil:1"}]}}`}, []string{"pod team-a/plain"}},
		{"a label", request{"PATCH", pods + "/plain", `{"metadata":{"labels":{"a":"b"}}}`}, []string{"pod team-a/plain"}},
		{"a finalizer", request{"PATCH", pods + "/plain", `{"metadata":{"finalizers":["a.example/b"]}}`}, []string{"pod team-a/plain"}},
		{"another annotation", request{"PATCH", pods + "/plain", annotation("a", "b")}, []string{"pod team-a/plain"}},
		{"a user's request", request{"PATCH", pods + "/plain", annotation("network.weft.dev/pod-record", "true")},
			[]string{"pod team-a/plain"}},
		{"a phase", request{"PATCH", podStatus, status(`"phase":"Failed"`)}, []string{"plain"}},
		{"a new pod", request{"POST", pods, podBody("new", "{}")}, []string{"pods"}},
		{"deletion of a pod", request{"DELETE", pods + "/plain", ""}, []string{`"plain"`}},
		{"a Node's capacity", request{"PATCH", nodeStatus, status(`"capacity":{"cpu":"1000"}`)}, []string{"node n1"}},
		{"a Node's readiness", request{"PATCH", nodeStatus,
			status(`"conditions":[{"type":"Ready","status":"False"}]`)}, []string{"node n1"}},
		{"a Node's labels through the status", request{"PATCH", nodeStatus, `{"metadata":{"labels":{"a":"b"}}}`}, []string{"node n1"}},
		{"a Node's spec", request{"PATCH", nodes + "/n1", `{"spec":{"unschedulable":true}}`}, []string{"node n1"}},
		{"a Node's subnets", request{"PATCH", nodes + "/n1",
			`{"spec":{"podCIDR":"10.244.9.0/24","podCIDRs":["10.244.9.0/24"]}}`}, []string{"node n1"}},
		{"a Node's provider", request{"PATCH", nodes + "/n1", `{"spec":{"providerID":"a://b"}}`}, []string{"node n1"}},
		{"a Node's labels", request{"PATCH", nodes + "/n1", `{"metadata":{"labels":{"a":"b"}}}`}, []string{"node n1"}},
		{"a Node's finalizer", request{"PATCH", nodes + "/n1", `{"metadata":{"finalizers":["a.example/b"]}}`}, []string{"node n1"}},
		{"another taint of a Node", request{"PATCH", nodes + "/n1",
			taints(t, "n1", nil, corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})}, []string{"node n1"}},
		{"a foreign taint removed", request{"PATCH", nodes + "/n1",
			taints(t, "n1", []corev1.Taint{startup, dedicated})}, []string{"node n1"}},
		{"a taint in the startup taint's place", request{"PATCH", nodes + "/n1",
			taints(t, "n1", []corev1.Taint{startup}, corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})},
			[]string{"node n1"}},
		{"the startup taint with another effect", request{"PATCH", nodes + "/n1",
			taints(t, "n1", []corev1.Taint{startup}, corev1.Taint{Key: startup.Key,
				Effect: corev1.TaintEffectNoSchedule})}, []string{"node n1"}},
		{"deletion of a Node", request{"DELETE", nodes + "/n1", ""}, []string{`"n1"`}},
		{"the ClusterNetwork's spec", request{"PATCH", clusterNetwork + "/default", `{"spec":{"mtu":1300}}`}, []string{`"default"`}},
		{"another lease", request{"PUT", "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases/other",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"other"}}`},
			[]string{`"other"`}},
		{"the lease of weft-operands", request{"POST", "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"weft-operands"}}`},
			[]string{"Lease weft-operands", "weft-operator-ZONE"}},
		{"the address of another's class", request{"PATCH", "/api/v1/namespaces/team-a/services/balanced/status",
			status(`"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}`)}, []string{"service team-a/balanced"}},
		{"another condition of a service", request{"PATCH", apiService + "/status",
			status(
				`"conditions":[{"type":"example.org/Ready","status":"True","reason":"r","message":"m",` +
					`"lastTransitionTime":"2026-01-02T03:04:05Z"}]`)}, []string{"service default/kubernetes"}},
		{"a service's labels through the status", request{"PATCH", apiService + "/status",
			`{"metadata":{"labels":{"a":"b"}}}`}, []string{"service default/kubernetes"}},
		{"a service's external IP", request{"PATCH", apiService, `{"spec":{"externalIPs":["192.0.2.9"]}}`}, []string{`"kubernetes"`}},
		{"a Secret", request{"POST", "/api/v1/namespaces/weft-system/secrets",
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`}, []string{"secrets"}},
	})
}

// TestAnOperatorWithAllRightsPatchesNothingElse checks that the policies restrict the operator even if RBAC would
// allow the write.
func TestAnOperatorWithAllRightsPatchesNothingElse(t *testing.T) {
	w := newWorld(t)
	grant(t, "operator-may-all", "", rbacv1.Subject{Kind: "ServiceAccount", Name: "weft-operator", Namespace: system},
		rule("", "pods pods/status nodes nodes/status", "*"), rule("network.weft.dev", "*", "*"))
	refused(t, w.operator, []attempt{
		{"a new pod", request{"POST", pods, podBody("new", "{}")}, []string{"pod team-a/new"}},
		{"a phase", request{"PATCH", pods + "/plain/status", status(`"phase":"Failed"`)}, []string{"pod team-a/plain"}},
		{"a pod's readiness", request{"PATCH", pods + "/plain/status",
			status(`"conditions":[{"type":"Ready","status":"True"}]`)}, []string{"pod team-a/plain"}},
		{"a Node's taints", request{"PATCH", nodes + "/n1", `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`},
			[]string{"node n1"}},
		{"the ClusterNetwork's spec", request{"PATCH", clusterNetwork + "/default", `{"spec":{"mtu":1300}}`},
			[]string{"ClusterNetwork default"}},
	})
}
