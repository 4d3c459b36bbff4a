package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
)

// A pod as it was written for TKEStack Galaxy gets its address: the resource requests it, the release policy is
// Galaxy's, the ranges limit it, and Galaxy's network is the cluster network. Without a pool it is of IPPool galaxy.
func TestPodsWrittenForGalaxy(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 24))
	w.join("n1", "n2")
	w.pool(networkv1alpha1.GalaxyPool, networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.9")
	w.pool("shared", networkv1alpha1.LocationOverlay, "10.244.201.1")
	written := func(name string, annotations map[string]string) *corev1.Pod {
		p := pod(name, "n1")
		p.Annotations = annotations
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{networkv1alpha1.GalaxyResource: resource.MustParse("1")}
		p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
		return p
	}
	bare := written("bare", nil)
	w.run(bare)
	w.has(bare, "10.244.200.1")
	ranged := written("ranged", map[string]string{networks.Annotation: "galaxy-k8s-vlan", networkv1alpha1.GalaxyPolicyAnnotation: "never",
		networkv1alpha1.GalaxyArgsAnnotation: `{"request_ip_range":[["10.244.200.7~10.244.200.8"]]}`})
	w.run(ranged)
	w.has(ranged, "10.244.200.7")
	shared := written("shared", map[string]string{networkv1alpha1.GalaxyPoolAnnotation: "shared"})
	w.run(shared)
	w.has(shared, "10.244.201.1")

	// A contradiction is the pod's event, and the pod gets no port.
	both := written("both", map[string]string{networkv1alpha1.IPPoolAnnotation: "web", networkv1alpha1.GalaxyPoolAnnotation: "shared"})
	w.run(both)
	const want = `annotation network.weft.dev/ip-pool is "web", but annotation tke.cloud.tencent.com/eni-ip-pool is "shared"`
	if note := w.event(both.Name, "FailedAddressAllocation"); !strings.Contains(note, want) {
		t.Errorf("event %q, want %s", note, want)
	}

	w.delete(bare, ranged)
	w.holders(map[string]string{"10.244.200.7": "(Pod ranged)", "10.244.201.1": "shared"})
}
