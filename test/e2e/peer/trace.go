package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// hop is the answer to a datagram with a hop limit.
type hop struct {
	Limit int `json:"limit"` // TTL or hop limit
	// From is the sender of the ICMP error; absent if the destination itself or no host answered.
	From    netip.Addr `json:"from,omitzero"`
	Type    uint8      `json:"type,omitempty"` // of the ICMP error
	Code    uint8      `json:"code,omitempty"`
	Reached bool       `json:"reached,omitempty"`
}

func newTrace() *cobra.Command {
	var to string
	hops := 8
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Send datagrams with hop limit one, two and so on, and print who answers each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := netip.ParseAddrPort(to)
			if err != nil {
				return err
			}
			all, err := trace(address, hops)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "ADDRESS:PORT of a peer")
	cmd.Flags().IntVar(&hops, "hops", hops, "the largest limit to try")
	return cmd
}

// timeExceeded reports whether the datagram ended at a router before its destination (RFC 792, RFC 4443).
func (h hop) timeExceeded(family netip.Addr) bool {
	if family.Is4() {
		return h.Type == 11
	}
	return h.Type == 3
}

// trace ends at the first datagram that reaches its destination, or whose destination a router reports unreachable.
func trace(to netip.AddrPort, hops int) (all []hop, err error) {
	for limit := 1; limit <= hops; limit++ {
		h := hop{Limit: limit}
		const attempts = 3 // a router limits how many errors it sends
		for range attempts {
			if h, err = probe(to, limit); err != nil {
				return all, err
			}
			if h.Reached || h.From.IsValid() {
				break
			}
		}
		if all = append(all, h); h.Reached || h.From.IsValid() && !h.timeExceeded(to.Addr()) {
			break
		}
	}
	return all, nil
}

// probe sends one datagram from its own socket.
func probe(to netip.AddrPort, limit int) (hop, error) {
	h := hop{Limit: limit}
	fd, err := errorSocket(to, limit)
	if err != nil {
		return h, err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("trace")); err != nil {
		return h, fmt.Errorf("limit %d: %w", limit, err)
	}
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	const patience = time.Second
	if n, err := unix.Poll(ready, int(patience.Milliseconds())); err != nil || n == 0 {
		return h, err
	}
	if ready[0].Revents&unix.POLLERR == 0 {
		h.Reached = true
		return h, nil
	}
	control := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 512), control, unix.MSG_ERRQUEUE)
	if err != nil {
		return h, err
	}
	return h, h.read(control[:n])
}

// errorSocket is connected and receives ICMP errors (IP_RECVERR, ip(7)).
func errorSocket(to netip.AddrPort, limit int) (int, error) {
	domain, level, recvErr, ttl := unix.AF_INET, unix.IPPROTO_IP, unix.IP_RECVERR, unix.IP_TTL
	var address unix.Sockaddr = &unix.SockaddrInet4{Port: int(to.Port())}
	if to.Addr().Is6() {
		domain, level, recvErr, ttl = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, unix.IPV6_UNICAST_HOPS
		address = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	} else {
		address.(*unix.SockaddrInet4).Addr = to.Addr().As4()
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(unix.SetsockoptInt(fd, level, recvErr, 1), unix.SetsockoptInt(fd, level, ttl, limit), unix.Connect(fd, address))
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// read parses a struct sock_extended_err and the address after it (linux/errqueue.h).
func (h *hop) read(control []byte) error {
	const errLen, address4, address6 = 16, 4, 8 // length of the error; offset of the address in each family's socket address
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if len(m.Data) < errLen+2 {
			continue
		}
		h.Type, h.Code = m.Data[5], m.Data[6]
		sender := m.Data[errLen:]
		switch family := binary.NativeEndian.Uint16(sender); {
		case family == unix.AF_INET && len(sender) >= address4+4:
			h.From = netip.AddrFrom4([4]byte(sender[address4:]))
		case family == unix.AF_INET6 && len(sender) >= address6+16:
			h.From = netip.AddrFrom16([16]byte(sender[address6:])).Unmap()
		}
	}
	if !h.From.IsValid() {
		return fmt.Errorf("limit %d: an error without a sender: %x", h.Limit, control)
	}
	return nil
}
