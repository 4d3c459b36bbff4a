package cniwire

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent answers one connection as answer does, and returns its socket.
func agent(t *testing.T, answer func(*net.UnixConn)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cni.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		answer(conn)
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return socket
}

func TestDoBringsTheAgentsAnswer(t *testing.T) {
	var asked Request
	socket := agent(t, func(conn *net.UnixConn) {
		if err := Read(conn, &asked); err != nil {
			t.Error(err)
		}
		if err := Write(conn, Response{Error: Errorf(CodeInvalidNetNS, "no")}); err != nil {
			t.Error(err)
		}
	})
	resp, err := Do(t.Context(), socket, podRequest())
	if err != nil || resp.Error == nil || resp.Error.Code != CodeInvalidNetNS {
		t.Errorf("Do gives %+v, %v", resp, err)
	}
	if asked.ContainerID != podRequest().ContainerID {
		t.Errorf("the agent was asked %+v", asked)
	}
}

func TestDoWithoutAnAgent(t *testing.T) {
	refusing := filepath.Join(t.TempDir(), "cni.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: refusing, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()

	for name, socket := range map[string]string{
		"absent":                filepath.Join(t.TempDir(), "absent.sock"),
		"refusing":              refusing,
		"leaving at once":       agent(t, func(*net.UnixConn) {}),
		"leaving after asking":  agent(t, func(conn *net.UnixConn) { _ = Read(conn, &Request{}) }),
		"leaving in its answer": agent(t, func(conn *net.UnixConn) { _ = Read(conn, &Request{}); _, _ = conn.Write([]byte{0, 0, 0, 9, '{'}) }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Do(t.Context(), socket, podRequest()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), socket) {
				t.Errorf("Do says %v", err)
			}
		})
	}
}

func TestDoWithAnAgentThatTalksNonsense(t *testing.T) {
	socket := agent(t, func(conn *net.UnixConn) {
		_ = Read(conn, &Request{})
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n")
	})
	_, err := Do(t.Context(), socket, podRequest())
	var coded *Error
	if !errors.As(err, &coded) || coded.Code != CodeDecodingFailure || errors.Is(err, ErrUnavailable) {
		t.Errorf("Do says %v", err)
	}
}

// The agent sees that the runtime gave up, and Do does not wait for it.
func TestDoEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	peerLeft := make(chan error, 1)
	socket := agent(t, func(conn *net.UnixConn) {
		_ = Read(conn, &Request{})
		cancel()
		_, err := conn.Read(make([]byte, 1))
		peerLeft <- err
	})
	if _, err := Do(ctx, socket, podRequest()); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("Do says %v", err)
	}
	if err := <-peerLeft; !errors.Is(err, io.EOF) {
		t.Errorf("the agent reads %v", err)
	}
}
