package ovndb_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// BenchmarkWait has as many waiters as a node has pods, each for its own row. One row changes at a time. evaluations/op is
// how often a waiter evaluated its condition.
func BenchmarkWait(b *testing.B) {
	for _, waiters := range []int{1, 32, 250} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) { benchmarkWait(b, waiters) })
	}
}

func benchmarkWait(b *testing.B, waiters int) {
	server := ovndbtest.Start(b, "vswitch")
	args := []string{"init", "--", "add-br", "br-int"}
	for i := range waiters {
		name := fmt.Sprintf("weft%d", i)
		args = append(args, "--", "add-port", "br-int", name, "--", "set", "Interface", name, "external_ids:iface-id=demo_web-"+name,
			"external_ids:sandbox="+strings.Repeat("c", 64), "external_ids:attached_mac=0a:58:0a:f4:01:05",
			"external_ids:ip_addresses=10.244.1.5")
	}
	server.Ctl(args...)
	connected := make(chan struct{}, 1)
	conn := ovndb.NewConn(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{server.Endpoint()}, Log: logr.Discard(),
		OnConnect: func(bool) {
			select {
			case connected <- struct{}{}:
			default:
			}
		}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = conn.Run(ctx) })
	<-connected
	var evaluations atomic.Int64
	for i := range waiters {
		row, ok := ovndb.Find(conn, &vswitchdb.Interface{Name: fmt.Sprintf("weft%d", i)})
		if !ok {
			b.Fatal("no row")
		}
		running.Go(func() {
			_ = conn.Wait(ctx, func() (bool, error) {
				found, ok := ovndb.Get[vswitchdb.Interface](conn, row.UUID)
				evaluations.Add(1)
				return ok && found.ExternalIDs["ovn-installed"] == "true", nil
			})
		})
	}
	b.ResetTimer()
	for i := range b.N {
		conn.Wake()
		for evaluations.Load() < int64(waiters*(i+1)) {
			time.Sleep(10 * time.Microsecond)
		}
	}
	b.ReportMetric(float64(evaluations.Load())/float64(b.N), "evaluations/op")
}
