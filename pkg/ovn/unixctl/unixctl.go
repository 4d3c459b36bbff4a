// Package unixctl is a client of the control socket of a daemon of Open vSwitch or OVN, like ovs-appctl. It uses
// JSON-RPC 1.0 over a unix socket. A method is a command and its result is text.
package unixctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/weft-network/weft/pkg/process/peer"
)

// Conn is a connection to one daemon. It is not safe for concurrent use.
type Conn struct {
	path    string
	conn    net.Conn
	decoder *json.Decoder
}

// Socket returns the control socket of a program that created its pid file in a run directory: "<program>.<pid>.ctl".
func Socket(runDir, program string) (string, error) {
	pid, err := os.ReadFile(filepath.Join(runDir, program+".pid"))
	if err != nil {
		return "", err
	}
	return filepath.Join(runDir, fmt.Sprintf("%s.%s.ctl", program, bytes.TrimSpace(pid))), nil
}

// Dial connects to a control socket.
func Dial(ctx context.Context, path string) (*Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return &Conn{path: path, conn: conn, decoder: json.NewDecoder(conn)}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// PID returns the daemon's process ID from the kernel.
func (c *Conn) PID() (int, error) {
	pid, err := peer.PID(c.conn.(*net.UnixConn))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.path, err)
	}
	return pid, nil
}

// Call runs a command and returns its output. If the daemon refuses the command, the error contains its message.
func (c *Conn) Call(ctx context.Context, command string, args ...string) (string, error) {
	// A connection that was closed during a call is unusable, because the next call could receive the reply to this
	// one.
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	request := map[string]any{"id": 0, "method": command, "params": append([]string{}, args...)}
	if err := json.NewEncoder(c.conn).Encode(request); err != nil {
		return "", c.failed(ctx, command, err)
	}
	var reply struct {
		Result string  `json:"result"`
		Error  *string `json:"error"`
	}
	if err := c.decoder.Decode(&reply); err != nil {
		return "", c.failed(ctx, command, err)
	}
	if reply.Error != nil {
		return "", fmt.Errorf("%s: %s: %s", c.path, command, strings.TrimSpace(*reply.Error))
	}
	return strings.TrimSpace(reply.Result), nil
}

func (c *Conn) failed(ctx context.Context, command string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %s: %w", c.path, command, err)
}

// AwaitEnd returns when the daemon, or Close, has ended the connection. The error is the reason. An idle daemon sends
// nothing.
func (c *Conn) AwaitEnd() error {
	_, err := c.decoder.Token()
	return err
}

// Call connects, runs one command and returns its output.
func Call(ctx context.Context, path, command string, args ...string) (string, error) {
	c, err := Dial(ctx, path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Call(ctx, command, args...)
}
