package ovndb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// randomUnit returns one of a few units in one of a few states, so that they collide: switches, ports that move
// between them and change their UID, and addresses that several units add to one set.
func randomUnit(r *rand.Rand) unit.Unit {
	switch r.IntN(5) {
	case 4:
		return groupUnit(r)
	case 0:
		n := r.IntN(3)
		u := switchUnit(fmt.Sprintf("n%d", n), 10+n)
		if r.IntN(4) == 0 {
			return empty(u)
		}
		return u
	case 1:
		return setUnit(r)
	default:
		n := r.IntN(6)
		u := portUnit(fmt.Sprintf("n%d", r.IntN(3)), fmt.Sprintf("p%d", n), fmt.Sprintf("uid%d", r.IntN(2)), 16+n)
		for range r.IntN(3) {
			u.Members = append(u.Members, unit.Membership{Parent: setRef(), Column: "addresses",
				Element: fmt.Sprintf("10.0.0.%d", r.IntN(4))})
		}
		if r.IntN(2) == 0 {
			u.Members = append(u.Members, inGroup(u))
		}
		if r.IntN(4) == 0 {
			return empty(u)
		}
		return u
	}
}

// groupUnit is a group that contains the ports while it exists.
func groupUnit(r *rand.Rand) unit.Unit {
	u := unit.Unit{Key: "group/g", Rows: []unit.Row{{Model: &nbdb.PortGroup{UUID: groupRef().UUID, Name: "g"}}}}
	if r.IntN(3) == 0 {
		return unit.Unit{Key: u.Key}
	}
	return u
}

func groupRef() unit.Ref {
	return unit.Ref{Table: nbdb.PortGroupTable, UUID: unit.UUID(nbdb.PortGroupTable, "g")}
}

// inGroup is the optional membership of a port's unit in the group.
func inGroup(port unit.Unit) unit.Membership {
	return unit.Membership{Parent: groupRef(), Column: "ports", Element: port.Members[0].Element, Optional: true}
}

func setRef() unit.Ref {
	return unit.Ref{Table: nbdb.AddressSetTable, UUID: unit.UUID(nbdb.AddressSetTable, "set")}
}

func setUnit(r *rand.Rand) unit.Unit {
	u := unit.Unit{Key: "set/a", Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: setRef().UUID, Name: "a"}}}}
	if r.IntN(4) == 0 {
		return unit.Unit{Key: u.Key}
	}
	return u
}

// vandalise changes the database behind the engine's back.
func vandalise(r *rand.Rand, nb *ovndbtest.Server) {
	switch r.IntN(5) {
	case 4:
		nb.Ctl("--if-exists", "destroy", "Port_Group", "g")
	case 0:
		nb.Ctl("--if-exists", "lsp-del", fmt.Sprintf("p%d", r.IntN(6)))
	case 1:
		nb.Ctl("--if-exists", "ls-del", fmt.Sprintf("n%d", r.IntN(3)))
	case 2:
		nb.Ctl("--if-exists", "destroy", "Address_Set", "a")
	case 3:
		nb.Ctl("--if-exists", "set", "Logical_Switch_Port", fmt.Sprintf("p%d", r.IntN(6)), "options:iface-id-ver=forged")
	}
}

func dump(nb *ovndbtest.Server) string {
	var text strings.Builder
	for _, table := range []string{"Logical_Switch", "Logical_Switch_Port", "Address_Set", "Port_Group"} {
		rows := strings.Split(nb.Ctl("--format=csv", "--no-headings", "list", table), "\n")
		slices.Sort(rows)
		text.WriteString(table + strings.Join(rows, "\n") + "\n")
	}
	return text.String()
}

// start runs an engine that logs nothing, because it loses its connection all the time.
func start(t *testing.T, endpoint string) *ovndb.Engine {
	t.Helper()
	e := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{endpoint}, Log: logr.Discard()}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return e
}

func connected(t *testing.T, e *ovndb.Engine) {
	t.Helper()
	ovndbtest.Await(t, e, "the connection", e.Connected)
}

// settled applies the last state of every unit until none waits for the connection.
func settled(t *testing.T, e *ovndb.Engine, last map[unit.Key]unit.Unit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for again := true; again; {
		connected(t, e)
		again = false
		for _, u := range last {
			if err := e.Apply(ctx, u); ovndb.IsPending(err) && strings.Contains(err.Error(), "connect") {
				again = true
			} else if err != nil && !ovndb.IsPending(err) {
				t.Fatal(err)
			}
		}
	}
}

// After any history of lost requests, lost replies, killed and emptied servers and foreign changes, the database ends
// as if only the last state of each unit had ever been applied.
func TestAnyHistoryEndsInTheDesiredState(t *testing.T) {
	// With seeds 12 to 35 an engine once lost the reply to its take-over of the epoch and mistook itself for another
	// process.
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 12, 27, 29, 35} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			nb := ovndbtest.Start(t, "ovn-nb")
			proxy := ovndbtest.StartProxy(t, nb, 10, seed)
			e := start(t, proxy.Endpoint())
			last := map[unit.Key]unit.Unit{}
			for range 150 {
				switch n := r.IntN(100); {
				case n == 0:
					// Not while it connects, because libovsdb's connect and its disconnect handler race for a
					// WaitGroup.
					connected(t, e)
					nb.Kill()
					if r.IntN(2) == 0 {
						nb.Empty()
					}
					nb.Run()
				case n < 6:
					vandalise(r, nb)
				default:
					u := randomUnit(r)
					last[u.Key] = u
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					err := e.Apply(ctx, u)
					cancel()
					if err != nil && !ovndb.IsPending(err) {
						t.Fatal(err)
					}
				}
			}
			settled(t, e, last)
			got := dump(nb)

			clean := ovndbtest.Start(t, "ovn-nb")
			settled(t, start(t, clean.Endpoint()), last)
			settled(t, start(t, clean.Endpoint()), last)
			if diff := cmp.Diff(dump(clean), got); diff != "" {
				t.Errorf("after %d lost transactions the database differs (-clean +history):\n%s", proxy.Cut(), diff)
			}
		})
	}
}

// The engine never reports its own writes as foreign changes, even with lost requests, lost replies and killed
// servers.
func TestOwnWorkIsNoDrift(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			nb := ovndbtest.Start(t, "ovn-nb")
			e := start(t, ovndbtest.StartProxy(t, nb, 10, seed).Endpoint())
			last := map[unit.Key]unit.Unit{}
			for i := range 200 {
				if i%70 == 50 {
					connected(t, e)
					nb.Kill()
					nb.Run()
				}
				u := randomUnit(r)
				last[u.Key] = u
				if err := e.Apply(t.Context(), u); err != nil && !ovndb.IsPending(err) {
					t.Fatal(err)
				}
			}
			settled(t, e, last)
			if got := e.Drifts(); got.Total != 0 {
				t.Errorf("reported as drift: %+v", got)
			}
		})
	}
}
