package clusternetwork

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// agentState is the state of an agent's pod as kubelet reports it.
type agentState struct {
	running bool
	failing string // kubelet's reason why it does not run, once that has lasted; empty while it starts
}

// starting lists the reasons of a container that only needs time.
var starting = []string{"", "ContainerCreating", "PodInitializing"}

// byAgent is the index of the agents' pods, so that other pods need not be scanned.
const byAgent = "weft.dev/agent"

// isAgent reports whether a pod is an agent of this installation. A user's pod may have the label in another
// namespace.
func isAgent(namespace string, pod *corev1.Pod) bool {
	return namespace != "" && pod.Namespace == namespace && pod.Labels[networkv1alpha1.ComponentLabel] == networkv1alpha1.ComponentAgent
}

func (r *Reconciler) indexAgent(object client.Object) []string {
	if pod, ok := object.(*corev1.Pod); ok && isAgent(r.Settings.Namespace, pod) {
		return []string{"true"}
	}
	return nil
}

// agents reads the states of the agents' pods.
func (r *Reconciler) agents(ctx context.Context) (map[string]agentState, error) {
	if r.Settings.Namespace == "" {
		return nil, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Settings.Namespace), client.MatchingFields{byAgent: "true"}); err != nil {
		return nil, err
	}
	found := map[string]agentState{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		// an old pod may be ending beside a new one
		if state := stateOf(pod); pod.Spec.NodeName != "" && !found[pod.Spec.NodeName].running {
			found[pod.Spec.NodeName] = state
		}
	}
	return found, nil
}

// stateOf evaluates the containers. A container that ended once is restarted at once and does not count. Kubelet's
// back-off counts.
func stateOf(pod *corev1.Pod) agentState {
	state := agentState{running: len(pod.Status.ContainerStatuses) > 0}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil && !slices.Contains(starting, c.State.Waiting.Reason) {
			state.failing = fmt.Sprintf("container %s: %s", c.Name, c.State.Waiting.Reason)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		state.running = state.running && c.State.Running != nil
	}
	return state
}

// agentProblem returns the problem of a node's agent, if any.
func (f statusInput) agentProblem(node string) (networkv1alpha1.Problem, bool) {
	state, known := f.agents[node]
	switch {
	case len(f.agents) == 0 || state.running:
		return networkv1alpha1.Problem{}, false
	case state.failing != "":
		return health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded, networkv1alpha1.ReasonAgentUnavailable, "Node/"+node,
			fmt.Sprintf("the agent of node %s does not run: %s; existing pods keep their network", node, state.failing)), true
	case !known:
		return health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateProgressing, networkv1alpha1.ReasonAgentStarting, "Node/"+node,
			fmt.Sprintf("node %s has no agent pod", node)), true
	}
	return health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateProgressing, networkv1alpha1.ReasonAgentStarting, "Node/"+node,
		fmt.Sprintf("the agent of node %s is starting", node)), true
}

// agentsOnly passes changes of an agent's pod that affect the status.
func (r *Reconciler) agentsOnly() predicate.Predicate {
	is := func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && isAgent(r.Settings.Namespace, pod)
	}
	all := predicate.NewPredicateFuncs(is)
	return predicate.Funcs{CreateFunc: all.Create, DeleteFunc: all.Delete, GenericFunc: all.Generic,
		UpdateFunc: trigger.Update(func(before, after *corev1.Pod) bool {
			return is(after) && (before.Spec.NodeName != after.Spec.NodeName || stateOf(before) != stateOf(after))
		})}
}
