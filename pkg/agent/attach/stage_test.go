package attach

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// Two databases report the stages, so that stages can be seen out of order. Their durations must still add up to the
// whole.
func TestStageTimesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStageClock(func(string) {})
		wait := func(s stage, ms int) {
			time.Sleep(time.Duration(ms) * time.Millisecond) // synctest's fake time
			c.reached(s)
		}
		wait(stageNode, 1)
		wait(stageAddress, 20)
		wait(stageAddress, 5) // a second time does not count
		wait(stageLink, 3)
		wait(stagePort, 2)
		if c.missing() != stageInterface {
			t.Errorf("missing is %s", c.missing())
		}
		wait(stageInterface, 4)
		wait(stageFlows, 10)
		if c.missing() != stageBinding {
			t.Errorf("missing is %s", c.missing())
		}
		wait(stageBinding, 1)
		var names []string
		var took []time.Duration
		c.times(func(s stage, d time.Duration) {
			names = append(names, s.String())
			took = append(took, d/time.Millisecond)
		})
		if want := []string{"node", "address", "link", "port", "interface", "binding", "flows"}; !slices.Equal(names, want) {
			t.Errorf("stages are %v", names)
		}
		if want := []time.Duration{1, 20, 8, 2, 4, 11, 0}; !slices.Equal(took, want) {
			t.Errorf("they took %v ms, want %v", took, want)
		}
	})
}

func TestAClockGetsOnlyItsPortsBinding(t *testing.T) {
	clocks, c := newStageClocks(), newStageClock(func(string) {})
	stop := clocks.watch("demo_web", c)
	chassis := "uuid"
	reached := func() bool { return !c.at[stageBinding].IsZero() }
	clocks.bound(&sbdb.PortBinding{LogicalPort: "demo_other", Chassis: &chassis})
	clocks.bound(&sbdb.PortBinding{LogicalPort: "demo_web"})
	if reached() {
		t.Error("the binding was recorded without a chassis of this port")
	}
	clocks.bound(&sbdb.PortBinding{LogicalPort: "demo_web", Chassis: &chassis})
	if !reached() {
		t.Error("the binding was not recorded")
	}
	stop()
	if len(clocks.byPort) != 0 {
		t.Errorf("clocks left: %v", clocks.byPort)
	}
}

func TestEveryStageHasAnOwner(t *testing.T) {
	for s := range stages {
		if s.String() == "" || s.owner() == "" {
			t.Errorf("stage %d is %q of %q", s, s, s.owner())
		}
	}
}
