package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// interval is the time between two counters of a flow.
const interval = 50 * time.Millisecond

// flow is one TCP connection that must not break. It never reconnects.
type flow struct {
	mu    sync.Mutex
	now   flowState
	last  time.Time // of the last echo
	start time.Time // of the measurement
}

// flowState is the state of the connection since the last reset.
type flowState struct {
	Connected bool    `json:"connected"`
	Echoes    uint64  `json:"echoes"`          // since the connection's start
	GapMs     float64 `json:"gapMs"`           // the longest time without an echo, the present one included
	Error     string  `json:"error,omitempty"` // how it ended
}

func newFlow() *flow { return &flow{} }

// run connects, retrying until it succeeds once, and exchanges counters until the connection ends.
func (f *flow) run(ctx context.Context, remote string) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", remote, time.Second)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
			f.set(func(s *flowState) { s.Connected = true })
			err = f.exchange(conn, ticker)
			f.set(func(s *flowState) { s.Connected, s.Error = false, err.Error() })
			return
		}
		<-ticker.C
	}
}

func (f *flow) exchange(conn net.Conn, ticker *time.Ticker) error {
	defer conn.Close()
	f.touch()
	sent, got := make([]byte, 8), make([]byte, 8)
	for n := uint64(1); ; n++ {
		binary.BigEndian.PutUint64(sent, n)
		if _, err := conn.Write(sent); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if echoed := binary.BigEndian.Uint64(got); echoed != n {
			return fmt.Errorf("counter %d came back as %d", n, echoed)
		}
		f.touch()
		f.set(func(s *flowState) { s.Echoes = n })
		<-ticker.C
	}
}

func (f *flow) touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.now.GapMs = max(f.now.GapMs, f.gap(now))
	f.last = now
}

// gap returns the time since the last echo within the measurement, in milliseconds.
func (f *flow) gap(now time.Time) float64 {
	since := f.last
	if f.start.After(since) {
		since = f.start
	}
	if since.IsZero() {
		return 0
	}
	return float64(now.Sub(since).Microseconds()) / 1000
}

func (f *flow) set(change func(*flowState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.now)
}

func (f *flow) state(reset bool) flowState {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	s := f.now
	s.GapMs = max(s.GapMs, f.gap(now))
	if reset {
		f.now.GapMs, f.start = 0, now
	}
	return s
}
