package network

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// agentState is what kubelet says of an agent's pod.
type agentState struct {
	running bool
	failing string // kubelet's words why it does not run, once it has seen that for some time; empty: it starts
}

// starting are reasons of a container that waits for nothing but time.
var starting = []string{"", "ContainerCreating", "PodInitializing"}

// byAgent is the index of the pods of agents: there are many other pods.
const byAgent = "weft.dev/agent"

// isAgent reports whether a pod is an agent of this installation. A user's pod may have the label, and is in another namespace.
func isAgent(namespace string, pod *corev1.Pod) bool {
	return namespace != "" && pod.Namespace == namespace && pod.Labels[networkv1alpha1.ComponentLabel] == networkv1alpha1.ComponentAgent
}

func (r *Reconciler) indexAgent(object client.Object) []string {
	if pod, ok := object.(*corev1.Pod); ok && isAgent(r.Namespace, pod) {
		return []string{"true"}
	}
	return nil
}

// agents reads what kubelets say of the agents.
func (r *Reconciler) agents(ctx context.Context) (map[string]agentState, error) {
	if r.Namespace == "" {
		return nil, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingFields{byAgent: "true"}); err != nil {
		return nil, err
	}
	found := map[string]agentState{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if state := stateOf(pod); pod.Spec.NodeName != "" && !found[pod.Spec.NodeName].running { // an old one may end beside a new one
			found[pod.Spec.NodeName] = state
		}
	}
	return found, nil
}

// stateOf judges by containers. A container that ended once is started again at once, which is nobody's business; kubelet's back-off is.
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

// agentProblem says what is wrong with a node's agent.
func (f facts) agentProblem(node string) (networkv1alpha1.Problem, bool) {
	state, known := f.agents[node]
	switch {
	case len(f.agents) == 0 || state.running:
		return networkv1alpha1.Problem{}, false
	case state.failing != "":
		return health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded, networkv1alpha1.ReasonAgentUnavailable, "Node/"+node,
			fmt.Sprintf("the agent of node %s does not run: %s; existing pods keep their network", node, state.failing)), true
	case !known:
		return health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateProgressing, networkv1alpha1.ReasonAgentStarting, "Node/"+node,
			fmt.Sprintf("node %s has no agent's pod", node)), true
	}
	return health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateProgressing, networkv1alpha1.ReasonAgentStarting, "Node/"+node,
		fmt.Sprintf("the agent of node %s starts", node)), true
}

// agentsOnly lets the changes of an agent's pod pass that the status speaks of.
func (r *Reconciler) agentsOnly() predicate.Predicate {
	is := func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && isAgent(r.Namespace, pod)
	}
	all := predicate.NewPredicateFuncs(is)
	return predicate.Funcs{CreateFunc: all.Create, DeleteFunc: all.Delete, GenericFunc: all.Generic, UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Pod)
		after, ok2 := e.ObjectNew.(*corev1.Pod)
		return ok && ok2 && is(after) && (before.Spec.NodeName != after.Spec.NodeName || stateOf(before) != stateOf(after))
	}}
}
