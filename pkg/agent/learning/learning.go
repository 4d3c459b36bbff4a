// Package learning lets packets pass from which OVN learns the backend of a client with session affinity.
//
//	ovn-controller ──flows that learn and drop──▶ br-int ──changes of flows──▶ Keeper ──flows that let pass──▶ br-int
//
// ovn-controller removes all flows of br-int when it starts, also Weft's. Its flows come and go with services. The Keeper
// learns of both from the switch and writes its flows for the tables that are there.
package learning

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/openflow"
)

// Retry is the time until Follow is to be called again after a failure.
const Retry = time.Second

// Keeper keeps the flows of one bridge. Create it with New.
type Keeper struct {
	runDir, bridge string
	log            logr.Logger
	lost           func()

	mu        sync.Mutex
	now       *openflow.Learners // nil: the Keeper follows nothing
	datapaths []uint64           // of now
}

// New returns a Keeper that follows nothing yet. runDir is ovs-vswitchd's run directory; if it is empty, Follow does nothing.
// The Keeper calls lost when it has no connection, so that the caller calls Follow after Retry. lost must not call the
// Keeper itself.
func New(runDir, bridge string, log logr.Logger, lost func()) *Keeper {
	return &Keeper{runDir: runDir, bridge: bridge, log: log, lost: lost}
}

// Follow keeps the flows of these logical datapaths until ctx ends or the connection to ovs-vswitchd does. It does nothing
// while the Keeper follows the same ones. Clients come through the node's own switch and gateway router. br-int has the
// flows of all nodes' switches.
func (k *Keeper) Follow(ctx context.Context, datapaths ...uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runDir == "" || k.now != nil && slices.Equal(k.datapaths, datapaths) {
		return
	}
	if k.now != nil {
		k.now.Close()
		k.now = nil
	}
	learners, err := openflow.DialLearners(ctx, k.runDir, k.bridge, datapaths...)
	if err != nil {
		k.fail(ctx, err)
		return
	}
	k.now, k.datapaths = learners, slices.Clone(datapaths)
	go func() {
		defer context.AfterFunc(ctx, func() { learners.Close() })()
		err := k.run(learners)
		learners.Close()
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.now == learners { // and not replaced by another call of Follow
			k.now = nil
			k.fail(ctx, err)
		}
	}()
}

func (k *Keeper) fail(ctx context.Context, err error) {
	if ctx.Err() == nil {
		k.log.Info("cannot follow the flows that learn the backends of clients; retrying", "bridge", k.bridge, "reason", err.Error())
		k.lost()
	}
}

// run writes the flows at each change until the connection ends.
func (k *Keeper) run(learners *openflow.Learners) error {
	bridge := openflow.New(k.runDir, k.bridge)
	var written map[openflow.Learner]bool
	for {
		tables, lost, err := learners.Receive()
		if err != nil {
			return err
		}
		if written != nil && !lost && maps.Equal(written, tables) {
			continue
		}
		if _, err := bridge.Apply(flows(tables)); err != nil {
			return fmt.Errorf("%s: %w", k.bridge, err)
		}
		written = tables
	}
}

// flows returns the flows for tables, in the order of the tables.
func flows(tables map[openflow.Learner]bool) (all []desired.Flow) {
	sorted := slices.SortedFunc(maps.Keys(tables), func(a, b openflow.Learner) int {
		return slices.Compare([]uint64{a.Datapath, uint64(a.Table)}, []uint64{b.Datapath, uint64(b.Table)})
	})
	for _, t := range sorted {
		all = append(all, desired.PassLearners(t.Datapath, t.Table)...)
	}
	return all
}
