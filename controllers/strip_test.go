package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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
