package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// serveUDP answers each datagram from the address that it was sent to. A host with several addresses would else answer from the one that is
// next to the client, which is not the one that the client asked.
func serveUDP(ctx context.Context, port int, answer func(from netip.AddrPort, datagram []byte) []byte) error {
	listener, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	conn, ok := listener.(*net.UDPConn)
	if !ok {
		return fmt.Errorf("port %d: %T is no UDP socket", port, listener)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if err := tellDestination(conn); err != nil {
		return err
	}
	buffer, control := make([]byte, 1<<16), make([]byte, 1<<8)
	for {
		n, controlLen, _, from, err := conn.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			return err
		}
		source, err := sameAddress(control[:controlLen])
		if err != nil {
			return err
		}
		text := answer(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), buffer[:n])
		_, _, _ = conn.WriteMsgUDPAddrPort(text, source, from) // a spoofed source need not be reachable
	}
}

func tellDestination(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) // tells IPv4 addresses, too, as mapped ones
	})
	return errors.Join(err, failed)
}

// sameAddress is the control message by which an answer has the address that the datagram was sent to. The link is left to the routes.
func sameAddress(control []byte) ([]byte, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		var info unix.Inet6Pktinfo
		if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && copy(info.Addr[:], m.Data) == len(info.Addr) {
			return unix.PktInfo6(&info), nil
		}
	}
	return nil, errors.New("a datagram without the address that it was sent to")
}
