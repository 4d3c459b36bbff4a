package ovndb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// A process may end at any moment while it connects. The race detector reports when the client keeps writing into
// memory that was read already: libovsdb reads the answers to an echo and to a monitor even after the call was
// abandoned.
func TestConnectingEndsAtAnyMoment(t *testing.T) {
	server := ovndbtest.Start(t, "ovn-nb")
	r := run(t, server)
	for i := range 50 {
		r.settle(t, switchUnit(fmt.Sprintf("n%d", i), 100+i))
	}
	const moments, step = 300, 50 * time.Microsecond
	for i := range moments {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*step)
		conn := ovndb.NewConn(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{server.Endpoint()}, Log: logr.Discard()})
		if err := conn.Run(ctx); err != nil {
			t.Errorf("at moment %d: %v", i, err)
		}
		cancel()
	}
}
