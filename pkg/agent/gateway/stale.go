package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
)

// staleTimeout limits the removal of conntrack entries.
const staleTimeout = 10 * time.Second

// staleGaps returns the times between the removals of an entry. New flows of a small cluster come within the first, of a large one within
// the last.
func staleGaps() []time.Duration {
	return []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 4 * time.Second,
		8 * time.Second}
}

// staleEntries are conntrack entries of Open vSwitch that must end. They are removed several times, because an entry comes back
// if its client sends before the flows are changed.
type staleEntries struct {
	mu    sync.Mutex
	times map[desired.Stale]times
}

// times is how often entries were removed, and when they are removed again.
type times struct {
	count int
	due   time.Time
}

// add adds entries whose removal begins now.
func (s *staleEntries) add(stale []desired.Stale) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == nil {
		s.times = map[desired.Stale]times{}
	}
	for _, one := range stale {
		s.times[one] = times{}
	}
}

// keep forgets entries of endpoints that a destination has again.
func (s *staleEntries) keep(present desired.Backends) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.times, func(one desired.Stale, _ times) bool { return present[one.To][one.By] })
}

// due returns the entries to remove now.
func (s *staleEntries) due(now time.Time) (stale []desired.Stale) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one, t := range s.times {
		if !t.due.After(now) {
			stale = append(stale, one)
		}
	}
	return stale
}

// removed counts the removal of entries, and returns the time until the next removal; 0: none.
func (s *staleEntries) removed(entries []desired.Stale, now time.Time) (next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gaps := staleGaps()
	for _, one := range entries {
		t, ok := s.times[one]
		if ok && t.count < len(gaps) {
			s.times[one] = times{t.count + 1, now.Add(gaps[t.count])}
		} else {
			delete(s.times, one)
		}
	}
	for _, t := range s.times {
		wait := max(time.Millisecond, t.due.Sub(now))
		if next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// removeStale removes the conntrack entries that are due, the kernel's and Open vSwitch's. What fails stays due.
func (r *Gateway) removeStale(ctx context.Context) error {
	now := time.Now()
	due := r.Services.stale.due(now)
	if err := hostnet.ForgetUDP(desired.Targets(due, r.outside.udp)); err != nil {
		return err
	}
	if len(due) > 0 && r.outside.runDir != "" {
		if err := r.flush(ctx, due); err != nil {
			return fmt.Errorf("remove UDP conntrack entries of Open vSwitch: %w", err)
		}
	}
	if next := r.Services.stale.removed(due, now); next > 0 {
		r.After(next)
	}
	return nil
}

// flush removes entries of Open vSwitch.
func (r *Gateway) flush(ctx context.Context, due []desired.Stale) (err error) {
	ctx, cancel := context.WithTimeout(ctx, staleTimeout)
	defer cancel()
	socket, err := unixctl.Socket(r.outside.runDir, "ovs-vswitchd")
	if err != nil {
		return err
	}
	conn, err := unixctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	datapath := "system@ovs-system"
	if r.Datapath == networkv1alpha1.DatapathNetdev {
		datapath = "netdev@ovs-netdev"
	}
	for _, one := range due {
		if _, err := conn.Call(ctx, "dpctl/flush-conntrack", append([]string{datapath}, one.Args()...)...); err != nil {
			return err
		}
	}
	return nil
}
