//go:build e2e

package cni

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/sandbox"
)

const (
	// memoryPods is the number of attached pods for which the agent's memory is checked.
	memoryPods = 100
	// maxRssAnon bounds the agent's own memory at that point, in KiB: 15 MB.
	maxRssAnon = 15_000_000 >> 10
	// settles is the time limit after the last ADD.
	settles = 30 * time.Second
)

// TestMemory measures an idle agent that has attached 100 pods since its start, one at a time. Then it makes all
// their DELs and ADDs at once.
func TestMemory(t *testing.T) {
	b := open(t)
	pods := b.park("memory", memoryPods)
	b.renewAgent()
	b.printMemory("with no pod attached")
	var dels []sandbox.Call
	for _, pod := range pods {
		add, del := b.call(weft(), pod)
		b.run(add)
		dels = append(dels, del)
	}
	err := poll.Slowly(t.Context(), settles, func() error {
		if have := b.memory("RssAnon"); have > maxRssAnon {
			return fmt.Errorf("the agent uses %d KiB of anonymous memory with %d pods, want at most %d", have, memoryPods, maxRssAnon)
		}
		return nil
	})
	b.printMemory(fmt.Sprintf("with %d pods", memoryPods))
	b.run(dels...)
	b.end(dels...)
	b.together(weft(), pods)
	b.printMemory("after all at once")
	must(t, err)
}

// renewAgent replaces the agent by a new process.
func (b *bench) renewAgent() {
	b.t.Helper()
	must(b.t, b.ReplaceAgent(b.t.Context(), b.agent))
	next, err := b.AwaitAgent(b.t.Context(), node, b.agent.PID)
	must(b.t, err)
	b.agent = next
}

func (b *bench) memory(field string) int {
	b.t.Helper()
	kib, err := b.Memory(b.t.Context(), b.agent, field)
	must(b.t, err)
	return kib
}

func (b *bench) printMemory(when string) {
	b.t.Helper()
	fmt.Printf("agent's memory %-22s RssAnon %.1f MB, RSS %.1f MB, peak RSS %.1f MB\n", when, mb(b.memory("RssAnon")),
		mb(b.memory("VmRSS")),
		mb(b.memory("VmHWM")))
}

// mb converts KiB to MB of a million bytes.
func mb(kib int) float64 { return float64(kib) * 1024 / 1e6 }
