package operator

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestANodeThatIsInstalledAgain covers failure mode I10. A reinstalled node has another system-id, and all its ports
// request that chassis without help. The ports of other nodes do not change.
func TestANodeThatIsInstalledAgain(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	here, there := w.create("n1", "here")[0], w.create("n2", "there")[0]
	before := w.port(there)
	w.port(here)

	w.must(api.Status().Patch(t.Context(), w.nodeNetwork("n1"), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"chassis":"another-system-id"}}`))))
	w.until(func() error {
		port, err := w.findPort(here)
		if err == nil && port.Options["requested-chassis"] != "another-system-id" {
			err = fmt.Errorf("the pod's port requests chassis %q", port.Options["requested-chassis"])
		}
		return err
	})
	w.until(func() error {
		requested := w.nb.Ctl("--bare", "get", "Logical_Switch_Port", "k8s-n1", "options:requested-chassis")
		if requested != "another-system-id\n" {
			return fmt.Errorf("the management port requests chassis %q", requested)
		}
		return nil
	})
	if after := w.port(there); after.UUID != before.UUID || after.Options["requested-chassis"] != before.Options["requested-chassis"] {
		t.Errorf("the other node's port is %+v, was %+v", after, before)
	}
}
