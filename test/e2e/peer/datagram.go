package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// outcome is what became of a datagram.
type outcome struct {
	TooLong bool   `json:"tooLong"` // the kernel refused it before it left
	Echoed  bool   `json:"echoed"`
	Error   string `json:"error,omitempty"`
}

func newDatagram() *cobra.Command {
	var to string
	size, attempts := 0, 3
	cmd := &cobra.Command{
		Use:   "datagram",
		Short: "Send an IP packet of a size that nobody may fragment, and wait for its echo",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := netip.ParseAddr(to)
			if err != nil {
				return err
			}
			var o outcome
			for range attempts {
				if o = send(address, size); o.Echoed || o.TooLong {
					break
				}
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(o)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "address of a peer")
	cmd.Flags().IntVar(&size, "size", 0, "of the IP packet, in bytes")
	cmd.Flags().IntVar(&attempts, "attempts", attempts, "tries until one succeeds")
	return cmd
}

func send(to netip.Addr, size int) outcome {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, echoPort)))
	if err != nil {
		return outcome{Error: err.Error()}
	}
	defer conn.Close()
	if err := forbidFragments(conn, to); err != nil {
		return outcome{Error: err.Error()}
	}
	header := 28 // IPv4 and UDP
	if to.Is6() {
		header = 48
	}
	if _, err := conn.Write(make([]byte, size-header)); err != nil {
		return outcome{TooLong: errors.Is(err, syscall.EMSGSIZE), Error: err.Error()}
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return outcome{Error: err.Error()}
	}
	n, err := conn.Read(make([]byte, 1<<16))
	if err != nil {
		return outcome{TooLong: errors.Is(err, syscall.EMSGSIZE), Error: err.Error()}
	}
	if n != size-header {
		return outcome{Error: fmt.Sprintf("%d of %d bytes came back", n, size-header)}
	}
	return outcome{Echoed: true}
}

func forbidFragments(conn *net.UDPConn, to netip.Addr) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if to.Is4() {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
			return
		}
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
	})
	return errors.Join(err, failed)
}
