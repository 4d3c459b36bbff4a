package ovndb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

// Redirect moves a connection to another server, unless its server remains in the list.
func TestRedirect(t *testing.T) {
	servers := map[string]*ovndbtest.Server{}
	for _, name := range []string{"a", "b"} {
		servers[name] = ovndbtest.Start(t, "ovn-nb")
		servers[name].Ctl("ls-add", name)
	}
	a, b := servers["a"].Endpoint(), servers["b"].Endpoint()
	downs := make(chan bool, 100)
	conn := ovndb.NewConn(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{a}, Log: logr.Discard(),
		OnConnect: func(up bool) { downs <- up }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- conn.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	at := func(name string) {
		t.Helper()
		poll.Eventually(t, 20*time.Second, func() error {
			found := ovndb.List(conn, func(s *nbdb.LogicalSwitch) bool { return s.Name == name })
			if !conn.Connected() || len(found) != 1 {
				return fmt.Errorf("connected %t to the server with %v, want %s", conn.Connected(), found, name)
			}
			return nil
		})
	}
	at("a")
	if up := <-downs; !up {
		t.Fatal("the first event is a disconnection")
	}
	conn.Redirect([]string{b, a})
	conn.Redirect([]string{a, b})
	servers["a"].Ctl("ls-add", "later")
	at("later")
	if len(downs) > 0 {
		t.Error("a list with the present server changed the connection")
	}
	conn.Redirect([]string{b})
	at("b")
	conn.Redirect([]string{"unix:/nonexistent", a})
	at("a")
	servers["a"].Kill()
	conn.Redirect([]string{b})
	at("b")
}
