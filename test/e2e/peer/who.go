package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// whoPort is the TCP and UDP port that reports the server's name and the caller's address: "web-0
// 10.244.0.5:40312\n".
const whoPort = 7001

func whoTCP(ctx context.Context) error {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", whoPort))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = fmt.Fprintln(conn, hostname(), conn.RemoteAddr()) // the client reports errors
		}()
	}
}

func whoUDP(ctx context.Context) error {
	return serveUDP(ctx, whoPort, func(from netip.AddrPort, _ []byte) []byte { return fmt.Appendln(nil, hostname(), from) })
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// called is the result of one call.
type called struct {
	Server  string `json:"server,omitempty"`  // who answered
	Client  string `json:"client,omitempty"`  // the caller as the server saw it, ADDRESS:PORT
	Refused bool   `json:"refused,omitempty"` // by a reset or an ICMP message
	Error   string `json:"error,omitempty"`
}

func newCall() *cobra.Command {
	var to, protocol string
	var count, from int
	cmd := &cobra.Command{
		Use:   "call",
		Short: "Call a peer repeatedly for its name, and print the result of each call",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := calls{Protocol: protocol, To: to, Count: count, From: from}.make()
			return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "ADDRESS:PORT")
	cmd.Flags().StringVar(&protocol, "protocol", "tcp", "tcp, udp, or icmp, whose port counts for nothing")
	cmd.Flags().IntVar(&count, "count", 1, "calls, each over a connection of its own")
	cmd.Flags().IntVar(&from, "from", 0, "the client's port; 0: any")
	return cmd
}

// calls are several sequential calls to one address.
type calls struct {
	Protocol string `json:"protocol"`
	To       string `json:"to"` // ADDRESS:PORT
	Count    int    `json:"count"`
	From     int    `json:"from,omitempty"` // the client's port; 0: any
	Stop     bool   `json:"stop,omitempty"` // after the first failed call
}

func (c calls) make() []called {
	all := make([]called, 0, c.Count)
	for range c.Count {
		all = append(all, call(c.Protocol, c.To, c.From))
		if c.Stop && all[len(all)-1].Error != "" {
			break
		}
	}
	return all
}

func newCallAll() *cobra.Command {
	return &cobra.Command{
		Use:   "call-all",
		Short: `Make the calls that the standard input names as JSON, [{"protocol","to","count","stop"}], and print the results of each`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wanted []calls
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&wanted); err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(callAll(wanted))
		},
	}
}

// callAll calls several addresses at a time, because unanswered calls take long.
func callAll(wanted []calls) [][]called {
	const parallel = 16
	became := make([][]called, len(wanted))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, c := range wanted {
		group.Go(func() error { became[i] = c.make(); return nil })
	}
	_ = group.Wait() // results hold their own errors
	return became
}

func call(protocol, to string, from int) called {
	const patience = 2 * time.Second
	if protocol == "icmp" {
		return echo(to, patience)
	}
	dialer := net.Dialer{Timeout: patience}
	switch {
	case from != 0 && protocol == "udp":
		dialer.LocalAddr = &net.UDPAddr{Port: from}
	case from != 0:
		dialer.LocalAddr = &net.TCPAddr{Port: from}
	}
	conn, err := dialer.Dial(protocol, to)
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return failed(err)
	}
	if protocol == "udp" {
		if _, err := conn.Write([]byte("who\n")); err != nil {
			return failed(err)
		}
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return failed(err)
	}
	server, client, _ := strings.Cut(strings.TrimSpace(line), " ")
	return called{Server: server, Client: client}
}

func failed(err error) called {
	return called{Refused: errors.Is(err, syscall.ECONNREFUSED), Error: err.Error()}
}
