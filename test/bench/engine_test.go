// Package bench measures; `make bench` runs it. No test fails for being slow: figures are ratios within one run,
// because machines differ.
package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	nodes = 500
	pods  = 10000
	// together is the number of pods that the pod controller reconciles at once.
	together = 32
)

// counter counts write transactions.
type counter struct {
	mu     sync.Mutex
	writes int
}

func (c *counter) Transaction(_, kind string, _ int, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "write" {
		c.writes++
	}
}

func (c *counter) Connected(string, bool) {}

func (c *counter) Drift(string, string, string) {}

func (c *counter) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.writes
	c.writes = 0
	return n
}

func nodeUnit(i int) unit.Unit {
	subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + i/256), byte(i % 256), 0}), 24)
	return topology.NodeUnit(facts.Node{Name: fmt.Sprintf("n%d", i), ID: i + 1, Subnets: []netip.Prefix{subnet},
		ManagementMAC: ipam.MAC([]netip.Addr{ipam.Management(subnet)}), Chassis: fmt.Sprintf("n%d", i)})
}

func podUnit(i int) unit.Unit {
	node, host := i%nodes, 3+i/nodes
	address := netip.AddrFrom4([4]byte{10, byte(128 + node/256), byte(node % 256), byte(host)})
	return topology.PodUnit(topology.Pod{Namespace: "bench", Name: fmt.Sprintf("p%d", i), UID: fmt.Sprintf("uid-%d", i),
		Node: fmt.Sprintf("n%d", node), Chassis: fmt.Sprintf("n%d", node), Addresses: []netip.Addr{address},
		MAC: net.HardwareAddr{0x0a, 0x58, 10, 0, 0, 1}, Slot: 16 + i/nodes})
}

func start(b testing.TB, nb *ovndbtest.Server, c *counter) *ovndb.Engine {
	b.Helper()
	e := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{nb.Endpoint()}, Observer: c,
		Log: logr.Discard(), Writer: "weft bench", History: &history.Recorder{}}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	ovndbtest.Await(b, e, "the connection", e.Connected)
	return e
}

// apply applies n units as the controllers would, together at a time.
func apply(b testing.TB, e *ovndb.Engine, n int, unitOf func(int) unit.Unit) {
	b.Helper()
	var all sync.WaitGroup
	next := numbers(n)
	for range together {
		all.Go(func() {
			for i := range next {
				if err := e.Apply(context.Background(), unitOf(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func numbers(n int) <-chan int {
	all := make(chan int, n)
	for i := range n {
		all <- i
	}
	close(all)
	return all
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkStorm writes 10,000 pods on 500 nodes to an empty database. Then it applies all of them again, as a
// reconciler's resync does, and to a new process, as a restart does.
func BenchmarkStorm(b *testing.B) {
	for range b.N {
		nb := ovndbtest.Start(b, "ovn-nb")
		c := &counter{}
		e := start(b, nb, c)
		apply(b, e, 1, func(int) unit.Unit {
			return topology.NetworkUnit(facts.Network{Join: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}})
		})
		apply(b, e, nodes, nodeUnit)
		c.take()
		first := phase(b, "write", c, func() { apply(b, e, pods, podUnit) })
		again := phase(b, "again", c, func() { apply(b, e, pods, podUnit) })
		var second *ovndb.Engine
		restart := phase(b, "restart", c, func() {
			second = start(b, nb, c)
			apply(b, second, nodes, nodeUnit)
			apply(b, second, pods, podUnit)
		})
		b.ReportMetric(again.Seconds()/first.Seconds(), "again/write")
		b.ReportMetric(restart.Seconds()/first.Seconds(), "restart/write")
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc)/2/pods, "heap-B/pod")
	}
}

// phase runs one phase, reports its transactions and CPU time per pod, and returns its CPU time.
func phase(b *testing.B, name string, c *counter, run func()) time.Duration {
	before, began := cpu(), time.Now()
	run()
	used := cpu() - before
	b.ReportMetric(float64(c.take()), name+"-txns")
	b.ReportMetric(float64(used.Microseconds())/pods, name+"-cpu-us/pod")
	b.ReportMetric(time.Since(began).Seconds(), name+"-s")
	return used
}
