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

// teller passes on what is told of the connection.
type teller chan bool

func (teller) Transaction(string, string, int, error) {}
func (t teller) Connected(_ string, up bool)          { t <- up }
func (teller) Drift(string, string, string)           {}

// Of a database that was never reached it is told that it is away: who starts on a node that is cut off would else be silent about it for ever.
func TestADatabaseThatWasNeverReachedIsToldToBeAway(t *testing.T) {
	told := make(teller, 10)
	conn := ovndb.NewConn(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{"unix:" + filepath.Join(t.TempDir(), "nobody")}, Observer: told, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(ctx) }()
	select {
	case up := <-told:
		if up {
			t.Error("it is told to be connected")
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing is told of it")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
