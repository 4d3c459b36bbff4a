package facts

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// WantsPort reports whether a pod needs an interface of its own: it is scheduled, does not use the host's network,
// and has not ended. A pod that is being deleted keeps its port until kubelet has stopped it.
func WantsPort(pod *corev1.Pod) bool {
	return isOnNode(pod) && !pod.Spec.HostNetwork
}

// isOnNode reports whether a pod is scheduled and has not ended.
func isOnNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Containers iterates over the containers whose ports count: the sidecars (KEP-753) and the ordinary ones. Of other init containers, which
// end before the pod is ready, Kubernetes reserves no host port.
func Containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && !yield(c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
	}
}
