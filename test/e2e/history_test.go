//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/process/admin"
)

// TestHistoryNamesForeignHands changes a pod's port behind Weft's back. kubectl weft history shows the pod's port, the
// foreign change, and its repair, in this order.
func TestHistoryNamesForeignHands(t *testing.T) {
	w := newWeft(t)
	pod := bed.peerPod("history", "n1")
	bed.run(t, pod)
	object := "pod/" + namespace + "/" + pod.Name
	w.expect(0, "", []string{"history", object}, "Weft: "+object+" (reconciler pod)", "+ Logical_Switch_Port "+portOf(pod), "Recorded since")
	bed.mustExec(t, bed.central, "ovn-nbctl", "--timeout=10", "clear", "Logical_Switch_Port", portOf(pod), "port_security")
	eventually(t, convergence, func() error {
		out, errs, code := w.run("", "history", object)
		at := 0
		for _, text := range []string{"+ Logical_Switch_Port", "another program; Weft reverts it", "-> (nothing)",
			"Weft: " + object + " (reconciler pod), a repair", "(nothing) -> "} {
			next := strings.Index(out[at:], text)
			if code != 0 || next < 0 {
				return fmt.Errorf("exit code %d, %q is not in its place:\n%s%s", code, text, out, errs)
			}
			at += next
		}
		return nil
	})
	w.expect(2, "", []string{"history", "ingress/demo/web"}, `"ingress/demo/web" has no rows of Weft`)
	w.expect(2, "", []string{"history", "--limit=0"}, fmt.Sprintf("want 1 to %d", admin.MaxLimit))
}
