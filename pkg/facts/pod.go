package facts

import (
	corev1 "k8s.io/api/core/v1"
)

// WantsPort reports whether a pod needs an interface of its own: it is scheduled, does not use the host's network,
// and has not ended. A pod that is being deleted keeps its port until kubelet has stopped it.
func WantsPort(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName != "" && !pod.Spec.HostNetwork && !ended
}
