package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// Sizes of headers (RFC 791, RFC 8200, RFC 768), the smallest MTUs of IPv4 and IPv6, and the largest packet.
const (
	ipv4Header, ipv6Header, udpHeader = 20, 40, 8
	ipv4Least, ipv6Least              = 576, 1280
	maxPacket                         = 65535
)

// sizePatience is how long the answer to one size may take, and sizesPatience all of them. A packet that is too large
// gets no answer.
const (
	sizePatience  = 500 * time.Millisecond
	sizesPatience = 30 * time.Second
)

// sizeAttempts is how often a size is sent, because a single datagram may be lost for other reasons.
const sizeAttempts = 3

// largest finds the largest packet that arrives and returns without fragments, up to the link's MTU.
func largest(ctx context.Context, p connectivity.Probe) (r connectivity.Result, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", p.To)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	if err := unfragmented(conn.(*net.UDPConn)); err != nil {
		return r, err
	}
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return r, err
	}
	if r.MTU, err = linkMTU(local.Addr()); err != nil {
		return r, err
	}
	headers, least := ipv4Header+udpHeader, ipv4Least
	if local.Addr().Unmap().Is6() {
		headers, least = ipv6Header+udpHeader, ipv6Least
	}
	fits := func(size int) bool { // of the packet
		for range sizeAttempts {
			if ctx.Err() != nil {
				return false
			}
			server, err := exchange(conn, size-headers, time.Now().Add(sizePatience))
			if err == nil {
				r.Server = server
				return true
			}
			if errors.Is(err, unix.EMSGSIZE) {
				return false
			}
		}
		return false
	}
	r.MTU = min(r.MTU, maxPacket)
	r.Size = bisect(least, r.MTU, fits)
	switch {
	case ctx.Err() != nil:
		return connectivity.Result{MTU: r.MTU}, fmt.Errorf("the largest packet was not found within %s", sizesPatience)
	case r.Size == 0:
		return r, fmt.Errorf("no packet of %d bytes arrived", least)
	case r.Size < r.MTU:
		return r, fmt.Errorf("packets of more than %d bytes do not arrive, and the link's MTU is %d", r.Size, r.MTU)
	}
	return r, nil
}

// bisect returns the largest value from least to most that fits, or 0. If a value fits, all smaller ones do.
func bisect(least, most int, fits func(int) bool) int {
	if least >= most || fits(most) {
		return most
	}
	if !fits(least) {
		return 0
	}
	for most-least > 1 {
		if middle := (least + most) / 2; fits(middle) {
			least = middle
		} else {
			most = middle
		}
	}
	return least
}
