//go:build e2e

package central

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/bench/probe"
)

// fleet is one ovn-controller for each node, without flows: each has the whole copy, and reconnects at once when its
// server is lost, to the next of its two servers.
type fleet struct {
	w       *world
	servers []*ovndbtest.Server // where the fleet is connected: the source, or relays
	monitor probe.Monitor
	members []*member
	stop    context.CancelFunc
	all     sync.WaitGroup
}

type member struct {
	agent    atomic.Pointer[probe.Agent]
	copies   atomic.Int64
	attempts atomic.Int64
}

// again is how long a member waits after a failed attempt, as ovn-controller does at first.
const again = 200 * time.Millisecond

// fleets measures the source and the relays, if any, with -agents ovn-controllers.
func (w *world) fleets(count int) {
	w.Helper()
	name := fmt.Sprintf("%d agents, %d relays: ", *agents, count)
	monitor, err := probe.Controller(nil)
	w.must(err)
	f := &fleet{w: w, monitor: monitor, servers: []*ovndbtest.Server{w.central.SB}}
	source := w.cpu(w.central.SB.PID())
	if count > 0 {
		f.servers = nil
		for range count {
			f.servers = append(f.servers, ovndbtest.StartRelay(w.T, w.central.SB))
		}
		w.note((w.cpu(w.central.SB.PID()) - source).Seconds(), false, "%sCPU s of the source for the relays' copies", name)
	}
	source, relays, began := w.cpu(w.central.SB.PID()), f.relayCPU(), time.Now()
	f.start()
	defer f.end()
	f.copied(1)
	w.note(time.Since(began).Seconds(), false, "%sall connect at once, s", name)
	w.note((w.cpu(w.central.SB.PID()) - source).Seconds(), false, "%sall connect, CPU s of the source", name)
	w.note((f.relayCPU() - relays).Seconds(), false, "%sall connect, CPU s of the relays", name)
	f.memory(name, "all connected")
	f.perChange(name)
	f.loseSource(name)
	if count > 1 {
		f.loseRelay(name)
	}
}

// relayCPU returns the CPU time of all relays.
func (f *fleet) relayCPU() (sum time.Duration) {
	for _, s := range f.servers {
		if s != f.w.central.SB {
			sum += f.w.cpu(s.PID())
		}
	}
	return sum
}

func (f *fleet) memory(name, when string) {
	f.w.Helper()
	peak, err := probe.Peak(f.w.central.SB.PID())
	f.w.must(err)
	f.w.note(peak, false, "%s%s, peak memory of the source, MB", name, when)
	var worst float64
	for _, s := range f.servers {
		if s == f.w.central.SB {
			continue
		}
		peak, err := probe.Peak(s.PID())
		f.w.must(err)
		worst = max(worst, peak)
	}
	f.w.note(worst, false, "%s%s, peak memory of a relay, MB", name, when)
}

func (f *fleet) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	for i := range *agents {
		m := &member{}
		f.members = append(f.members, m)
		f.all.Go(func() { f.run(ctx, m, i) })
	}
}

func (f *fleet) end() {
	f.stop()
	f.all.Wait()
}

// run keeps a member connected.
func (f *fleet) run(ctx context.Context, m *member, i int) {
	for turn := i; ctx.Err() == nil; turn++ {
		m.attempts.Add(1)
		a, err := probe.Connect(f.servers[turn%len(f.servers)].Endpoint(), f.monitor)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
			continue
		}
		m.agent.Store(a)
		m.copies.Add(1)
		select {
		case <-ctx.Done():
		case <-a.Ended():
		}
		a.Close()
	}
}

// copied waits until each member has received n copies.
func (f *fleet) copied(n int64) {
	f.w.Helper()
	f.await(func(m *member) bool { return m.copies.Load() >= n })
}

// await waits until a condition holds for all members.
func (f *fleet) await(ok func(*member) bool) {
	f.w.Helper()
	deadline := time.Now().Add(patience)
	for _, m := range f.members {
		for !ok(m) {
			if time.Now().After(deadline) {
				f.w.Fatalf("a member has %d copies after %d attempts", m.copies.Load(), m.attempts.Load())
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// change makes a pod come or go, and waits until each member has received an update since.
func (f *fleet) change(i int) {
	f.w.Helper()
	before := make([]int64, len(f.members))
	agents := make([]*probe.Agent, len(f.members))
	for n, m := range f.members {
		agents[n] = m.agent.Load()
		before[n], _ = agents[n].Updates()
	}
	u := f.w.pod(f.w.newPod(i / 2))
	if i%2 == 1 {
		u = unit.Unit{Key: u.Key}
	}
	f.w.one(u)
	n := -1
	f.await(func(m *member) bool {
		n = f.indexOf(m)
		now, _ := m.agent.Load().Updates()
		return m.agent.Load() != agents[n] || now > before[n]
	})
}

func (f *fleet) indexOf(m *member) int {
	for i := range f.members {
		if f.members[i] == m {
			return i
		}
	}
	return -1
}

// perChange notes what changes cost while all watch.
func (f *fleet) perChange(name string) {
	f.w.Helper()
	changes := 2 * *rounds
	source, relays, began := f.w.cpu(f.w.central.SB.PID()), f.relayCPU(), time.Now()
	for i := range changes {
		f.change(i)
	}
	f.w.note(time.Since(began).Seconds()*1000/float64(changes), false, "%sa pod's port, ms until all agents have it", name)
	f.w.note((f.w.cpu(f.w.central.SB.PID())-source).Seconds()*1000/float64(changes), false, "%sa pod's port, CPU ms of the source", name)
	f.w.note((f.relayCPU()-relays).Seconds()*1000/float64(changes), false, "%sa pod's port, CPU ms of the relays", name)
}

// loseSource kills the source's server, starts it again, and notes how long it takes until each agent has a new change.
func (f *fleet) loseSource(name string) {
	f.w.Helper()
	relays := f.relayCPU()
	f.w.sb.Close()
	f.w.central.SB.Kill()
	f.w.central.SB.Run()
	began := time.Now() // how long a server takes to read its file is no matter of relays
	if len(f.servers) == 1 && f.servers[0] == f.w.central.SB {
		f.copied(2)
	}
	f.change(0)
	f.w.note(time.Since(began).Seconds(), false, "%sthe source is killed, s until all agents have a new change", name)
	f.change(1)
	f.w.note(f.w.cpu(f.w.central.SB.PID()).Seconds(), false, "%sthe source is killed, CPU s of the new server", name)
	f.w.note((f.relayCPU() - relays).Seconds(), false, "%sthe source is killed, CPU s of the relays", name)
	f.memory(name, "the source is killed")
	var err error
	f.w.sb, err = probe.DialSouthbound(f.w.central.SB.Endpoint())
	f.w.must(err)
	f.w.Cleanup(f.w.sb.Close)
}

// loseRelay kills a relay and notes how long it takes until its agents are back with the others.
func (f *fleet) loseRelay(name string) {
	f.w.Helper()
	lost := map[*member]int64{}
	for i, m := range f.members {
		if f.servers[i%len(f.servers)] == f.servers[0] {
			lost[m] = m.copies.Load()
		}
	}
	source, began := f.w.cpu(f.w.central.SB.PID()), time.Now()
	f.servers[0].Kill()
	f.await(func(m *member) bool { n, its := lost[m]; return !its || m.copies.Load() > n })
	f.w.note(time.Since(began).Seconds(), false, "%sa relay is killed, s until its %d agents are back", name, len(lost))
	f.w.note((f.w.cpu(f.w.central.SB.PID()) - source).Seconds(), false, "%sa relay is killed, CPU s of the source", name)
	f.servers[0].RunRelay()
}
