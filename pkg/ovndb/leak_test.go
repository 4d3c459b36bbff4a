package ovndb_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// A connection leaks nothing, because a database may be away for days.
func TestConnectionsLeaveNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("that were never made", func(t *testing.T) {
		failures := make(chan struct{}, 100)
		log := funcr.New(func(_, args string) {
			if strings.Contains(args, "database is not connected") {
				failures <- struct{}{}
			}
		}, funcr.Options{})
		stop := runConn(ovndb.Config{Schema: openvswitch.Schema(),
			Endpoints: []string{"unix:" + filepath.Join(t.TempDir(), "absent")}, Log: log})
		defer stop()
		for range 4 {
			<-failures
		}
	})
	t.Run("that were lost", func(t *testing.T) {
		server := ovndbtest.Start(t, "vswitch")
		up := make(chan bool, 100)
		stop := runConn(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{server.Endpoint()}, Log: logr.Discard(),
			OnConnect: func(now bool) { up <- now }})
		defer stop()
		for range 3 {
			for !receive(t, up) {
			}
			server.Kill()
			for receive(t, up) {
			}
			server.Run()
		}
	})
}

func receive(t *testing.T, up <-chan bool) bool {
	t.Helper()
	select {
	case now := <-up:
		return now
	case <-time.After(time.Minute):
		t.Fatal("the connection does not change")
		return false
	}
}

// runConn runs a connection; stop ends it and waits.
func runConn(cfg ovndb.Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ovndb.NewConn(cfg).Run(ctx) }()
	return func() { cancel(); <-done }
}
