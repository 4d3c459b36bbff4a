package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// State is the state of a session (RFC 5880 §4.1).
type State uint8

// The states, as in a packet.
const (
	AdminDown State = iota
	Down
	Init
	Up
)

// String returns the state's name in RFC 5880.
func (s State) String() string { return [...]string{"AdminDown", "Down", "Init", "Up"}[s&3] }

// Diagnostic is why a session is down (RFC 5880 §4.1).
type Diagnostic uint8

// The diagnostics that a node sends.
const (
	noDiagnostic Diagnostic = 0
	timeExpired  Diagnostic = 1
	signalled    Diagnostic = 3
	disabled     Diagnostic = 7
)

// String returns the meaning of the diagnostic.
func (d Diagnostic) String() string {
	names := [...]string{"no reason", "it received no packets in its detection time", "its echo function failed", "the node signalled Down",
		"its forwarding plane was reset", "its path is down", "a concatenated path is down", "BFD was switched off",
		"a reverse concatenated path is down"}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

const (
	version = 1
	// packetLength is the length of a control packet without authentication, in bytes.
	packetLength = 24

	flagPoll, flagFinal, flagAuthentication, flagDemand, flagMultipoint = 0x20, 0x10, 0x04, 0x02, 0x01
)

// Packet is a control packet without authentication (RFC 5880 §4.1).
type Packet struct {
	Diagnostic          Diagnostic
	State               State
	Poll, Final, Demand bool
	// Multiplier times the interval of packets is the detection time.
	Multiplier uint8
	// Mine is the sender's discriminator, and Yours the receiver's or 0.
	Mine, Yours uint32
	// Transmit is the shortest interval at which the sender sends (Desired Min TX), and Receive the shortest at which it can
	// receive (Required Min RX). Both have microseconds.
	Transmit, Receive time.Duration
}

// Bytes returns the packet as it is sent. The echo interval is 0, because there is no echo function.
func (p Packet) Bytes() []byte {
	b := make([]byte, packetLength)
	b[0] = version<<5 | byte(p.Diagnostic)
	b[1] = byte(p.State) << 6
	for flag, set := range map[byte]bool{flagPoll: p.Poll, flagFinal: p.Final, flagDemand: p.Demand} {
		if set {
			b[1] |= flag
		}
	}
	b[2], b[3] = p.Multiplier, packetLength
	binary.BigEndian.PutUint32(b[4:], p.Mine)
	binary.BigEndian.PutUint32(b[8:], p.Yours)
	binary.BigEndian.PutUint32(b[12:], uint32(p.Transmit/time.Microsecond))
	binary.BigEndian.PutUint32(b[16:], uint32(p.Receive/time.Microsecond))
	return b
}

// Parse reads a received packet. It makes the checks of RFC 5880 §6.8.6 that need no session. What follows the packet in
// the datagram is ignored.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < packetLength || int(b[3]) < packetLength || int(b[3]) > len(b) {
		return p, errors.New("the length is wrong")
	}
	micros := func(at int) time.Duration { return time.Duration(binary.BigEndian.Uint32(b[at:])) * time.Microsecond }
	p = Packet{Diagnostic: Diagnostic(b[0] & 0x1f), State: State(b[1] >> 6), Poll: b[1]&flagPoll != 0, Final: b[1]&flagFinal != 0,
		Demand: b[1]&flagDemand != 0, Multiplier: b[2], Mine: binary.BigEndian.Uint32(b[4:]), Yours: binary.BigEndian.Uint32(b[8:]),
		Transmit: micros(12), Receive: micros(16)}
	switch {
	case b[0]>>5 != version:
		return p, fmt.Errorf("version %d", b[0]>>5)
	case b[1]&flagMultipoint != 0:
		return p, errors.New("the multipoint bit is set")
	case b[1]&flagAuthentication != 0:
		return p, errors.New("it has authentication, and the session has none")
	case p.Multiplier == 0:
		return p, errors.New("the detection multiplier is 0")
	case p.Mine == 0:
		return p, errors.New("the sender's discriminator is 0")
	case p.Yours == 0 && p.State > Down:
		return p, fmt.Errorf("state %s without the receiver's discriminator", p.State)
	}
	return p, nil
}
