//go:build e2e

package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/weft-network/weft/test/soak"
	soakbed "github.com/weft-network/weft/test/testbed"
)

// TestSoak runs a short soak; `make soak` makes 2,000 ADDs.
func TestSoak(t *testing.T) {
	b, err := soakbed.New(t.Context(), bed.Cluster, "soak")
	must(t, err)
	must(t, soak.Run(t.Context(), b, soak.Options{Node: "n1", ADDs: 80, Kills: 1, Workers: 6,
		Seed: uint64(time.Now().UnixNano()), Output: os.Stdout}))
}
