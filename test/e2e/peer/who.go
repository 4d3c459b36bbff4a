package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// whoPort tells over TCP and UDP who answers and whom it sees: "web-0 10.244.0.5:40312\n".
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
			_, _ = fmt.Fprintln(conn, hostname(), conn.RemoteAddr()) // the client tells what it got
		}()
	}
}

func whoUDP(ctx context.Context) error {
	conn, err := net.ListenPacket("udp", fmt.Sprintf(":%d", whoPort))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	buffer := make([]byte, 1<<10)
	for {
		_, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		_, _ = conn.WriteTo(fmt.Appendln(nil, hostname(), from), from)
	}
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// called is what became of one call.
type called struct {
	Server  string `json:"server,omitempty"`  // who answered
	Client  string `json:"client,omitempty"`  // whom the server saw, ADDRESS:PORT
	Refused bool   `json:"refused,omitempty"` // by a reset or an ICMP message
	Error   string `json:"error,omitempty"`
}

func newCall() *cobra.Command {
	var to, protocol string
	var count, from int
	cmd := &cobra.Command{
		Use:   "call",
		Short: "Ask a peer who it is, again and again, and print what became of each call",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := make([]called, 0, count)
			for range count {
				all = append(all, call(protocol, to, from))
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "ADDRESS:PORT")
	cmd.Flags().StringVar(&protocol, "protocol", "tcp", "tcp or udp")
	cmd.Flags().IntVar(&count, "count", 1, "calls, each over a connection of its own")
	cmd.Flags().IntVar(&from, "from", 0, "the client's port; 0: any")
	return cmd
}

func call(protocol, to string, from int) called {
	const patience = 2 * time.Second
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
