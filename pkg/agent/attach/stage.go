package attach

import (
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// stage is a step of an ADD. The stages are in their usual order. Interface, binding and flows can be seen in another
// order, because two databases report them. Only pods with random host ports have the last stage.
type stage int

const (
	stageNode      stage = iota // the node can attach pods
	stageAddress                // the pod's port is in the southbound database, with its addresses
	stageLink                   // the veth is made
	stagePort                   // Port and Interface are in the Open_vSwitch database
	stageInterface              // the Interface has an OpenFlow port
	stageBinding                // the chassis has claimed the Port_Binding
	stageFlows                  // the Interface is marked ovn-installed
	stageHostPorts              // the pod's random host ports are in the southbound database
	stages                      // number of stages
)

// stageNames has each stage's name in metrics and messages, and the component that completes it.
var stageNames = [stages]struct{ name, owner string }{
	stageNode:      {"node", "weft-agent"},
	stageAddress:   {"address", "the operator and ovn-northd"},
	stageLink:      {"link", "weft-agent"},
	stagePort:      {"port", "the ovsdb-server of Open vSwitch"},
	stageInterface: {"interface", "ovs-vswitchd"},
	stageBinding:   {"binding", "ovn-controller"},
	stageFlows:     {"flows", "ovn-controller"},
	stageHostPorts: {"host-ports", "the operator and ovn-northd"},
}

// StageNames returns the names of all stages of an ADD, in their order.
func StageNames() []string {
	names := make([]string, stages)
	for s := range stages {
		names[s] = s.String()
	}
	return names
}

// String returns the stage's name in metrics, errors and events.
func (s stage) String() string { return stageNames[s].name }

// owner returns the component that completes the stage.
func (s stage) owner() string { return stageNames[s].owner }

// stageClock records when an ADD reaches each stage.
type stageClock struct {
	failpoint func(point string) // Options.Failpoint
	mu        sync.Mutex
	began     time.Time
	at        [stages]time.Time // zero: not reached
}

func newStageClock(failpoint func(point string)) *stageClock {
	return &stageClock{began: time.Now(), failpoint: failpoint}
}

// reached records a stage. Only the first call for a stage counts.
func (c *stageClock) reached(s stage) {
	c.mu.Lock()
	first := c.at[s].IsZero()
	if first {
		c.at[s] = time.Now()
	}
	c.mu.Unlock()
	if first {
		c.failpoint("ADD " + s.String())
	}
}

// missing returns the first stage that the ADD has not reached.
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

// times passes the duration of each reached stage to observe, counted from the stage before it. A stage that was reached
// out of order has duration 0.
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

// elapsed returns the duration of the ADD so far.
func (c *stageClock) elapsed() time.Duration { return time.Since(c.began) }

// stageClocks has the clocks of the ADDs that wait for their binding.
type stageClocks struct {
	mu     sync.Mutex
	byPort map[string]*stageClock // by logical port
}

func newStageClocks() *stageClocks { return &stageClocks{byPort: map[string]*stageClock{}} }

// watch passes changes of the port's binding to the clock until stop is called. The pod's turn ensures that a port has
// only one ADD.
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

// bound receives each binding that has changed.
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
