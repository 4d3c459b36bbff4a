package ovndb_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// With ovn-northd and no chassis, northd's answer is everybody's.
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
		t.Errorf("nobody answers, and it took %s: %v", took, err)
	}
}
