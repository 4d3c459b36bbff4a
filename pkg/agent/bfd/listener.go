package bfd

import (
	"errors"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	// singleHopPort and multiHopPort are the UDP ports to which packets go (RFC 5881 §4, RFC 5883 §5).
	singleHopPort, multiHopPort = 3784, 4784
	// ownTTL is the TTL or hop limit of sent packets. A packet that has it comes from the link (RFC 5881 §5).
	ownTTL = 255
	// control is the traffic class of sent packets: network control (CS6, RFC 4594 §3.1).
	control = 0xc0
	// maxDatagram is longer than each packet that Parse accepts.
	maxDatagram = 256
)

// kind is what a listener receives.
type kind struct{ is4, multiHop bool }

func (k kind) network() string {
	if k.is4 {
		return "udp4"
	}
	return "udp6"
}

func (k kind) port() int {
	if k.multiHop {
		return multiHopPort
	}
	return singleHopPort
}

// listener receives the packets of all sessions of a kind.
type listener struct {
	socket net.PacketConn
	done   chan struct{}
}

// listen calls deliver for each datagram until the listener is closed. The datagram is only valid during the call.
func listen(k kind, deliver func(k kind, from netip.Addr, ttl int, datagram []byte)) (*listener, error) {
	socket, err := net.ListenPacket(k.network(), net.JoinHostPort("", strconv.Itoa(k.port())))
	if err != nil {
		return nil, err
	}
	read, err := reader(k, socket)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	l := &listener{socket: socket, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		buffer := make([]byte, maxDatagram)
		for {
			length, ttl, from, err := read(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if udp, ok := from.(*net.UDPAddr); ok && err == nil {
				deliver(k, udp.AddrPort().Addr().Unmap(), ttl, buffer[:length])
			}
		}
	}()
	return l, nil
}

// reader returns what reads a datagram with its TTL or hop limit.
func reader(k kind, socket net.PacketConn) (func([]byte) (length, ttl int, from net.Addr, err error), error) {
	if k.is4 {
		with := ipv4.NewPacketConn(socket)
		return func(b []byte) (int, int, net.Addr, error) {
			length, message, from, err := with.ReadFrom(b)
			if message == nil {
				return length, 0, from, err
			}
			return length, message.TTL, from, err
		}, with.SetControlMessage(ipv4.FlagTTL, true)
	}
	with := ipv6.NewPacketConn(socket)
	return func(b []byte) (int, int, net.Addr, error) {
		length, message, from, err := with.ReadFrom(b)
		if message == nil {
			return length, 0, from, err
		}
		return length, message.HopLimit, from, err
	}, with.SetControlMessage(ipv6.FlagHopLimit, true)
}

// close ends the listener. The caller must not hold a lock that deliver takes, because close waits for it.
func (l *listener) close() {
	_ = l.socket.Close() // it was open, and nothing is left to do about an error
	<-l.done
}
