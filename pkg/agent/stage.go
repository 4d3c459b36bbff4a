package agent

import (
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/sbdb"
)

// stage is a step of an ADD. They come in this order; the last three may be seen out of it, since two databases tell of them.
type stage int

const (
	stageNode      stage = iota // the node can attach pods
	stageAddress                // the pod's port is in the southbound database, with its addresses
	stageLink                   // the veth is made
	stagePort                   // Port and Interface are in the Open_vSwitch database
	stageInterface              // the Interface has an OpenFlow port
	stageBinding                // the chassis has claimed the Port_Binding
	stageFlows                  // the Interface is marked ovn-installed
	stages                      // how many there are
)

// Each stage's name in metrics and messages, and who brings it about.
var stageNames = [stages]struct{ name, owner string }{
	stageNode:      {"node", "weft-agent"},
	stageAddress:   {"address", "the operator and ovn-northd"},
	stageLink:      {"link", "weft-agent"},
	stagePort:      {"port", "the ovsdb-server of Open vSwitch"},
	stageInterface: {"interface", "ovs-vswitchd"},
	stageBinding:   {"binding", "ovn-controller"},
	stageFlows:     {"flows", "ovn-controller"},
}

// StageNames are the names of all stages of an ADD, in their order.
func StageNames() []string {
	names := make([]string, stages)
	for s := range stages {
		names[s] = s.String()
	}
	return names
}

// String is the stage's name in metrics, errors and events.
func (s stage) String() string { return stageNames[s].name }

// owner is who brings it about.
func (s stage) owner() string { return stageNames[s].owner }

// stageClock notes when each stage of one ADD came. It is no timer: it is told.
type stageClock struct {
	passed func(point string) // is told of each at once
	mu     sync.Mutex
	began  time.Time
	at     [stages]time.Time // zero: has not come
}

func newStageClock(passed func(point string)) *stageClock {
	return &stageClock{began: time.Now(), passed: passed}
}

// reached notes a stage; only its first time counts.
func (c *stageClock) reached(s stage) {
	c.mu.Lock()
	first := c.at[s].IsZero()
	if first {
		c.at[s] = time.Now()
	}
	c.mu.Unlock()
	if first {
		c.passed("ADD " + s.String())
	}
}

// missing is the first stage that has not come.
func (c *stageClock) missing() stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, at := range c.at {
		if at.IsZero() {
			return stage(s)
		}
	}
	return stageFlows
}

// times tells how long each stage that came took after the one before it, 0 for one that was seen out of order.
func (c *stageClock) times(observe func(s stage, took time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.began
	for s, at := range c.at {
		if at.IsZero() {
			continue
		}
		observe(stage(s), max(0, at.Sub(last)))
		if at.After(last) {
			last = at
		}
	}
}

// elapsed is how long the ADD has taken.
func (c *stageClock) elapsed() time.Duration { return time.Since(c.began) }

// stageClocks are those of the ADDs that wait for their binding.
type stageClocks struct {
	mu     sync.Mutex
	byPort map[string]*stageClock // logical port -> the clock of its ADD
}

func newStageClocks() *stageClocks { return &stageClocks{byPort: map[string]*stageClock{}} }

// watch has the clock told of its port's binding until stop. A pod's turn makes sure that there is one ADD of a port.
func (w *stageClocks) watch(port string, c *stageClock) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byPort[port] = c
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byPort, port)
	}
}

// bound is told of each binding that changed.
func (w *stageClocks) bound(binding *sbdb.PortBinding) {
	if binding.Chassis == nil {
		return
	}
	w.mu.Lock()
	c := w.byPort[binding.LogicalPort]
	w.mu.Unlock()
	if c != nil {
		c.reached(stageBinding)
	}
}
