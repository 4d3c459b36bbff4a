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

// outcome is the result for a datagram.
type outcome struct {
	TooLong bool   `json:"tooLong"` // the kernel refused it before it left
	Echoed  bool   `json:"echoed"`
	Error   string `json:"error,omitempty"`
}

func newDatagram() *cobra.Command {
	var to string
	size, attempts, fragments := 0, 3, false
	cmd := &cobra.Command{
		Use:   "datagram",
		Short: "Send a datagram of a given IP packet size, with fragmentation forbidden by default, and wait for its echo",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := netip.ParseAddrPort(to)
			if err != nil {
				if address, err = withEchoPort(to); err != nil {
					return err
				}
			}
			var o outcome
			for range attempts {
				if o = send(address, size, fragments); o.Echoed || o.TooLong {
					break
				}
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(o)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "address of a peer, or ADDRESS:PORT of its echo")
	cmd.Flags().IntVar(&size, "size", 0, "size of the IP packet in bytes; with fragments, after reassembly")
	cmd.Flags().BoolVar(&fragments, "fragments", false, "the sender fragments it to the path MTU that it has learned")
	cmd.Flags().IntVar(&attempts, "attempts", attempts, "tries until one succeeds")
	return cmd
}

func withEchoPort(to string) (netip.AddrPort, error) {
	address, err := netip.ParseAddr(to)
	return netip.AddrPortFrom(address, echoPort), err
}

func send(to netip.AddrPort, size int, fragments bool) outcome {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return outcome{Error: err.Error()}
	}
	defer conn.Close()
	if !fragments {
		if err := forbidFragments(conn, to.Addr()); err != nil {
			return outcome{Error: err.Error()}
		}
	}
	header := 28 // IPv4 and UDP
	if to.Addr().Is6() {
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
