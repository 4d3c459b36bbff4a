package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// StripPod keeps of a cached pod what the reconcilers read. At 10,000 pods the rest would be most of the operator's
// memory.
func StripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone
	}
	pod.ManagedFields = nil
	all := facts.WantsRandomHostPorts(pod)
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork,
		DNSPolicy: pod.Spec.DNSPolicy, DNSConfig: pod.Spec.DNSConfig,
		InitContainers: withPorts(pod.Spec.InitContainers, all), Containers: withPorts(pod.Spec.Containers, all)}
	conditions := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type != networkv1alpha1.PodPortReady && c.Type != networkv1alpha1.PodHostPortsReady &&
			c.Type != networkv1alpha1.PodNetworksAllocated
	})
	if len(conditions) == 0 {
		conditions = nil
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs, Conditions: slices.Clone(conditions)}
	if pod.Labels[networkv1alpha1.ComponentLabel] == networkv1alpha1.ComponentAgent {
		status.InitContainerStatuses, status.ContainerStatuses = statesOf(pod.Status.InitContainerStatuses),
			statesOf(pod.Status.ContainerStatuses)
	}
	pod.Status = status
	return pod, nil
}

// statesOf keeps the states of containers without their messages.
func statesOf(containers []corev1.ContainerStatus) (kept []corev1.ContainerStatus) {
	for _, c := range containers {
		state := corev1.ContainerStatus{Name: c.Name}
		if c.State.Running != nil {
			state.State.Running = &corev1.ContainerStateRunning{}
		}
		if c.State.Waiting != nil {
			state.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.State.Waiting.Reason}
		}
		kept = append(kept, state)
	}
	return kept
}

// withPorts keeps of containers their host ports and named ports, or all ports, and the restart policy that makes a
// sidecar.
func withPorts(containers []corev1.Container, all bool) (kept []corev1.Container) {
	for i := range containers {
		ports := slices.DeleteFunc(slices.Clone(containers[i].Ports), func(p corev1.ContainerPort) bool {
			return !all && p.HostPort == 0 && p.Name == ""
		})
		if len(ports) > 0 {
			kept = append(kept, corev1.Container{Name: containers[i].Name, Ports: slices.Clip(ports),
				RestartPolicy: containers[i].RestartPolicy})
		}
	}
	return kept
}
