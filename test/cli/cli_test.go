package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestStatusNamesWhatAnInstallationLacks follows a new user's steps: the command that meets a missing part must name
// it.
func TestStatusNamesWhatAnInstallationLacks(t *testing.T) {
	const notInstalled = "the cluster does not have Weft's kinds: install Weft with kubectl apply -f dist/install.yaml"
	weft(t, failed, []string{"status"}, "error: "+notInstalled)
	weft(t, failed, []string{"status", "--wait", "--timeout=1s"}, "error: "+notInstalled)
	weft(t, failed, []string{"drift"},
		"error: no operator leads: the lease weft-system/weft-operator does not exist; kubectl weft status shows why")
	weft(t, failed, []string{"log"}, "error: namespace weft-system has no agent pods")

	kubectl(t, "apply", "-f", "../../dist/install.yaml")
	kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/clusternetworks.network.weft.dev",
		"crd/nodenetworks.network.weft.dev")
	weft(t, failed, []string{"status"}, "error: there is no ClusterNetwork default", "config/samples/clusternetwork.yaml")

	kubectl(t, "apply", "-f", "../../config/samples/clusternetwork.yaml")
	weft(t, different, []string{"status"}, "The network is not set up yet", "NoLeader: Deployment/weft-operands",
		"Deployment weft-operands has no pods")
	weft(t, different, []string{"status", "-n", "nope"}, "Weft is not installed in namespace nope",
		"-> select Weft's namespace with -n")
	weft(t, different, []string{"status", "-o", "json"}, `"conditions": []`, `"areas": []`, `"nodes": []`)
	weft(t, different, []string{"status", "--wait", "--timeout=1s"}, "has no pods")

	t.Run("weft-operands crashes", operandsCrash)
	t.Run("weft-operands works", operandsWork)
	t.Run("the operator crashes", operatorCrashes)
	t.Run("rollouts", rollouts)
	t.Run("log", logs)
	t.Run("trace and why", traces)
	t.Run("ui", page)
}

// ofComponent returns a pod of Weft whose container is in a state.
func ofComponent(component, name string, state corev1.ContainerStatus) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name,
		Labels: map[string]string{"app.kubernetes.io/component": component}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: component, Image: "weft:dev"}}}}
	state.Name = component
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{state}
	return pod
}

// crashing returns the status of a container that kubelet restarts later. words is the end of its log.
func crashing(words string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: "back-off 5m0s restarting failed container"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: words}},
		RestartCount:         3,
	}
}

// operandsCrash runs status in a cluster without kube-proxy and ConfigMap. It names both and the command to run,
// with the address that the API server publishes.
func operandsCrash(t *testing.T) {
	const words = `{"level":"info","msg":"starting operands"}
weft: cannot reach the API server at 10.0.0.1:443: dial tcp 10.0.0.1:443: i/o timeout; ` +
		`kubectl -n weft-system create configmap weft-apiserver --from-literal=host=ADDRESS --from-literal=port=6443
`
	create(t, ofComponent("operands", "weft-operands-x", crashing(words)))
	var published corev1.Endpoints //nolint:staticcheck // the API server's own
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &published); err != nil {
		t.Fatal(err)
	}
	where := published.Subsets[0]
	command := fmt.Sprintf(
		"-> kubectl -n weft-system create configmap weft-apiserver --from-literal=host=%s --from-literal=port=%d",
		where.Addresses[0].IP, where.Ports[0].Port)
	weft(t, different, []string{"status"}, "APIServerUnreachable: Deployment/weft-operands",
		"pod weft-operands-x is in CrashLoopBackOff; last message: cannot reach the API server at 10.0.0.1:443",
		command)
}

func operandsWork(t *testing.T) {
	create(t, ofComponent("operands", "weft-operands-x", corev1.ContainerStatus{Ready: true}))
	weft(t, different, []string{"status"}, "NoLeader: Deployment/weft-operator",
		"the operator has no pod and no Deployment", "kubectl -n weft-system logs deployment/weft-operands")
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
		Message: `Back-off pulling image "weft:dev"`}}
	create(t, ofComponent("central", "weft-central-0", corev1.ContainerStatus{State: waiting}))
	weft(t, different, []string{"status"},
		`pod weft-central-0 is in ImagePullBackOff: Back-off pulling image "weft:dev"`,
		"kubectl -n weft-system describe pod weft-central-0")
}

func operatorCrashes(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError",
		Message: `configmap "weft-ovn" not found`}}
	create(t, ofComponent("operator", "weft-operator-x", corev1.ContainerStatus{State: waiting}))
	weft(t, different, []string{"status"}, "NoLeader: Deployment/weft-operator",
		`pod weft-operator-x is in CreateContainerConfigError: configmap "weft-ovn" not found`)
}

// kubelet returns a node whose kubelet has an empty log for each container.
func kubelet(t *testing.T, name string) *corev1.Node {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	return node
}

// logs runs logs for objects that are missing or not logged. Each case is reported, because empty output must mean
// that no policy decided anything.
func logs(t *testing.T) {
	create(t, kubelet(t, "n1"), ofComponent("agent", "weft-agent-x", corev1.ContainerStatus{Ready: true}))
	demo := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	if err := api.Create(t.Context(), demo); err != nil { // stays, because no namespace controller runs here
		t.Fatal(err)
	}
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-0"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	create(t, web)

	weft(t, failed, []string{"log", "nope"}, "error: there is no namespace nope")
	weft(t, failed, []string{"log", "demo", "nope/web-0"}, "error: there is no pod or policy nope/web-0")
	weft(t, failed, []string{"log", "demo/web-1", "--follow"}, "error: there is no pod or policy demo/web-1")
	for _, bad := range []string{"demo/", "/web-0", "demo/web-0/c", ""} {
		weft(t, failed, []string{"log", bad}, fmt.Sprintf("error: %q: want NAMESPACE or NAMESPACE/POD", bad))
	}
	weft(t, failed, []string{"log", "-n", "nope"}, "error: namespace nope has no agent pods")

	const off = "nothing is logged: the annotation network.weft.dev/acl-logging is not on "
	weft(t, fine, []string{"log"}, off+"any namespace or policy")
	weft(t, fine, []string{"log", "demo/web-0"}, off+"demo/web-0, its namespace or a policy there",
		"kubectl annotate namespace demo network.weft.dev/acl-logging=")
	weft(t, fine, []string{"log", "demo", "--follow"}, off)
	kubectl(t, "annotate", "namespace", "demo", `network.weft.dev/acl-logging={"deny":"info"}`)
	for _, args := range [][]string{{"log"}, {"log", "demo"}, {"log", "demo/web-0"}} {
		weft(t, fine, args, "no decision was logged in the last 10m0s")
	}
	weft(t, fine, []string{"log", "default", "--since=1h"}, off+"default")

	gone := kubelet(t, "n2")
	gone.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
	lost := ofComponent("agent", "weft-agent-y", corev1.ContainerStatus{Ready: true})
	lost.Spec.NodeName = "n2"
	create(t, gone, lost)
	weft(t, different, []string{"log"}, "error: cannot read the log of weft-agent-y on node n2: ", "refused")
}
