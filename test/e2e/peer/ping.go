package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sync/errgroup"
)

// lateReply is how long the test waits for replies to the last requests.
const lateReply = time.Second

// numberLength is the length of the number at the start of a request's data.
const numberLength = 8

func newPing() *cobra.Command {
	var to []string
	every, size := 20*time.Millisecond, numberLength
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Send echo requests to several addresses until the standard input ends, then print what was lost as JSON",
		Long:  `Prints the line "ready" once every address has answered; earlier requests do not count.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			streams, err := openStreams(to, size)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			go func() { _, _ = io.Copy(io.Discard, cmd.InOrStdin()); cancel() }()
			return pingAll(ctx, streams, every, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&to, "to", nil, "an address; may be given again")
	cmd.Flags().IntVar(&size, "size", size,
		"bytes of data in a request, at least 8; the sender fragments data that is too large for a packet")
	cmd.Flags().DurationVar(&every, "every", every, "the time between two requests to one address")
	return cmd
}

func openStreams(to []string, size int) ([]*stream, error) {
	var streams []*stream
	for _, text := range to {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		s, err := newStream(address, size)
		if err != nil {
			return nil, err
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// pingAll pings until ctx ends.
func pingAll(ctx context.Context, streams []*stream, every time.Duration, out io.Writer) error {
	var group errgroup.Group
	var answered sync.WaitGroup
	for _, s := range streams {
		answered.Add(1)
		group.Go(func() error { return s.receive(answered.Done) })
		group.Go(func() error { return s.send(ctx, every) })
	}
	go func() { answered.Wait(); fmt.Fprintln(out, "ready") }()
	if err := group.Wait(); err != nil {
		return err
	}
	reports := make([]report, 0, len(streams))
	for _, s := range streams {
		reports = append(reports, s.report())
	}
	return json.NewEncoder(out).Encode(reports)
}

// report is the result for one address since its first reply.
type report struct {
	To   netip.Addr `json:"to"`
	Sent int        `json:"sent"`
	Lost int        `json:"lost"`
	// Gaps are the runs of requests that were never answered.
	Gaps []gap `json:"gaps,omitempty"`
}

// gap is a run of lost requests.
type gap struct {
	At    time.Time `json:"at"`    // when the first was sent
	Until time.Time `json:"until"` // when the next answered request was sent, or the last lost one
	Lost  int       `json:"lost"`
}

// stream is the requests to one address.
type stream struct {
	to     netip.Addr
	size   int // bytes of data in a request
	conn   *icmp.PacketConn
	id     int
	number int // of the protocol, assigned by IANA
	kind   icmp.Type
	reply  icmp.Type

	mu       sync.Mutex
	sent     []time.Time // by sequence number
	answered []bool      // by sequence number
	first    int         // the first answered; -1: no answer yet
}

func newStream(to netip.Addr, size int) (*stream, error) {
	s := &stream{to: to, size: max(size, numberLength), id: rand.IntN(1 << 16), first: -1}
	network, any := "ip4:icmp", "0.0.0.0"
	s.number, s.kind, s.reply = 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if to.Is6() {
		network, any = "ip6:ipv6-icmp", "::"
		s.number, s.kind, s.reply = 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	var err error
	s.conn, err = icmp.ListenPacket(network, any)
	return s, err
}

// send sends requests until ctx ends, and then waits for the last replies.
func (s *stream) send(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := s.request(); err != nil {
			return fmt.Errorf("%s: %w", s.to, err)
		}
		select {
		case <-ctx.Done():
			return s.conn.SetReadDeadline(time.Now().Add(lateReply))
		case <-ticker.C:
		}
	}
}

func (s *stream) request() error {
	s.mu.Lock()
	n := len(s.sent)
	s.sent, s.answered = append(s.sent, time.Now()), append(s.answered, false)
	s.mu.Unlock()
	body := &icmp.Echo{ID: s.id, Seq: n & 0xffff, Data: append(binary.BigEndian.AppendUint64(nil, uint64(n)),
		make([]byte, s.size-numberLength)...)}
	packet, err := (&icmp.Message{Type: s.kind, Body: body}).Marshal(nil)
	if err != nil {
		return err
	}
	_, err = s.conn.WriteTo(packet, &net.IPAddr{IP: s.to.AsSlice()})
	return err
}

// receive calls first after the first reply. It ends at the read deadline.
func (s *stream) receive(first func()) error {
	notify := sync.OnceFunc(first)
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := s.conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			notify()
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.to, err)
		}
		message, err := icmp.ParseMessage(s.number, buffer[:n])
		if err != nil {
			continue // a raw socket receives every packet of its protocol
		}
		echo, ok := message.Body.(*icmp.Echo)
		if ok && message.Type == s.reply && echo.ID == s.id && len(echo.Data) == s.size && s.note(binary.BigEndian.Uint64(echo.Data)) {
			notify()
		}
	}
}

func (s *stream) note(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number >= uint64(len(s.answered)) {
		return false
	}
	s.answered[number] = true
	if s.first < 0 || int(number) < s.first {
		s.first = int(number)
	}
	return true
}

func (s *stream) report() report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := report{To: s.to}
	if s.first < 0 {
		r.Sent, r.Lost = len(s.sent), len(s.sent)
		return r
	}
	inGap := false
	for i, answered := range slices.All(s.answered[s.first:]) {
		r.Sent++
		if inGap {
			r.Gaps[len(r.Gaps)-1].Until = s.sent[s.first+i]
		}
		if !answered {
			if !inGap {
				r.Gaps = append(r.Gaps, gap{At: s.sent[s.first+i]})
			}
			r.Lost++
			r.Gaps[len(r.Gaps)-1].Lost++
		}
		inGap = !answered
	}
	return r
}

// echo sends one echo request. Its answer has no name.
func echo(to string, patience time.Duration) called {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return failed(err)
	}
	s, err := newStream(at.Addr(), numberLength)
	if err != nil {
		return failed(err)
	}
	defer s.conn.Close()
	if err := errors.Join(s.conn.SetReadDeadline(time.Now().Add(patience)), s.request()); err != nil {
		return failed(err)
	}
	ctx, answered := context.WithCancel(context.Background())
	go func() {
		<-ctx.Done()
		_ = s.conn.SetReadDeadline(time.Now()) // ends receive
	}()
	if err := s.receive(answered); err != nil {
		return failed(err)
	}
	if r := s.report(); r.Lost > 0 {
		return failed(os.ErrDeadlineExceeded)
	}
	return called{}
}
