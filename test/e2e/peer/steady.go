package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// steadyInterval is the time between two packets of a UDP sender, and between two connections of a TCP sender.
const steadyInterval = 50 * time.Millisecond

// answering says who answered a steady sender.
type answering struct {
	Server string `json:"server"` // of the last answer
	Age    int64  `json:"age"`    // ms since the question
}

func newSteady() *cobra.Command {
	var to []string
	cmd := &cobra.Command{
		Use:   "steady",
		Short: "Keep asking peers for their names, by UDP from one port for each, and by new TCP connections, until the standard input ends",
		Long: `Prints the line "ready" at once. For each line of the standard input it prints, as JSON, who answered last at each target and the
age of the question. A line that names a target gives its UDP sender another port first.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return steady(cmd.Context(), to, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&to, "to", nil, "udp/ADDRESS:PORT or tcp/ADDRESS:PORT; may be given again")
	return cmd
}

// lastAnswers has the last answer of each target.
type lastAnswers struct {
	mu    sync.Mutex
	names map[string]string
	asked map[string]time.Time
}

func (l *lastAnswers) put(target, answer string, asked time.Time) {
	name, _, _ := strings.Cut(strings.TrimSpace(answer), " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names[target], l.asked[target] = name, asked
}

func (l *lastAnswers) all() map[string]answering {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(map[string]answering, len(l.names))
	for target, name := range l.names {
		found[target] = answering{name, time.Since(l.asked[target]).Milliseconds()}
	}
	return found
}

func steady(ctx context.Context, to []string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last, ports := &lastAnswers{names: map[string]string{}, asked: map[string]time.Time{}}, map[string]context.CancelFunc{}
	begin := func(target string) error {
		protocol, address, _ := strings.Cut(target, "/")
		if protocol == "tcp" {
			go steadyTCP(ctx, address, func(answer string, asked time.Time) { last.put(target, answer, asked) })
			return nil
		}
		conn, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		one, end := context.WithCancel(ctx)
		ports[target] = end
		go func() {
			defer conn.Close()
			steadyUDP(one, conn, func(answer string, asked time.Time) { last.put(target, answer, asked) })
		}()
		return nil
	}
	for _, target := range to {
		if err := begin(target); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if end := ports[lines.Text()]; end != nil {
			end()
			if err := begin(lines.Text()); err != nil {
				return err
			}
		}
		if err := json.NewEncoder(out).Encode(last.all()); err != nil {
			return err
		}
	}
	return nil
}

// steadyUDP sends and receives in turns, so that an answer belongs to the last question or to the one before.
func steadyUDP(ctx context.Context, conn net.Conn, answered func(string, time.Time)) {
	buffer := make([]byte, 1<<10)
	for ctx.Err() == nil {
		asked := time.Now()
		_, err := conn.Write([]byte("who\n")) // may report the refusal of an earlier one
		_ = conn.SetReadDeadline(asked.Add(steadyInterval))
		for err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			var n int
			if n, err = conn.Read(buffer); err == nil {
				answered(string(buffer[:n]), asked)
			} else if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
		}
		time.Sleep(time.Until(asked.Add(steadyInterval)))
	}
}

// steadyTCP begins connections without waiting for earlier ones.
func steadyTCP(ctx context.Context, to string, answered func(string, time.Time)) {
	for ctx.Err() == nil {
		asked := time.Now()
		go func() {
			const patience = time.Second
			conn, err := net.DialTimeout("tcp", to, patience)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(asked.Add(patience))
			if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				answered(line, asked)
			}
		}()
		time.Sleep(2 * steadyInterval)
	}
}
