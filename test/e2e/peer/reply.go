package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// serveUDP answers each datagram from the address that it was sent to. Otherwise a host with several addresses would
// answer from the address nearest to the client, not from the address that the client called.
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
	if err := enableDestinationInfo(conn); err != nil {
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

func enableDestinationInfo(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) // reports IPv4 addresses too, in mapped form
	})
	return errors.Join(err, failed)
}

// sameAddress returns the control message that gives an answer the address to which the datagram was sent. The
// routes choose the link.
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
	return nil, errors.New("a datagram without its destination address")
}
