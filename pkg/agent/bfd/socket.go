package bfd

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	// firstPort and ports are the source ports of packets (RFC 5881 §4).
	firstPort, ports = 49152, 16384
	// attempts bounds the search for a free source port.
	attempts = 32
)

// sender sends the packets of a session. Its port does not change, unless another program takes it.
type sender struct {
	peer   Peer
	port   int
	socket *net.UDPConn // nil: not open
}

// send sends a packet. The error may be about an earlier packet. A socket that cannot be used is opened again by the next
// call, as after a change of the node's address.
func (s *sender) send(p Packet) error {
	if err := s.open(); err != nil {
		return err
	}
	_, err := s.socket.Write(p.Bytes())
	if err == nil {
		return nil
	}
	// A write returns the ICMP error about an earlier packet without sending its own.
	if _, again := s.socket.Write(p.Bytes()); again != nil {
		s.close()
	}
	return err
}

// trouble is why packets cannot be sent. It stays until a packet arrives, or several were sent without an error: if the
// router answers each with an ICMP error, every other one is sent without.
type trouble struct {
	reason string // "": none
	good   int
}

// after returns the trouble after a packet was sent.
func (t trouble) after(err error) trouble {
	var system *os.SyscallError
	switch {
	case err == nil && t.good+1 >= unanswered:
		return trouble{}
	case err == nil:
		t.good++
		return t
	case errors.Is(err, syscall.ECONNREFUSED):
		return trouble{reason: "the router does not accept BFD packets: no program listens, or a filter refuses them"}
	case errors.As(err, &system):
		return trouble{reason: "cannot send: " + system.Err.Error()} // without the socket's addresses
	}
	return trouble{reason: "cannot send: " + err.Error()}
}

func (s *sender) close() {
	if s.socket != nil {
		_ = s.socket.Close() // nothing is left to do about an error
		s.socket = nil
	}
}

// open opens the socket if it is not open.
func (s *sender) open() (err error) {
	if s.socket != nil {
		return nil
	}
	if s.port == 0 {
		s.port = anyPort()
	}
	for range attempts {
		if s.socket, err = dial(s.peer, s.port); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		s.port = anyPort()
	}
	return err
}

func anyPort() int { return firstPort + rand.IntN(ports) }

// dial opens a socket that sends packets to the peer.
func dial(p Peer, port int) (*net.UDPConn, error) {
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: p.Source.AsSlice(), Port: port}}
	to := netip.AddrPortFrom(p.Address, uint16(p.kind().port()))
	conn, err := dialer.Dial(p.kind().network(), to.String())
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UDPConn)
	if p.Address.Is4() {
		with := ipv4.NewConn(socket)
		err = errors.Join(with.SetTTL(ownTTL), with.SetTOS(control))
	} else {
		with := ipv6.NewConn(socket)
		err = errors.Join(with.SetHopLimit(ownTTL), with.SetTrafficClass(control))
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}
