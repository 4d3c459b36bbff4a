package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// dscpPort is the UDP port that reports the server's name, the caller's address and the DSCP of the datagram: "web-0
// 10.244.0.5:40312/46\n".
const dscpPort = 7002

func dscpUDP(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return reportDSCP(ctx, "udp4", unix.IPPROTO_IP, unix.IP_RECVTOS) })
	group.Go(func() error { return reportDSCP(ctx, "udp6", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS) })
	return group.Wait()
}

// reportDSCP answers the datagrams of one family, whose socket option makes the kernel report the traffic class.
func reportDSCP(ctx context.Context, family string, level, option int) error {
	listener, err := net.ListenPacket(family, fmt.Sprintf(":%d", dscpPort))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	conn, ok := listener.(*net.UDPConn)
	if !ok {
		return fmt.Errorf("port %d: %T is no UDP socket", dscpPort, listener)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	buffer, control := make([]byte, 1<<16), make([]byte, 1<<8)
	for {
		_, n, _, from, err := conn.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			return err
		}
		dscp, err := dscpOf(control[:n])
		if err != nil {
			return err
		}
		client := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		_, _ = conn.WriteToUDPAddrPort(fmt.Appendf(nil, "%s %s/%d\n", hostname(), client, dscp), from) // the client reports errors
	}
}

// dscpOf reads the DSCP, the upper six bits of the traffic class, from a datagram's control messages. Its first byte holds
// the class of IPv4, and of IPv6 on machines with little-endian numbers.
func dscpOf(control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TOS
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_TCLASS
		if (v4 || v6) && len(m.Data) > 0 {
			return int(m.Data[0] >> 2), nil
		}
	}
	return 0, errors.New("a datagram without its traffic class")
}
