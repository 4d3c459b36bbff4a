package bfd

import (
	"fmt"
	"time"
)

// Settings are the parameters of a session.
type Settings struct {
	// Transmit is the interval of sent packets, and Receive the shortest interval of received packets, while the session is
	// up. The router may make both longer.
	Transmit, Receive time.Duration
	// Multiplier is how many packets in a row the router may lose. It is at least 2.
	Multiplier uint8
}

const (
	// slow is the shortest interval of sent packets while the session is not up (RFC 5880 §6.8.3).
	slow = time.Second
	// unanswered is after how many packets a session that does not come up has a message.
	unanswered = 5
)

// remote is what the router's last packet said.
type remote struct {
	state             State
	diagnostic        Diagnostic
	transmit, receive time.Duration
	multiplier        uint8
	demand            bool
}

// initial is the remote of a router that has sent nothing (RFC 5880 §6.8.1).
var initial = remote{state: Down, receive: time.Microsecond}

// machine is the state of a session (RFC 5880 §6.8). It is a value: each method returns the next state and leaves its
// receiver as it is.
type machine struct {
	settings   Settings
	state      State
	diagnostic Diagnostic
	// mine and theirs are the discriminators. theirs is 0 while nothing is received.
	mine, theirs uint32
	remote       remote
	received     time.Time // of the last valid packet
	late         bool      // received was extended once, because the agent did not run
	// transmit and receive are the intervals in use. They differ from the settings until the router has confirmed a change.
	transmit, receive time.Duration
	// polling means that packets request a confirmation. again means that the settings changed after the first of them.
	polling, again bool
	sent           int // packets since the session was last up
	// failure is why the session is not up any more, if it was.
	failure string
}

func newMachine(s Settings, discriminator uint32) machine {
	return machine{settings: s, state: Down, mine: discriminator, remote: initial}.settle()
}

// desired returns the interval of sent packets that the node requests in this state.
func (m machine) desired() time.Duration {
	if m.state == Up {
		return m.settings.Transmit
	}
	return max(m.settings.Transmit, slow)
}

// settle makes the settings effective.
func (m machine) settle() machine {
	m.transmit, m.receive, m.polling, m.again = m.desired(), m.settings.Receive, false, false
	return m
}

// packet returns the next periodic packet.
func (m machine) packet() Packet {
	return Packet{Diagnostic: m.diagnostic, State: m.state, Poll: m.polling, Multiplier: m.settings.Multiplier, Mine: m.mine, Yours: m.theirs,
		Transmit: m.desired(), Receive: m.settings.Receive}
}

// final returns the answer to a packet with the Poll bit.
func (m machine) final() Packet {
	p := m.packet()
	p.Poll, p.Final = false, true
	return p
}

// interval returns the time between periodic packets before jitter. 0 means that none must be sent (RFC 5880 §6.8.7).
func (m machine) interval() time.Duration {
	dormant := m.remote.demand && m.state == Up && m.remote.state == Up && !m.polling
	if m.remote.receive == 0 || dormant {
		return 0
	}
	return max(m.transmit, m.remote.receive)
}

// jittered returns 75 to 100 % of an interval. random is at least 0 and below 1.
func jittered(interval time.Duration, random float64) time.Duration {
	return interval*3/4 + time.Duration(float64(interval/4)*random)
}

// detection returns how long the router may be silent (RFC 5880 §6.8.4).
func (m machine) detection() time.Duration {
	return time.Duration(m.remote.multiplier) * max(m.receive, m.remote.transmit)
}

// deadline returns when the router counts as silent. It is zero if the router has sent nothing.
func (m machine) deadline() time.Time {
	if m.theirs == 0 {
		return time.Time{}
	}
	return m.received.Add(m.detection())
}

// expire is called at the deadline. It forgets a router that is silent. If it is called an interval late, the agent did not
// run, and the router's packets may wait in the socket: then the router has one more interval.
func (m machine) expire(now time.Time) machine {
	if m.theirs == 0 || now.Before(m.deadline()) {
		return m
	}
	if interval := m.detection() / time.Duration(m.remote.multiplier); !m.late && now.Sub(m.deadline()) > interval {
		m.late, m.received = true, now.Add(interval-m.detection())
		return m
	}
	why := fmt.Sprintf("no packet of the router arrived for %s", m.detection())
	m.theirs, m.remote, m.late = 0, initial, false
	if m.state > Down {
		m = m.down(timeExpired, why)
	}
	return m
}

// receivePacket processes a packet of the session that Parse has accepted. A packet without the node's discriminator counts
// only from the router that the session is with, because others could forge it without seeing a packet. A router that
// restarts therefore counts as silent first.
func (m machine) receivePacket(p Packet, now time.Time) machine {
	if m.state == AdminDown || p.Yours == 0 && m.theirs != 0 && p.Mine != m.theirs {
		return m
	}
	m.theirs, m.received, m.late = p.Mine, now, false
	m.remote = remote{p.State, p.Diagnostic, p.Transmit, p.Receive, p.Multiplier, p.Demand}
	if p.Final && m.polling {
		m = m.confirmed()
	}
	switch {
	case p.State == AdminDown && m.state > Down:
		return m.down(signalled, "")
	case m.state == Down && p.State == Down:
		m.state, m.diagnostic = Init, noDiagnostic
	case m.state == Down && p.State == Init, m.state == Init && p.State >= Init:
		return m.up()
	case m.state == Up && p.State == Down:
		return m.down(signalled, "the router signalled Down: "+p.Diagnostic.String())
	}
	return m
}

// confirmed ends a Poll sequence, or begins the next.
func (m machine) confirmed() machine {
	if m.again {
		m.again = false
		return m
	}
	return m.settle()
}

// up begins a Poll sequence, because packets become faster (RFC 5880 §6.8.3).
func (m machine) up() machine {
	m.state, m.diagnostic, m.sent, m.failure = Up, noDiagnostic, 0, ""
	m = m.settle()
	m.polling = true
	return m
}

// down ends the session. why is empty if the router has only switched BFD off.
func (m machine) down(d Diagnostic, why string) machine {
	if m.state == Up {
		m.sent, m.failure = 0, why
	}
	m.state, m.diagnostic = Down, d
	return m.settle()
}

// disable switches the session off.
func (m machine) disable() machine {
	m.state, m.diagnostic = AdminDown, disabled
	return m.settle()
}

// configure changes the settings. While the session is up, packets become slower and the detection time shorter only when
// the router has confirmed it (RFC 5880 §6.8.3).
func (m machine) configure(s Settings) machine {
	if s == m.settings {
		return m
	}
	m.settings = s
	if m.state != Up {
		return m.settle()
	}
	m.again = m.polling
	m.transmit, m.receive, m.polling = min(m.transmit, s.Transmit), max(m.receive, s.Receive), true
	return m
}

// count counts a periodic packet.
func (m machine) count() machine {
	m.sent = min(m.sent+1, unanswered)
	return m
}

// Status is a session for its client.
type Status struct {
	Up bool
	// Failed means that the session was up, and the router is lost. It is false if the router switched BFD off (RFC 5882 §3.2).
	Failed bool
	// Message says why the session is not up. It is empty until the router had time to answer.
	Message string
}

// status returns the state for the client. trouble is why packets cannot be sent, or "".
func (m machine) status(trouble string) Status {
	s := Status{Up: m.state == Up, Failed: m.failure != "", Message: m.failure}
	switch {
	case s.Up:
		return Status{Up: true}
	case m.theirs != 0 && m.remote.state == AdminDown:
		return Status{Message: "BFD is switched off at the router"}
	case s.Failed || m.sent < unanswered:
	case trouble != "":
		s.Message = trouble
	case m.theirs == 0:
		s.Message = "the router sends no packets"
	default:
		s.Message = "the router does not answer the node's packets, and says: " + m.remote.diagnostic.String()
	}
	return s
}
