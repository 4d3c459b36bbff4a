package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Preflight is the name of the pod in which the operator of a new version reports what it would change, before
// anything is replaced.
const Preflight = "weft-preflight"

// preflightSeconds limits the run time of the pod.
const preflightSeconds = 120

// PreflightPod derives the pod from the new operator's template: the same program, rights and remotes. It writes
// nothing, opens no port and runs once.
func PreflightPod(namespace string, operator Workload) *corev1.Pod {
	template := Template(operator).DeepCopy()
	labels := map[string]string{"app.kubernetes.io/name": "weft", "app.kubernetes.io/component": "preflight"} // not the Deployment's
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Preflight, Labels: labels, Annotations: template.Annotations},
		Spec:       template.Spec,
	}
	seconds := int64(preflightSeconds)
	pod.Spec.RestartPolicy, pod.Spec.ActiveDeadlineSeconds = corev1.RestartPolicyNever, &seconds
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Args = append([]string{"preflight"}, c.Args...)
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Ports = nil, nil, nil, nil
	}
	return pod
}
