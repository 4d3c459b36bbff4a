package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

const (
	// holdInterval is the time between two packets of a held connection.
	holdInterval = 20 * time.Millisecond
	// holdRounds is how many more packets hold sends over each connection for a line of its standard input.
	holdRounds = 50
)

func newHold() *cobra.Command {
	var to []string
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Keep sending over one connection of each protocol (ICMP, UDP, TCP) to peers, until the standard input ends",
		Long: `Prints the line "ready" once each connection was answered. For each line of the standard input it prints "sent" when it has sent
50 more packets over each. Answers do not matter then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return hold(cmd.Context(), to, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&to, "to", nil, "an address; may be given again")
	return cmd
}

// hold opens the connections and sends over all of them in rounds.
func hold(ctx context.Context, to []string, in io.Reader, out io.Writer) error {
	var answered sync.WaitGroup
	var sends []func() error
	for _, text := range to {
		opened, err := openAll(ctx, text, &answered)
		if err != nil {
			return err
		}
		sends = append(sends, opened...)
	}
	ready, asked := make(chan struct{}), make(chan struct{})
	go func() { answered.Wait(); close(ready) }()
	go func() {
		defer close(asked)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			asked <- struct{}{}
		}
	}()
	ticker := time.NewTicker(holdInterval)
	defer ticker.Stop()
	left := 0 // rounds until "sent"
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ready:
			ready = nil
			fmt.Fprintln(out, "ready")
		case _, more := <-asked:
			if !more {
				return nil
			}
			left = holdRounds
		case <-ticker.C:
			for _, send := range sends {
				_ = send() // an error of a datagram is about an earlier one, and a broken connection sends nothing
			}
			if left--; left == 0 {
				fmt.Fprintln(out, "sent")
			}
		}
	}
}

// openAll opens a connection of each protocol to an address, and returns what sends over them.
func openAll(ctx context.Context, text string, answered *sync.WaitGroup) (sends []func() error, err error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return nil, err
	}
	s, err := newStream(address, numberLength)
	if err != nil {
		return nil, err
	}
	answered.Add(1)
	go func() { _ = s.receive(answered.Done) }()
	sends = append(sends, s.request)
	for _, protocol := range []string{"udp", "tcp"} {
		conn, err := (&net.Dialer{}).DialContext(ctx, protocol, netip.AddrPortFrom(address, echoPort).String())
		if err != nil {
			return nil, err
		}
		answered.Add(1)
		go readAnswers(conn, sync.OnceFunc(answered.Done))
		sends = append(sends, func() error {
			if err := conn.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil { // a denied connection's buffer is soon full
				return err
			}
			_, err := conn.Write(make([]byte, numberLength))
			return err
		})
	}
	return sends, nil
}

// readAnswers reads until the connection ends, and calls first after the first answer. An error of a datagram does not end it.
func readAnswers(conn net.Conn, first func()) {
	_, datagrams := conn.(*net.UDPConn)
	buffer := make([]byte, 1<<16)
	for {
		_, err := conn.Read(buffer)
		if err == nil {
			first()
		} else if !datagrams {
			return
		}
	}
}

func newTally() *cobra.Command {
	var from []string
	link := "eth0"
	cmd := &cobra.Command{
		Use:   "tally",
		Short: "Count the packets that arrive from peers, by protocol, and print the counts as JSON for each line of the standard input",
		Long:  `Counts echo requests, UDP and TCP. Prints the line "ready" once it receives every frame.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return tally(link, from, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&from, "from", nil, "an address of a peer; may be given again")
	cmd.Flags().StringVar(&link, "link", link, "the link to listen on")
	return cmd
}

func tally(name string, from []string, in io.Reader, out io.Writer) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	frames, err := openPacketSocket(link.Index)
	if err != nil {
		return err
	}
	defer frames.Close()
	counts := counter{from: strings.Join(from, ","), counts: map[string]int{}}
	go counts.read(frames)
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := counts.print(out); err != nil {
			return err
		}
	}
	return nil
}

// counter counts packets by protocol and family, such as "udp6".
type counter struct {
	from string // addresses, joined by commas

	mu     sync.Mutex
	counts map[string]int
}

func (c *counter) read(frames *os.File) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := frames.Read(buffer)
		if err != nil {
			return
		}
		if source, kind := kindOf(buffer[:n]); kind != "" && strings.Contains(","+c.from+",", ","+source.String()+",") {
			c.mu.Lock()
			c.counts[kind]++
			c.mu.Unlock()
		}
	}
}

func (c *counter) print(out io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.NewEncoder(out).Encode(c.counts)
}

// kindOf returns the source of a packet, and its protocol and family. Other packets than echo requests, UDP and TCP have no kind.
func kindOf(frame []byte) (source netip.Addr, kind string) {
	const ethernet = 14
	if len(frame) < ethernet {
		return netip.Addr{}, ""
	}
	packet, protocol, payload, family := frame[ethernet:], byte(0), byte(0), "4"
	switch etherType := binary.BigEndian.Uint16(frame[ethernet-2:]); {
	case etherType == unix.ETH_P_IP && len(packet) > ipv4.HeaderLen:
		source, _ = netip.AddrFromSlice(packet[12:16])
		protocol, payload = packet[9], packet[ipv4.HeaderLen]
	case etherType == unix.ETH_P_IPV6 && len(packet) > ipv6.HeaderLen:
		source, _ = netip.AddrFromSlice(packet[8:24])
		protocol, payload, family = packet[6], packet[ipv6.HeaderLen], "6"
	default:
		return netip.Addr{}, ""
	}
	switch {
	case protocol == unix.IPPROTO_UDP:
		return source, "udp" + family
	case protocol == unix.IPPROTO_TCP:
		return source, "tcp" + family
	case protocol == unix.IPPROTO_ICMP && payload == byte(ipv4.ICMPTypeEcho),
		protocol == unix.IPPROTO_ICMPV6 && payload == byte(ipv6.ICMPTypeEchoRequest):
		return source, "icmp" + family
	}
	return source, ""
}
