package ovndb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// afterQuorum is how long the database may differ from the units after a cluster commits again.
const afterQuorum = 5 * time.Second

// faults returns how often the leader is lost in each way. `make check-raft` sets WEFT_RAFT_FAULTS.
func faults(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(setting("WEFT_RAFT_FAULTS", "5"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// churn applies states of ports, successively and concurrently, and records the last state of each.
type churn struct {
	engine *running
	stop   chan struct{}
	all    sync.WaitGroup

	mu      sync.Mutex
	last    map[unit.Key]unit.Unit
	applied int
	refused []error
}

// churners is how many units change at a time, and churned how many ports each has.
const (
	churners = 8
	churned  = 10
)

func newChurn(t *testing.T, e *running) *churn {
	t.Helper()
	c := &churn{engine: e, last: map[unit.Key]unit.Unit{}}
	for n := range churners {
		e.apply(t, switchUnit(fmt.Sprintf("n%d", n), 10+n))
	}
	e.apply(t, unit.Unit{Key: "set/a", Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: setRef().UUID, Name: "a"}}}})
	return c
}

// begin changes units until end.
func (c *churn) begin(seed int) {
	c.stop = make(chan struct{})
	for n := range churners {
		r := rand.New(rand.NewPCG(uint64(n), uint64(seed)))
		c.all.Go(func() { c.run(n, r) })
	}
}

func (c *churn) run(n int, r *rand.Rand) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		i := r.IntN(churned)
		u := portUnit(fmt.Sprintf("n%d", n), fmt.Sprintf("p%d-%d", n, i), fmt.Sprintf("uid%d", r.IntN(3)), 16+i)
		u.Members = append(u.Members, unit.Membership{Parent: setRef(), Column: "addresses", Element: fmt.Sprintf("10.0.%d.%d", n, i)})
		if r.IntN(3) == 0 {
			u = empty(u)
		}
		err := c.engine.try(u)
		c.mu.Lock()
		c.last[u.Key] = u
		c.applied++
		if err != nil && !ovndb.IsPending(err) {
			c.refused = append(c.refused, err)
		}
		c.mu.Unlock()
		if err != nil {
			c.engine.awaitConnected()
		}
	}
}

// awaitConnected waits as a reconciler's queue does: pending units are applied without a retry.
func (r *running) awaitConnected() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = r.Wait(ctx, func() (bool, error) { return r.Connected(), nil })
}

// end stops the churn and returns the database's refusals.
func (c *churn) end() []error {
	close(c.stop)
	c.all.Wait()
	return c.refused
}

// wantPorts lists what the churn applied last, in the format of portsOf.
func (c *churn) wantPorts() map[string]string {
	want := map[string]string{}
	for _, u := range c.last {
		for _, row := range u.Rows {
			p := row.Model.(*nbdb.LogicalSwitchPort)
			want[p.Name] = p.UUID + " " + p.Options["iface-id-ver"]
		}
	}
	return want
}

// portsOf reads the ports from the leader without any code of the engine. A duplicate name fails the test.
func portsOf(t *testing.T, c *ovndbtest.Cluster) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(c.Ctl("--format=csv", "--no-headings", "--columns=name,_uuid,options", "list",
		"Logical_Switch_Port")) {
		fields := strings.SplitN(strings.TrimSpace(line), ",", 3)
		if len(fields) != 3 {
			continue
		}
		if _, twice := found[fields[0]]; twice {
			t.Errorf("two ports have the name %s", fields[0])
		}
		_, version, _ := strings.Cut(fields[2], "iface-id-ver=")
		version, _, _ = strings.Cut(version, ",")
		found[fields[0]] = fields[1] + " " + strings.Trim(version, `"}`)
	}
	return found
}

// equals returns when the leader holds exactly the desired units, and the copy equals the leader's content.
func (c *churn) equals(t *testing.T, cluster *ovndbtest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		c.engine.awaitConnected()
		err := c.engine.try(unit.Unit{Key: "test/barrier"})
		if changes, driftErr := c.engine.Drift(ctx); err == nil && driftErr == nil && len(changes) == 0 && c.engine.Verify(ctx) == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the database does not become what the units want")
		}
	}
	have, want := portsOf(t, cluster), c.wantPorts()
	if have["foreign"] == "" {
		t.Error("a foreign port is gone")
	}
	delete(have, "foreign")
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the leader's ports differ (-wanted +there):\n%s", diff)
	}
}

// Leaders of a cluster are lost while units change continuously: by a transfer, which every snapshot causes, and by
// kill -9. After each, the database equals the units within 5 s of a quorum, without duplicates, and foreign rows
// stay.
func TestLeadersAreLostUnderChurn(t *testing.T) {
	for name, lose := range map[string]func(*ovndbtest.Member){
		"transferred": func(leader *ovndbtest.Member) { leader.Transfer() },
		"killed":      func(leader *ovndbtest.Member) { leader.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			cluster := ovndbtest.StartCluster(t, "ovn-nb", 3)
			cluster.Ctl("ls-add", "theirs", "--", "lsp-add", "theirs", "foreign", "--", "lsp-set-addresses", "foreign", "unknown")
			foreign := cluster.Ctl("list", "Logical_Switch_Port", "foreign")
			e := runWith(t, ovndb.Config{Endpoints: cluster.Endpoints(), Heartbeat: time.Second, Deadline: 3 * time.Second})
			c := newChurn(t, e)
			var slowest time.Duration
			for i := range faults(t) {
				c.begin(i)
				leader := cluster.Leader()
				e.churnedBy(t, c, 100)
				lose(leader)
				cluster.Leader()
				quorum := time.Now()
				e.churnedBy(t, c, 20) // it continues through the loss
				refused := c.end()
				c.equals(t, cluster)
				if took := time.Since(quorum); took > afterQuorum {
					t.Errorf("fault %d: the database was equal %s after the quorum, want %s", i, took, afterQuorum)
				} else {
					slowest = max(slowest, took)
				}
				for _, err := range refused {
					t.Fatalf("fault %d: %v", i, err)
				}
				if name == "killed" {
					leader.Run()
					leader.Await()
				}
			}
			if after := cluster.Ctl("list", "Logical_Switch_Port", "foreign"); after != foreign {
				t.Errorf("a foreign port was\n%s\nand is\n%s", foreign, after)
			}
			t.Logf(
				"%d leaders %s, %d units applied, %d connections; the database was equal at most %s after the "+
					"quorum, the rest of the churn included",
				faults(t), name, c.applied, e.counter.fenced(), slowest)
		})
	}
}

// churnedBy waits until the churn has applied n more units.
func (r *running) churnedBy(t *testing.T, c *churn, n int) {
	t.Helper()
	c.mu.Lock()
	want := c.applied + n
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := r.Wait(ctx, func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.applied >= want, nil
	})
	if err != nil {
		t.Fatalf("the churn has stopped: %v", err)
	}
}

// How long the southbound database lags behind a northbound one with a new leader depends on ovn-northd, which
// connects to leaders only and waits longer after each failure. The test logs the time and requires only that the
// database follows.
func TestSouthboundFollowsALostLeader(t *testing.T) {
	for name, lose := range map[string]func(*ovndbtest.Member){
		"transferred": func(leader *ovndbtest.Member) { leader.Transfer() },
		"killed":      func(leader *ovndbtest.Member) { leader.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := ovndbtest.StartCluster(t, "ovn-nb", 3)
			sb := ovndbtest.FollowCluster(t, cluster)
			e := runWith(t, ovndb.Config{Endpoints: cluster.Endpoints()})
			e.apply(t, switchUnit("n1", 10))
			cluster.Ctl("--wait=sb", "--timeout=20", "sync")
			lose(cluster.Leader())
			cluster.Leader()
			quorum := time.Now()
			e.fill(t)
			written := time.Since(quorum)
			cluster.Ctl("--wait=sb", "--timeout=60", "sync")
			t.Logf("leader %s: northbound written %s after the quorum, southbound %s", name,
				written.Round(time.Millisecond), time.Since(quorum).Round(time.Millisecond))
			if ports := strings.Fields(sb.Ctl("--bare", "--columns=logical_port", "list", "Port_Binding")); len(ports) != 3 {
				t.Errorf("ports in the southbound database are %v, want 3", ports)
			}
		})
	}
}
