package ovndb_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// With ovn-northd and no chassis, northd's acknowledgement is enough.
func TestPropagation(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Deadline: 3 * time.Second})
	for range 3 {
		took, err := e.Propagation(t.Context())
		if err != nil || took <= 0 {
			t.Errorf("took %s: %v", took, err)
		}
	}
	central.Northd("pause")
	if took, err := e.Propagation(t.Context()); !errors.Is(err, ovndb.ErrNotCopied) {
		t.Errorf("no chassis exists, and it took %s: %v", took, err)
	}
}

// A chassis that acknowledges later than a call's deadline is measured all the same, because it is the overloaded
// one.
func TestPropagationToASlowChassis(t *testing.T) {
	const slow = 4 * time.Second
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Deadline: 2 * time.Second})
	central.SB.Ctl("create", "Chassis_Private", "name=slow", "nb_cfg=0")
	answer := time.AfterFunc(slow, func() { central.SB.Ctl("set", "Chassis_Private", "slow", "nb_cfg=1") })
	defer answer.Stop()
	if took, err := e.Propagation(t.Context()); err != nil || took < slow {
		t.Errorf("a chassis answers after %s, and it took %s: %v", slow, took, err)
	}
}

// If another measurement begins meanwhile, only its number is acknowledged. Ours never is.
func TestPropagationDuringAnotherMeasurement(t *testing.T) {
	central := ovndbtest.StartCentral(t)
	e := runWith(t, ovndb.Config{Endpoints: []string{central.NB.Endpoint()}, Deadline: 2 * time.Second})
	central.SB.Ctl("create", "Chassis_Private", "name=slow", "nb_cfg=0")
	other := time.AfterFunc(time.Second/2, func() { central.NB.Ctl("--wait=sb", "sync") })
	defer other.Stop()
	if took, err := e.Propagation(t.Context()); !errors.Is(err, ovndb.ErrNotAll) || took > 10*time.Second {
		t.Errorf("another measurement began, and it took %s: %v", took, err)
	}
}
