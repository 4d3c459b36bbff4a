//go:build e2e

package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ports"
)

// TestServicePropagation checks the operator's metrics after a change of endpoints: the time until the change is in
// the database, and the time from there to the flows of every node. The operator measures at most once a minute.
func TestServicePropagation(t *testing.T) {
	const metric = "weft_service_propagation_seconds"
	changing := service("propagating", "propagating")
	server := labelled(bed.peerPod("propagating", "n1"), "propagating")
	bed.create(t, changing)
	bed.run(t, server)
	eventually(t, 90*time.Second, func() error {
		p, err := bed.pod(t.Context(), operator, "")
		if err != nil {
			return err
		}
		m, err := bed.scrape(t.Context(), p, ports.OperatorMetrics)
		if err != nil {
			return err
		}
		if m.sum(metric+"_count") > 0 && m.sum(metric+"_sum") > 0 && m.sum("weft_service_programming_seconds_count") > 0 {
			t.Logf("%v changes measured, mean %.0f ms", m.sum(metric+"_count"), 1000*m.sum(metric+"_sum")/m.sum(metric+"_count"))
			return nil
		}
		return errors.New("no propagation was measured")
	})
}
