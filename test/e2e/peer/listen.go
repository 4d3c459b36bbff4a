package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// shown is how many bytes of a frame are printed: the headers of a packet in a tunnel.
const shown = 128

// labelMark begins the label of a frame. The label ends at a zero byte or at the end of the frame.
const labelMark = "weft-peer:"

func newListen() *cobra.Command {
	var link string
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Print the label of each frame of any kind that arrives at a link, until the standard input ends",
		Long:  `Prints the line "ready" once it receives every frame. After a label and a tab come the frame's first bytes.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listen(cmd.Context(), link, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&link, "link", "eth0", "the link to listen on")
	return cmd
}

// listen receives frames before the kernel filters them, so it also prints frames that the kernel drops.
func listen(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	frames, err := openPacketSocket(link.Index)
	if err != nil {
		return err
	}
	defer frames.Close()
	stop := context.AfterFunc(ctx, func() { frames.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		frames.Close()
	}()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	return printLabels(frames, out)
}

func openPacketSocket(index int) (*os.File, error) {
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in the network's order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packets"), nil
}

func printLabels(frames io.Reader, out io.Writer) error {
	buffer := make([]byte, 1<<16)
	for {
		n, err := frames.Read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		_, label, ok := bytes.Cut(buffer[:n], []byte(labelMark))
		if !ok || isError(buffer[:n]) {
			continue
		}
		label, _, _ = bytes.Cut(label, []byte{0})
		if _, err := fmt.Fprintf(out, "%s\t%x\n", label, buffer[:min(n, shown)]); err != nil {
			return err
		}
	}
}

// isError reports whether a frame is an ICMP error. It quotes the packet that it answers, with its label: a host reports a
// fragment 30 s after the fragment has arrived, if the rest of the datagram is missing.
func isError(frame []byte) bool {
	const ethernet, ipv6Header = 14, 40
	if len(frame) < ethernet+ipv6Header+1 {
		return false
	}
	switch packet := frame[ethernet:]; binary.BigEndian.Uint16(frame[ethernet-2:]) {
	case unix.ETH_P_IP:
		return packet[9] == unix.IPPROTO_ICMP
	case unix.ETH_P_IPV6:
		return packet[6] == unix.IPPROTO_ICMPV6 && packet[ipv6Header] < 128 // messages that are no errors have larger types
	}
	return false
}
