package probe

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// tally counts the datagrams of a flow. Its methods may be called concurrently.
type tally struct {
	mu       sync.Mutex
	times    []time.Time // when datagrams without an answer were sent, the oldest first, of the last settling
	total    int64       // sent
	settled  int64       // sent longer ago than settling
	answers  int64
	received uint64 // by the server
	last     time.Time
	gap      time.Duration
	gapAt    time.Time
	finished bool
	err      string
}

// sent counts a datagram.
func (t *tally) sent(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total++; t.last.IsZero() {
		t.last = at
	}
	t.times = append(t.times, at)
	t.settle(at)
}

// settle forgets the times of datagrams that are older than settling.
func (t *tally) settle(now time.Time) {
	for len(t.times) > 0 && now.Sub(t.times[0]) > settling {
		t.times = t.times[1:]
		t.settled++
	}
}

// answered counts an answer.
func (t *tally) answered(h header, received uint64, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.received = max(t.received, received); h.kind != flown {
		return
	}
	t.answers++
	t.widen(at)
	t.last = at
}

// widen records a time without answers.
func (t *tally) widen(now time.Time) {
	if gap := now.Sub(t.last); !t.last.IsZero() && gap > t.gap {
		t.gap, t.gapAt = gap, t.last
	}
}

// failed records an error.
func (t *tally) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = textOf(err)
}

// finish ends the tally: everything that was sent has settled.
func (t *tally) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.times) > 0 && !t.finished {
		t.widen(t.times[len(t.times)-1])
	}
	t.finished, t.settled = true, t.total
}

// state sums up. A server that was restarted has counted fewer datagrams than it answered.
func (t *tally) state(to string, now time.Time) connectivity.FlowState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.finished {
		t.settle(now)
		t.widen(now)
	}
	arrived := max(int64(t.received), t.answers)
	return connectivity.FlowState{To: to, Sent: t.total, Answered: t.answers, LostThere: max(0, t.settled-arrived),
		LostBack: max(0, min(t.settled, arrived)-t.answers), Gap: t.gap, GapAt: t.gapAt, Error: t.err}
}

func closed(err error) bool { return errors.Is(err, net.ErrClosed) }
