//go:build e2e

package soak

import (
	"cmp"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/testbed"
)

var (
	adds  = flag.Int("n", 2000, "number of ADDs")
	kills = flag.Int("kills", 20, "kills of the agent during the ADDs")
	pods  = flag.Int("pods", 100, "pods through kubelet")
	seed  = flag.Uint64("seed", 0, "seed of all random choices; 0: from the clock")
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m, labName(), lab.UpOptions{Nodes: 1})) }

func labName() string { return cmp.Or(os.Getenv("WEFT_LAB"), "soak") }

func open(t *testing.T) *testbed.Bed {
	t.Helper()
	cluster, err := lab.Open(lab.Options{Name: labName()})
	must(t, err)
	bed, err := testbed.New(t.Context(), cluster, "soak")
	must(t, err)
	return bed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSoak(t *testing.T) {
	bed := open(t)
	o := Options{Node: "n1", ADDs: *adds, Pods: *pods, Kills: *kills, Workers: 8,
		Seed: cmp.Or(*seed, uint64(time.Now().UnixNano())), Output: os.Stdout}
	if err := Run(t.Context(), bed, o); err != nil {
		t.Error(err)
	}
}
