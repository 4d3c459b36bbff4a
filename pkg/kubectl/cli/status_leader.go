package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// The Deployments of Weft, by the component of their pods.
const (
	componentOperator = "operator"
	componentOperands = "operands" // creates the operator's Deployment if dist/install.yaml was applied
)

// culprit is what keeps an operator from leading. Empty fields do not change the report.
type culprit struct{ reason, object, message, nextStep string }

// workloads are the Deployments in Weft's namespace, and the pods of components that do not run on every node.
type workloads struct {
	namespace   string
	pods        []corev1.Pod
	deployments []appsv1.Deployment
	// podsUnseen and deploymentsUnseen mean that the user may not list them.
	podsUnseen, deploymentsUnseen bool
	// sets are all workloads, and unread says what the user may not list.
	sets   []workload
	unread []string
}

func readWorkloads(ctx context.Context, api client.Client, namespace string) (workloads, error) {
	names := []string{componentOperator, componentOperands, "central"}
	central, err := labels.NewRequirement(networkv1alpha1.ComponentLabel, selection.In, names)
	if err != nil {
		return workloads{}, err
	}
	var pods corev1.PodList
	var deployments appsv1.DeploymentList
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*central)}
	podErr := api.List(ctx, &pods, client.InNamespace(namespace), selector)
	deploymentErr := api.List(ctx, &deployments, client.InNamespace(namespace))
	found := workloads{namespace: namespace, pods: pods.Items, deployments: deployments.Items,
		podsUnseen: apierrors.IsForbidden(podErr), deploymentsUnseen: apierrors.IsForbidden(deploymentErr)}
	if err := errors.Join(found.note(ctx, podErr), found.note(ctx, deploymentErr)); err != nil {
		return workloads{}, err
	}
	return found, found.readSets(ctx, api)
}

// culprit returns what keeps an operator from leading: the operator's own pod, or without one the pod that creates
// it, or any other pod of Weft.
func (w workloads) culprit() culprit {
	operators := w.ofComponent(componentOperator)
	if w.podsUnseen || len(operators) > 0 {
		return w.inTrouble(operators)
	}
	makers := w.ofComponent(componentOperands)
	if found := w.inTrouble(makers); found.message != "" {
		return found
	}
	switch {
	case len(w.pods) == 0 && len(w.deployments) == 0 && !w.deploymentsUnseen:
		return culprit{message: fmt.Sprintf("Weft is not installed in namespace %s", w.namespace),
			nextStep: "select Weft's namespace with -n, or install Weft: kubectl apply -f dist/install.yaml"}
	case len(makers) == 0 && w.has(componentOperands):
		return w.withoutPods(componentOperands)
	case w.has(componentOperator):
		return w.withoutPods(componentOperator)
	}
	found := w.inTrouble(w.pods)
	found.message = "the operator has no pod and no Deployment" + prefixed("; ", found.message)
	found.nextStep = cmp.Or(found.nextStep, w.kubectl("logs deployment/weft-operands")+" shows why it has not been created yet")
	return found
}

func (w workloads) ofComponent(name string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p corev1.Pod) bool { return p.Labels[networkv1alpha1.ComponentLabel] != name })
}

func (w workloads) has(component string) bool {
	return slices.ContainsFunc(w.deployments, func(d appsv1.Deployment) bool { return d.Name == "weft-"+component })
}

// withoutPods returns the culprit for a Deployment without a pod.
func (w workloads) withoutPods(component string) culprit {
	name := "weft-" + component
	message := "Deployment " + name + " has no pods"
	found := culprit{object: "Deployment/" + name, message: message, nextStep: w.kubectl("describe deployment " + name)}
	for i := range w.deployments {
		if d := &w.deployments[i]; d.Name == name && d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			found.message += " because it is scaled to 0"
			found.nextStep = w.kubectl("scale deployment " + name + " --replicas=1")
		}
	}
	return found
}

// kubectl returns a kubectl command in Weft's namespace.
func (w workloads) kubectl(command string) string { return "kubectl -n " + w.namespace + " " + command }

// inTrouble returns the first pod with a problem.
func (w workloads) inTrouble(pods []corev1.Pod) culprit {
	for i := range pods {
		pod := &pods[i]
		trouble, container := troubleOf(pod)
		if trouble == "" {
			continue
		}
		found := culprit{object: "Pod/" + pod.Name, message: "pod " + pod.Name + " " + trouble,
			nextStep: "see the pod and its log: " + w.kubectl("describe pod "+pod.Name) + "; " +
				w.kubectl("logs "+pod.Name+container+" --previous")}
		switch component := pod.Labels[networkv1alpha1.ComponentLabel]; component {
		case componentOperator, componentOperands:
			found.object = "Deployment/weft-" + component
		}
		if strings.Contains(trouble, "create configmap "+health.APIServerConfigMap) {
			found.reason, found.nextStep = health.ReasonAPIServerUnreachable, "" // blame inserts the reason's next step
		}
		return found
	}
	return culprit{}
}

// troubleOf describes the problem of a pod. It returns "" if the pod works or is starting. container is the flag that selects the
// container's log, if the pod has several.
func troubleOf(pod *corev1.Pod) (trouble, container string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "is not scheduled: " + condition.Message, ""
		}
	}
	all := append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
	for i := range all {
		if trouble := troubleIn(&all[i]); trouble != "" && len(all) > 1 {
			return trouble, " -c " + all[i].Name
		} else if trouble != "" {
			return trouble, ""
		}
	}
	return "", ""
}

// troubleIn describes the problem of a container.
func troubleIn(container *corev1.ContainerStatus) string {
	last := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated)
	message := ""
	if last != nil {
		message = prefixed("; last message: ", lastLine(last.Message))
	}
	starts := []string{"", "ContainerCreating", "PodInitializing"}
	switch waiting := container.State.Waiting; {
	case waiting != nil && waiting.Reason == "CrashLoopBackOff":
		return "is in CrashLoopBackOff" + message
	case waiting != nil && !slices.Contains(starts, waiting.Reason):
		return "is in " + waiting.Reason + prefixed(": ", waiting.Message)
	case container.State.Terminated != nil && container.State.Terminated.ExitCode != 0:
		return fmt.Sprintf("ended with exit code %d", container.State.Terminated.ExitCode) + message
	case container.RestartCount > 0 && !container.Ready && message != "":
		return "is not ready" + message
	}
	return ""
}

// lastLine returns the last line of a container's termination message, without the program's name.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return strings.TrimPrefix(text, "weft: ")
}

// prefixed returns text with a prefix, or "" if text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// blame replaces the report's problem NoLeader by the culprit.
func (r *statusReport) blame(found culprit, namespace, address string) {
	for i := range r.Problems {
		p := &r.Problems[i]
		if p.Reason != health.ReasonNoLeader {
			continue
		}
		reason := cmp.Or(found.reason, p.Reason)
		*p = health.New(p.Area, p.State, reason, cmp.Or(found.object, p.Object), p.Message)
		p.NextStep = strings.ReplaceAll(cmp.Or(found.nextStep, p.NextStep), "-n weft-system", "-n "+namespace)
		if host, port, err := net.SplitHostPort(address); err == nil {
			p.NextStep = strings.NewReplacer("=ADDRESS", "="+host, "=PORT", "="+port).Replace(p.NextStep)
		}
	}
}

// apiServerAddress returns the API server's own address as it is published, or "" if the user may not read it.
func apiServerAddress(ctx context.Context, api client.Client) string {
	var published discoveryv1.EndpointSliceList
	of := client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}
	if err := api.List(ctx, &published, client.InNamespace(metav1.NamespaceDefault), of); err != nil {
		return ""
	}
	for _, slice := range published.Items {
		for _, port := range slice.Ports {
			if len(slice.Endpoints) > 0 && len(slice.Endpoints[0].Addresses) > 0 && port.Port != nil {
				return net.JoinHostPort(slice.Endpoints[0].Addresses[0], strconv.Itoa(int(*port.Port)))
			}
		}
	}
	return ""
}
