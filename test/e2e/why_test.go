//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestWhyAPodWaits runs kubectl weft why for a pod that runs, a pod without a node, and a pod whose address is refused.
func TestWhyAPodWaits(t *testing.T) {
	w := newWeft(t)
	running := bed.peerPod("why-runs", "n1")
	bed.run(t, running)
	w.expect(0, "", []string{"why", namespace + "/" + running.Name}, "the pod has its network")
	unscheduled := bed.peerPod("why-unscheduled", "")
	unscheduled.Spec.NodeSelector = map[string]string{"no-such-label": "true"}
	bed.create(t, unscheduled)
	eventually(t, readyTimeout, func() error {
		out, errs, code := w.run("", "why", namespace+"/"+unscheduled.Name)
		if code != 1 || !strings.Contains(out, "waits for the scheduler (stage scheduling") {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
	full := bed.peerPod("why-address", "n1")
	full.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: "192.0.2.77"}
	bed.create(t, full)
	eventually(t, readyTimeout, func() error {
		if out, errs, code := w.run("", "why", namespace+"/"+full.Name); code != 1 || !strings.Contains(out, "(stage address on node n1") {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
	// kubelet otherwise keeps the pod until the runtime gives up its network
	bed.removeNow(t, full)
}
