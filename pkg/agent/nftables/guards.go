package nftables

import (
	"os"
	"strings"
	"sync"

	gnftables "github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"github.com/weft-network/weft/pkg/cni"
)

// Guards are the guards of pods' interfaces and moved links (cni.Guard). This process writes them when it attaches pods or moves
// links, so that its transactions are recognised by the name of the process.
type Guards struct {
	mu sync.Mutex
	watchState
}

// NewGuards returns the guards that this process writes.
func NewGuards() *Guards {
	name, _ := os.ReadFile("/proc/self/comm") // without the name, own transactions only cause comparisons
	return &Guards{watchState: watchState{process: strings.TrimSpace(string(name))}}
}

// Apply calls restore if another program may have changed a guard, and reports whether one was restored.
func (g *Guards) Apply(restore func() (changed bool, err error)) (changed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watched && !g.suspect {
		return false, nil
	}
	changed, err = restore()
	g.suspect = err != nil
	return changed, err
}

func (g *Guards) concerns(family gnftables.TableFamily, m netlink.Message) bool {
	return family == gnftables.TableFamilyNetdev && tableOf(m) == cni.GuardTable
}

func (g *Guards) state(f func(*watchState)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.watchState)
}
