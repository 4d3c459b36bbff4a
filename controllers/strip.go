package controllers

import (
	corev1 "k8s.io/api/core/v1"
)

// StripPod leaves of a cached pod what the reconcilers read: at 10,000 pods the rest is most of the operator's memory.
func StripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs}
	return pod, nil
}
