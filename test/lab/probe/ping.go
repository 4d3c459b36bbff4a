package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// protocol holds the differences between ping and ping6; the numbers are assigned by IANA.
type protocol struct {
	network, any   string
	number         int
	request, reply icmp.Type
}

func protocolOf(a netip.Addr) protocol {
	if a.Is4() {
		return protocol{"ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	}
	return protocol{"ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
}

// ping sends one echo request and waits for its reply; it needs CAP_NET_RAW.
func ping(ctx context.Context, address netip.Addr) error {
	p := protocolOf(address)
	conn, err := icmp.ListenPacket(p.network, p.any)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	// A raw socket receives every reply to the pod; the identifier selects our own.
	echo := &icmp.Echo{ID: rand.IntN(1 << 16), Seq: 1, Data: []byte(time.Now().Format(time.RFC3339Nano))}
	packet, err := (&icmp.Message{Type: p.request, Body: echo}).Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := conn.WriteTo(packet, &net.IPAddr{IP: address.AsSlice(), Zone: address.Zone()}); err != nil {
		return err
	}
	return awaitReply(conn, p, echo)
}

func awaitReply(conn *icmp.PacketConn, p protocol, sent *icmp.Echo) error {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("no reply")
		}
		if err != nil {
			return err
		}
		message, err := icmp.ParseMessage(p.number, buffer[:n])
		if err != nil {
			return fmt.Errorf("reply of %s: %w", from, err)
		}
		if got, ok := message.Body.(*icmp.Echo); ok && message.Type == p.reply && got.ID == sent.ID {
			return nil
		}
	}
}
