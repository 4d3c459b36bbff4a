//go:build e2e

package cni

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-network/weft/test/sandbox"
	"github.com/weft-network/weft/test/testbed"
)

const (
	// memoryPods is with how many attached pods the agent's memory counts.
	memoryPods = 100
	// maxRssAnon is what the agent may have for itself then, in KiB.
	maxRssAnon = 15 << 10
	// settles is how soon after the last ADD.
	settles = 30 * time.Second
)

// TestMemory looks at the agent when it has attached 100 pods and has nothing to do.
func TestMemory(t *testing.T) {
	b := open(t)
	pods := b.park("memory", memoryPods)
	b.printMemory("with no pod attached")
	var dels []sandbox.Call
	for _, pod := range pods {
		add, del := b.call(weft(), pod)
		b.run(add)
		dels = append(dels, del)
	}
	b.printMemory("at the last ADD's end")
	err := testbed.Poll(t.Context(), settles, func() error {
		if have := b.memory("RssAnon"); have > maxRssAnon {
			return fmt.Errorf("the agent has %d KiB of its own with %d pods, want at most %d", have, memoryPods, maxRssAnon)
		}
		return nil
	})
	b.printMemory(fmt.Sprintf("with %d pods", memoryPods))
	b.run(dels...)
	b.end(dels...)
	must(t, err)
}

func (b *bench) memory(field string) int {
	b.t.Helper()
	kib, err := b.Memory(b.t.Context(), b.agent, field)
	must(b.t, err)
	return kib
}

func (b *bench) printMemory(when string) {
	b.t.Helper()
	fmt.Printf("agent's memory %-24s RssAnon %.1f MiB, RSS %.1f MiB, peak RSS %.1f MiB\n", when,
		mib(b.memory("RssAnon")), mib(b.memory("VmRSS")), mib(b.memory("VmHWM")))
}

func mib(kib int) float64 { return float64(kib) / 1024 }
