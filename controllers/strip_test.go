package controllers

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
)

// The cache keeps the ports that reconcilers read: of a pod that requests random host ports all, of others those with a
// name or a host port.
func TestStripPodKeepsPorts(t *testing.T) {
	for request, want := range map[string][]int32{"": {80, 443}, networkv1alpha1.RandomHostPortsAnnotation: {80, 443, 53},
		networkv1alpha1.GalaxyPortMappingAnnotation: {80, 443, 53}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{request: "true"}}}
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
			{ContainerPort: 80, Name: "http"}, {ContainerPort: 443, HostPort: 8443}, {ContainerPort: 53, Protocol: "UDP"}}}}
		if _, err := StripPod(pod); err != nil {
			t.Fatal(err)
		}
		var got []int32
		for _, port := range pod.Spec.Containers[0].Ports {
			got = append(got, port.ContainerPort)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: ports %d, want %d", request, got, want)
		}
	}
}

// The cache keeps the annotations of every domain that a reconciler reads, and no others.
func TestStripPodKeepsAnnotationsThatAreRead(t *testing.T) {
	read := []string{networkv1alpha1.RequestedIPsAnnotation, networkv1alpha1.RequestedMACAnnotation, networkv1alpha1.PodNetworksAnnotation,
		networkv1alpha1.PodRecordAnnotation, networkv1alpha1.RandomHostPortsAnnotation, networkv1alpha1.HostPortsAnnotation,
		networkv1alpha1.FloatingIPsAnnotation, networkv1alpha1.ACLLoggingAnnotation, networkv1alpha1.IngressBandwidthAnnotation,
		networkv1alpha1.EgressBandwidthAnnotation, networkv1alpha1.GalaxyPortMappingAnnotation, networkv1alpha1.GalaxyPoolAnnotation,
		networkv1alpha1.GalaxyPolicyAnnotation, networkv1alpha1.GalaxyArgsAnnotation, networks.Annotation, networks.DefaultAnnotation,
		corev1.MirrorPodAnnotationKey, "kubernetes.io/config.hash"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: "large", "checksum/config": "1", "plain": "2"}}}
	for _, key := range read {
		pod.Annotations[key] = "x"
	}
	if _, err := StripPod(pod); err != nil {
		t.Fatal(err)
	}
	slices.Sort(read)
	if got := slices.Sorted(maps.Keys(pod.Annotations)); !slices.Equal(got, read) {
		t.Errorf("annotations %q, want %q", got, read)
	}
}

// The cache keeps every condition that Weft writes, so that the status can name the pod.
func TestStripPodKeepsConditionsOfWeft(t *testing.T) {
	weft := []corev1.PodConditionType{networkv1alpha1.PodPortReady, networkv1alpha1.PodHostPortsReady, networkv1alpha1.PodNetworksAllocated,
		networkv1alpha1.PodNetworksAttached, networkv1alpha1.PodFloatingIP, networkv1alpha1.PodRequestsGranted}
	pod := &corev1.Pod{}
	for _, kind := range append([]corev1.PodConditionType{corev1.PodReady, "example.com/gate"}, weft...) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind})
	}
	if _, err := StripPod(pod); err != nil {
		t.Fatal(err)
	}
	var got []corev1.PodConditionType
	for _, c := range pod.Status.Conditions {
		got = append(got, c.Type)
	}
	if !slices.Equal(got, weft) {
		t.Errorf("conditions %q, want %q", got, weft)
	}
}
