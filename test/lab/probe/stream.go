package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

const (
	streamRate    = 10 * time.Millisecond // interval of the datagrams, and of the bytes on the connection
	streamReports = time.Second           // interval of the reports
)

// streamReport is a stream's result since its start.
type streamReport struct {
	Peer string `json:"peer"`
	Sent int    `json:"sent"` // datagrams
	Back int    `json:"back"`
	Lost int    `json:"lost"` // datagrams before the last echo that were not echoed
	// SilenceMs is the longest time without an echoed datagram, and TCPSilenceMs the longest time without an echoed
	// byte on the connection.
	SilenceMs    int64  `json:"silenceMs"`
	TCPBytes     int    `json:"tcpBytes"`
	TCPSilenceMs int64  `json:"tcpSilenceMs"`
	TCPError     string `json:"tcpError,omitempty"` // set if the connection ended
}

// stream sends datagrams to an echo at a steady rate, and bytes on one connection, which is never reestablished.
type stream struct {
	mu           sync.Mutex
	report       streamReport
	last         int       // number of the latest echoed datagram
	datagram, by time.Time // times of the last echoes
}

func newStream() *cobra.Command {
	return &cobra.Command{
		Use:   "stream HOST:PORT",
		Short: "Send 100 datagrams a second, and bytes on a long connection, to an echo; print the results each second",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := &stream{report: streamReport{Peer: args[0]}}
			return s.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

func (s *stream) run(ctx context.Context, out io.Writer) error {
	udp, err := net.Dial("udp", s.report.Peer)
	if err != nil {
		return err
	}
	defer udp.Close()
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.report.Peer)
	if err != nil {
		return err
	}
	defer tcp.Close()
	s.datagram, s.by = time.Now(), time.Now()
	go s.receive(udp)
	go s.read(tcp)
	go s.write(ctx, tcp)
	tick, reports := time.NewTicker(streamRate), time.NewTicker(streamReports)
	defer tick.Stop()
	defer reports.Stop()
	for n := uint64(0); ; {
		select {
		case <-ctx.Done():
			return s.print(out)
		case <-reports.C:
			if err := s.print(out); err != nil {
				return err
			}
		case <-tick.C:
			n++
			s.count(func(r *streamReport) { r.Sent++ })
			_, _ = udp.Write(binary.BigEndian.AppendUint64(nil, n)) // a refused datagram counts as lost
		}
	}
}

func (s *stream) count(do func(*streamReport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(&s.report)
}

func (s *stream) receive(udp net.Conn) {
	buffer := make([]byte, 64)
	for {
		n, err := udp.Read(buffer)
		if err != nil || n < 8 {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error is not an echo
		}
		now, last := time.Now(), int(binary.BigEndian.Uint64(buffer))
		s.count(func(r *streamReport) {
			r.Back++
			s.last = max(s.last, last)
			r.Lost = s.last - r.Back
			r.SilenceMs = max(r.SilenceMs, now.Sub(s.datagram).Milliseconds())
			s.datagram = now
		})
	}
}

func (s *stream) read(tcp net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := tcp.Read(buffer)
		now := time.Now()
		s.count(func(r *streamReport) {
			if err != nil {
				r.TCPError = err.Error()
				return
			}
			r.TCPBytes += n
			r.TCPSilenceMs = max(r.TCPSilenceMs, now.Sub(s.by).Milliseconds())
			s.by = now
		})
		if err != nil {
			return
		}
	}
}

func (s *stream) write(ctx context.Context, tcp net.Conn) {
	tick := time.NewTicker(streamRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := tcp.Write([]byte{'.'}); err != nil {
				s.count(func(r *streamReport) { r.TCPError = err.Error() })
				return
			}
		}
	}
}

func (s *stream) print(out io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.NewEncoder(out).Encode(s.report)
}

// echo echoes datagrams and bytes of connections until ctx ends.
func echo(ctx context.Context, port int) error {
	udp, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { udp.Close(); tcp.Close() })
	go func() {
		buffer := make([]byte, 64)
		for {
			n, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buffer[:n], from)
		}
	}()
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := io.Copy(conn, conn); err != nil {
					fmt.Fprintln(os.Stderr, "probe: echo:", err)
				}
			}()
		}
	}()
	return nil
}
