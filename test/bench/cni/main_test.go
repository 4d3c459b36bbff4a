//go:build e2e

package cni

import (
	"cmp"
	"os"
	"testing"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/testbed"
)

// node is the only node of the lab. Another node would only take CPU time from it.
const node = "n1"

func TestMain(m *testing.M) { os.Exit(testbed.Main(m, labName(), lab.UpOptions{Nodes: 1})) }

func labName() string { return cmp.Or(os.Getenv("WEFT_LAB"), "bench") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
