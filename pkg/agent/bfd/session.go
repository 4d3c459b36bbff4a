package bfd

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// queued is how many received packets a session may be behind.
const queued = 16

// Session is a session with a router. Node.Start creates it.
type Session struct {
	discriminator uint32
	sender        sender
	changed       func(Status)
	log           logr.Logger
	packets       chan Packet
	settings      chan Settings
	stop, done    chan struct{}
	stopOnce      sync.Once
	ended         func() // removes the session from its node

	mu     sync.Mutex
	status Status

	// What follows belongs to the goroutine.
	machine          machine
	transmit, expiry *time.Timer
	scheduled        time.Duration // the interval for which transmit is set; 0: none
	trouble          trouble
}

func newSession(p Peer, settings Settings, discriminator uint32, changed func(Status), log logr.Logger) *Session {
	return &Session{discriminator: discriminator, sender: sender{peer: p}, changed: changed, log: log,
		packets: make(chan Packet, queued), settings: make(chan Settings), stop: make(chan struct{}), done: make(chan struct{}),
		machine: newMachine(settings, discriminator)}
}

// Configure changes the settings. The session stays up.
func (s *Session) Configure(settings Settings) {
	select {
	case s.settings <- settings:
	case <-s.done:
	}
}

// Status returns the session's status.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Stop sends that BFD is switched off, and ends the session. The router must not take that for a failure
// (RFC 5882 §3.2). Stop returns when the session has ended. It must not be called from changed.
func (s *Session) Stop() {
	s.stopOnce.Do(func() { close(s.stop) })
	<-s.done
}

// run sends and receives until Stop.
func (s *Session) run() {
	defer close(s.done)
	defer s.ended()
	s.transmit, s.expiry = time.NewTimer(0), time.NewTimer(0)
	s.expiry.Stop()
	defer s.transmit.Stop()
	defer s.expiry.Stop()
	for {
		before, polled := s.machine, false
		select {
		case <-s.stop:
			s.leave()
			return
		case settings := <-s.settings:
			s.machine = s.machine.configure(settings)
		case p := <-s.packets:
			s.machine, polled = s.machine.receivePacket(p, time.Now()), p.Poll
			s.trouble = trouble{}
		case <-s.expiry.C:
			s.machine = s.machine.expire(time.Now())
		case <-s.transmit.C:
			s.scheduled = 0
			s.machine = s.machine.count()
			s.send(s.machine.packet())
		}
		if polled {
			s.send(s.machine.final())
		}
		if s.machine.state != before.state { // the router learns it at once (RFC 5880 §6.8.7)
			s.send(s.machine.packet())
		}
		s.schedule()
		s.report()
	}
}

// leave sends the last packets: as many as the router must lose in a row to miss them.
func (s *Session) leave() {
	if s.machine = s.machine.disable(); s.machine.theirs != 0 {
		for range s.machine.settings.Multiplier {
			s.send(s.machine.packet())
		}
	}
	s.sender.close()
}

func (s *Session) send(p Packet) {
	s.trouble = s.trouble.after(s.sender.send(p))
}

// schedule sets the timers for the machine.
func (s *Session) schedule() {
	if interval := s.machine.interval(); interval != s.scheduled {
		s.scheduled = interval
		s.transmit.Stop()
		if interval > 0 {
			s.transmit.Reset(jittered(interval, rand.Float64()))
		}
	}
	s.expiry.Stop()
	if deadline := s.machine.deadline(); !deadline.IsZero() {
		s.expiry.Reset(time.Until(deadline))
	}
}

// report passes a status that differs to the client.
func (s *Session) report() {
	now := s.machine.status(s.trouble.reason)
	s.mu.Lock()
	before := s.status
	s.status = now
	s.mu.Unlock()
	if before == now {
		return
	}
	if before.Up != now.Up || before.Message != now.Message {
		s.log.Info("the BFD session changed", "state", s.machine.state.String(), "reason", now.Message)
	}
	s.changed(now)
}
