package controllers

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating/placement"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/podcondition"
)

// StripPod keeps of a cached pod what the reconcilers read. At 10,000 pods the rest would be most of the operator's
// memory.
func StripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone
	}
	pod.ManagedFields = nil
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool {
		domain := domainOf(key)
		return !readDomains[domain] && !strings.HasSuffix(domain, ".weft.dev") // of package annotation
	})
	all, gated, kept := facts.WantsRandomHostPorts(pod), placement.IsGated(pod), pod.Spec
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork,
		DNSPolicy: pod.Spec.DNSPolicy, DNSConfig: pod.Spec.DNSConfig,
		InitContainers: withPorts(pod.Spec.InitContainers, all), Containers: withPorts(pod.Spec.Containers, all)}
	if gated { // package floatinggate reads where the pod can go
		pod.Spec.SchedulingGates, pod.Spec.NodeSelector = kept.SchedulingGates, kept.NodeSelector
		pod.Spec.Affinity, pod.Spec.Tolerations = kept.Affinity, kept.Tolerations
	}
	refused := podcondition.RefusedByExtender(pod)
	conditions := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return domainOf(string(c.Type)) != networkv1alpha1.GroupName && (c.Type != corev1.PodScheduled || !refused)
	})
	if len(conditions) == 0 {
		conditions = nil
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime, PodIPs: pod.Status.PodIPs,
		Conditions: slices.Clone(conditions)}
	if pod.Labels[networkv1alpha1.ComponentLabel] == networkv1alpha1.ComponentAgent {
		status.InitContainerStatuses, status.ContainerStatuses = statesOf(pod.Status.InitContainerStatuses),
			statesOf(pod.Status.ContainerStatuses)
	}
	pod.Status = status
	return pod, nil
}

// readDomains are the domains of the annotations that reconcilers read of pods. Annotations of other domains, such as
// kubectl's last applied configuration, can be larger than the rest of a pod.
var readDomains = map[string]bool{networkv1alpha1.GroupName: true, "weft.dev": true, "kubernetes.io": true,
	"k8s.v1.cni.cncf.io": true, "v1.multus-cni.io": true, "k8s.v1.cni.galaxy.io": true, "tkestack.io": true, "tke.cloud.tencent.com": true}

// domainOf returns the part of an annotation's key before the slash.
func domainOf(key string) string {
	domain, _, _ := strings.Cut(key, "/")
	return domain
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

// withPorts keeps of containers their host ports and named ports, or all ports, the restart policy that makes a sidecar,
// and a request of Galaxy's resource.
func withPorts(containers []corev1.Container, all bool) (kept []corev1.Container) {
	for i := range containers {
		ports := slices.DeleteFunc(slices.Clone(containers[i].Ports), func(p corev1.ContainerPort) bool {
			return !all && p.HostPort == 0 && p.Name == ""
		})
		addresses, requests := containers[i].Resources.Requests[networkv1alpha1.GalaxyResource]
		if len(ports) == 0 && !requests {
			continue
		}
		container := corev1.Container{Name: containers[i].Name, Ports: slices.Clip(ports), RestartPolicy: containers[i].RestartPolicy}
		if requests {
			container.Resources.Requests = corev1.ResourceList{networkv1alpha1.GalaxyResource: addresses}
		}
		kept = append(kept, container)
	}
	return kept
}
