package cli

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

func podOf(component string, status corev1.PodStatus) corev1.Pod {
	labels := map[string]string{networkv1alpha1.ComponentLabel: component}
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "weft-" + component + "-x", Labels: labels}, Status: status}
}

func deploymentOf(component string, replicas int32) appsv1.Deployment {
	return appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "weft-" + component}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

// The culprit is the first problem on the way to a leading operator: the operator's pod, the pod that creates it, or
// the lack of both.
func TestCulpritIsTheFirstProblem(t *testing.T) {
	inState := func(state corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}
	}
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}}
	ended := inState(corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "noise\nweft: --nb is required\n"}})
	ended.ContainerStatuses[0].Name = "operator"
	starting := inState(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})
	again := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "weft: no"}}}}}
	both := []appsv1.Deployment{deploymentOf("operands", 1), deploymentOf("operator", 1)}
	scaledDown := []appsv1.Deployment{deploymentOf("operands", 1), deploymentOf("operator", 0)}
	for _, test := range []struct {
		name                     string
		w                        workloads
		object, message, nextHas string
	}{
		{"pods that the user may not list", workloads{podsUnseen: true}, "", "", ""},
		{"a starting operator", workloads{pods: []corev1.Pod{podOf("operator", starting), podOf("operands", ended)}}, "", "", ""},
		{"an unscheduled operator", workloads{pods: []corev1.Pod{podOf("operator", unscheduled)}},
			"Deployment/weft-operator", "pod weft-operator-x is not scheduled: 0/2 nodes are available", "describe pod weft-operator-x"},
		{"an operator that ended", workloads{pods: []corev1.Pod{podOf("operator", ended)}},
			"Deployment/weft-operator", "pod weft-operator-x ended with exit code 2; last message: --nb is required",
			"logs weft-operator-x --previous"},
		{"a restarted operator", workloads{pods: []corev1.Pod{podOf("operator", again)}},
			"Deployment/weft-operator", "pod weft-operator-x is not ready; last message: no", "describe"},
		{"one container of several", workloads{pods: []corev1.Pod{podOf("operator", corev1.PodStatus{ContainerStatuses: append(
			[]corev1.ContainerStatus{{Name: "first", Ready: true}}, ended.ContainerStatuses...)})}},
			"Deployment/weft-operator", "pod weft-operator-x ended with exit code 2; last message: --nb is required",
			"logs weft-operator-x -c operator --previous"},
		{"operands that ended", workloads{pods: []corev1.Pod{podOf("operands", ended)}, deployments: both},
			"Deployment/weft-operands", "pod weft-operands-x ended with exit code 2; last message: --nb is required", "describe"},
		{"an operator scaled to 0", workloads{pods: []corev1.Pod{podOf("operands", corev1.PodStatus{})}, deployments: scaledDown},
			"Deployment/weft-operator", "Deployment weft-operator has no pods because it is scaled to 0",
			"kubectl -n weft-x scale deployment weft-operator --replicas=1"},
		{"no pods of the operator", workloads{deployments: []appsv1.Deployment{deploymentOf("operator", 1)}},
			"Deployment/weft-operator", "Deployment weft-operator has no pods", "describe deployment weft-operator"},
		{"nothing", workloads{}, "", "Weft is not installed in namespace weft-x", "kubectl apply -f dist/install.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.w.namespace = "weft-x"
			found := test.w.culprit()
			if found.object != test.object || found.message != test.message || !strings.Contains(found.nextStep, test.nextHas) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// The next step contains Weft's namespace and, if the user may read it, the API server's address.
func TestNextStepCanBeExecuted(t *testing.T) {
	for address, want := range map[string]string{
		"[2001:db8::10]:6443": "--from-literal=host=2001:db8::10 --from-literal=port=6443",
		"":                    "--from-literal=host=ADDRESS --from-literal=port=PORT",
	} {
		cn, networks := healthyNetwork()
		r := statusOf(cn, networks, "no operator leads")
		r.blame(culprit{reason: health.ReasonAPIServerUnreachable, object: "Deployment/weft-operands"}, "weft-x", address)
		p := r.Problems[0]
		if p.Reason != health.ReasonAPIServerUnreachable || p.Object != "Deployment/weft-operands" ||
			!strings.HasPrefix(p.NextStep, "kubectl -n weft-x create configmap weft-apiserver "+want) {
			t.Errorf("with address %q: %+v", address, p)
		}
		if strings.Contains(p.NextStep, "weft-system") {
			t.Errorf("the next step has another namespace: %q", p.NextStep)
		}
	}
}
