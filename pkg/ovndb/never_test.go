package ovndb_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
)

// connectionStates passes on the reported connection state.
type connectionStates chan bool

func (connectionStates) Transaction(string, string, int, error) {}
func (t connectionStates) Connected(_ string, up bool)          { t <- up }
func (connectionStates) Drift(string, string, string)           {}

// A database that was never reached is reported as disconnected. Otherwise a process that starts on a node that is
// cut off would never report it.
func TestUnreachedDatabaseIsReportedDisconnected(t *testing.T) {
	states := make(connectionStates, 10)
	conn := ovndb.NewConn(ovndb.Config{Schema: northbound.Schema(),
		Endpoints: []string{"unix:" + filepath.Join(t.TempDir(), "nobody")}, Observer: states, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	select {
	case up := <-states:
		if up {
			t.Error("the database is reported connected")
		}
	case <-time.After(time.Minute):
		t.Error("nothing is reported")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
