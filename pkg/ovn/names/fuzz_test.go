package names_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// A port's name leads back to its pod, and to no other.
func FuzzParsePodPort(f *testing.F) {
	for _, seed := range []string{"demo_web-0", "k8s-worker-1", "stor-worker-1", "_", "", "net_demo_web-0", "a_", "_b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, port string) {
		namespace, pod, ok := names.ParsePodPort(port)
		if ok != (strings.Count(port, "_") == 1) {
			t.Fatalf("%q is a pod's port: %t", port, ok)
		}
		if ok && names.PodPort(names.DefaultNetwork, namespace, pod) != port {
			t.Errorf("%q is read as %q %q", port, namespace, pod)
		}
		if !ok && (namespace != "" && pod != "") {
			t.Errorf("%q is no pod's port and is read as %q %q", port, namespace, pod)
		}
	})
}
