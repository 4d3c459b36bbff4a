package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
)

// staleTimeout limits the removal of conntrack entries.
const staleTimeout = 10 * time.Second

// mostRemovals is how many entries one reconciliation removes one by one.
const mostRemovals = 1000

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

// remaining are single entries that ovs-vswitchd before version 3.1 has yet to remove, and the selection from which they were listed.
type remaining struct {
	entries  []desired.Entry
	selected []desired.Stale
}

// removeStale removes the conntrack entries that are due, the kernel's and Open vSwitch's. Entries whose removal fails stay due.
func (r *Gateway) removeStale(ctx context.Context) error {
	now := time.Now()
	due := r.Services.stale.due(now)
	if err := hostnet.ForgetUDP(desired.Targets(due, r.outside.udp)); err != nil {
		return err
	}
	if len(due) > 0 && r.outside.runDir != "" {
		var err error
		if due, err = r.outside.flush(ctx, r.datapath(), due); err != nil {
			return fmt.Errorf("clients of UDP services may still reach former endpoints: %w", err)
		}
		if due == nil {
			r.After(staleGaps()[0])
			return nil
		}
	}
	if next := r.Services.stale.removed(due, now); next > 0 {
		r.After(next)
	}
	return nil
}

// datapath returns the name of Open vSwitch's datapath.
func (r *Gateway) datapath() string {
	if r.Datapath == networkv1alpha1.DatapathNetdev {
		return "netdev@ovs-netdev"
	}
	return "system@ovs-system"
}

// errAway is the error of a control socket that nothing answers.
var errAway = errors.New("ovs-vswitchd does not answer")

// onSwitch calls do with a connection to ovs-vswitchd's control socket.
func (o *outside) onSwitch(ctx context.Context, do func(context.Context, *unixctl.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, staleTimeout)
	defer cancel()
	socket, err := unixctl.Socket(o.runDir, "ovs-vswitchd")
	if err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	conn, err := unixctl.Dial(ctx, socket)
	if err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return do(ctx, conn)
}

// flush removes entries of Open vSwitch. It returns the selection whose entries are all removed, or nil if a further call is needed.
func (o *outside) flush(ctx context.Context, datapath string, due []desired.Stale) (done []desired.Stale, err error) {
	err = o.onSwitch(ctx, func(ctx context.Context, conn *unixctl.Conn) error {
		for _, one := range due {
			if _, err := conn.Call(ctx, flushCommand, append([]string{datapath}, one.Args()...)...); err != nil {
				if commands, listErr := conn.Call(ctx, "list-commands"); listErr == nil && !takesReplies.MatchString(commands) {
					done, err = o.flushWhole(ctx, conn, datapath, due)
					return err
				}
				return fmt.Errorf("remove %s: %w", one, err)
			}
		}
		done = due
		return nil
	})
	return done, err
}

// flushCommand removes entries, dumpCommand lists them. takesReplies matches the usage of flushCommand since version 3.1, which selects
// entries by a part of a tuple, and by the reply's.
const flushCommand, dumpCommand = "dpctl/flush-conntrack", "dpctl/dump-conntrack"

var takesReplies = regexp.MustCompile(flushCommand + `\s.*ct-reply-tuple`)

// flushWhole is flush for ovs-vswitchd before version 3.1, which removes entries one by one. It lists the entries again only after
// the entries of the last list are removed, because clients that keep sending bring theirs back.
func (o *outside) flushWhole(ctx context.Context, conn *unixctl.Conn, datapath string, due []desired.Stale) ([]desired.Stale, error) {
	rest := &o.remaining
	if len(rest.entries) == 0 {
		list, err := conn.Call(ctx, dumpCommand, append([]string{datapath}, desired.ZoneArgs(due)...)...)
		if err != nil {
			return nil, fmt.Errorf("list conntrack entries: %w", err)
		}
		*rest = remaining{desired.Selected(list, due), due}
	}
	var err error
	if rest.entries, err = removeSome(ctx, conn, datapath, rest.entries); err != nil || len(rest.entries) > 0 {
		return nil, err
	}
	done := rest.selected
	*rest = remaining{}
	return done, nil
}

// removeSome removes entries one by one, at most mostRemovals, and returns the rest.
func removeSome(ctx context.Context, conn *unixctl.Conn, datapath string, entries []desired.Entry) (rest []desired.Entry, err error) {
	for range min(mostRemovals, len(entries)) {
		_, err := conn.Call(ctx, flushCommand, append([]string{datapath}, entries[0].Args()...)...)
		if err != nil && !strings.Contains(err.Error(), "No such file or directory") { // it has ended meanwhile
			return entries, fmt.Errorf("remove the %s: %w", entries[0], err)
		}
		entries = entries[1:]
	}
	return entries, nil
}
