package probe

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

const (
	// settling is the time within which an answer does not count as lost.
	settling = time.Second
	// leastInterval bounds the rate of a flow.
	leastInterval = 10 * time.Millisecond
	// sendPatience bounds a write to a socket, which waits for the resolution of the neighbour.
	sendPatience = time.Second
)

// flows are the flows of a pod.
type flows struct {
	mu  sync.Mutex
	all []*flow
}

// start replaces the flows.
func (f *flows) start(ctx context.Context, request connectivity.FlowRequest) {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
	for _, to := range request.Start {
		one := newFlow(to, max(request.Interval, leastInterval))
		one.running.Go(func() { one.run(ctx) })
		f.all = append(f.all, one)
	}
}

// stop ends the flows, and waits for late answers and the servers' counts.
func (f *flows) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		one.end()
	}
	for _, one := range f.all {
		one.running.Wait()
	}
}

func (f *flows) states(now time.Time) []connectivity.FlowState {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := []connectivity.FlowState{}
	for _, one := range f.all {
		state := one.tally.state(one.to, now)
		state.ID = idText(one.id)
		states = append(states, state)
	}
	return states
}

// idText is the ID of a flow in JSON, whose numbers are too small for it.
func idText(id uint64) string { return strconv.FormatUint(id, 16) }

// flow sends a datagram each interval to one destination.
type flow struct {
	to       string
	id       uint64
	interval time.Duration
	tally    tally
	ended    chan struct{}
	end      func()
	running  sync.WaitGroup
}

func newFlow(to string, interval time.Duration) *flow {
	f := &flow{to: to, id: rand.Uint64(), interval: interval, ended: make(chan struct{})}
	f.end = sync.OnceFunc(func() { close(f.ended) })
	return f
}

// run sends until the flow's end. Then it waits for late answers and the server's last count.
func (f *flow) run(ctx context.Context) {
	conn, err := net.Dial("udp", f.to)
	if err != nil {
		f.tally.failed(err)
		return
	}
	var receiving sync.WaitGroup
	receiving.Go(func() { f.receive(conn) })
	f.send(ctx, conn)
	drained := time.After(settling)
	for drain := true; drain; { // a datagram of the kind count may be lost, too
		_, _ = conn.Write(header{kind: count, flow: f.id}.marshal(0))
		select {
		case <-drained:
			drain = false
		case <-time.After(pause):
		}
	}
	conn.Close()
	receiving.Wait()
	f.tally.finish()
}

func (f *flow) send(ctx context.Context, conn net.Conn) {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for number := uint64(0); ; number++ {
		_ = conn.SetWriteDeadline(time.Now().Add(sendPatience))
		f.tally.sent(time.Now())
		if _, err := conn.Write(header{kind: flown, flow: f.id, number: number}.marshal(0)); err != nil {
			f.tally.failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.ended:
			return
		case <-ticker.C:
		}
	}
}

// receive counts answers until the connection is closed. Errors of ICMP messages end nothing.
func (f *flow) receive(conn net.Conn) {
	buffer := make([]byte, maxDatagram)
	for {
		n, err := conn.Read(buffer)
		if closed(err) {
			return
		}
		if err != nil {
			f.tally.failed(err)
			continue
		}
		if h, received, _, err := parseAnswer(buffer[:n]); err == nil && h.flow == f.id {
			f.tally.answered(h, received, time.Now())
		}
	}
}
