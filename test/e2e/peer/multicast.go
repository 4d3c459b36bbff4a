package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// groupPort is the UDP port of datagrams to multicast groups.
const groupPort = 7010

// reach is the TTL of datagrams to multicast groups: enough to pass the router between nodes.
const reach = 8

// overlap is the pause between two datagrams to a group.
const overlap = 100 * time.Millisecond

func newReceive() *cobra.Command {
	var link string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "receive [GROUP]...",
		Short: "Join multicast groups for a time, and print the label of each frame that arrives at a link",
		RunE: func(cmd *cobra.Command, groups []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			return receive(ctx, link, groups, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&link, "link", "eth0", "the link to join and to listen on")
	cmd.Flags().DurationVar(&wait, "for", 4*time.Second, "how long")
	return cmd
}

// receive prints labels as listen does, until ctx ends. Frames that the link itself sends are printed, too.
func receive(ctx context.Context, name string, groups []string, out io.Writer) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	for _, group := range groups {
		address, err := netip.ParseAddr(group)
		if err != nil {
			return err
		}
		conn, err := net.ListenMulticastUDP("udp", link, net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, groupPort)))
		if err != nil {
			return fmt.Errorf("join %s: %w", group, err)
		}
		defer conn.Close()
	}
	frames, err := openPacketSocket(link.Index)
	if err != nil {
		return err
	}
	defer frames.Close()
	stop := context.AfterFunc(ctx, func() { frames.Close() })
	defer stop()
	return printLabels(frames, out)
}

func newSendTo() *cobra.Command {
	var link string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "send GROUP...",
		Short: "Send datagrams with the own name as label to multicast groups for a time",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, groups []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			return sendTo(ctx, link, groups)
		},
	}
	cmd.Flags().StringVar(&link, "link", "eth0", "the link to send from")
	cmd.Flags().DurationVar(&wait, "for", 4*time.Second, "how long")
	return cmd
}

func sendTo(ctx context.Context, link string, groups []string) error {
	var all []*net.UDPConn
	for _, group := range groups {
		address, err := netip.ParseAddr(group)
		if err != nil {
			return err
		}
		if address.Is6() {
			address = address.WithZone(link)
		}
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, groupPort)))
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := setReach(conn, address.Is4()); err != nil {
			return err
		}
		all = append(all, conn)
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	for ticks := time.NewTicker(overlap); ; {
		for _, conn := range all {
			if _, err := conn.Write([]byte(labelMark + name + "\x00")); err != nil {
				return err
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			ticks.Stop()
			return nil
		}
	}
}

func setReach(conn *net.UDPConn, is4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if is4 {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, reach)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, reach)
		}
	})
	return errors.Join(err, failed)
}
