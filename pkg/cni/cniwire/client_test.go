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

// agent serves one connection with answer, and returns the path of its socket.
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

func TestDoReturnsTheAgentsAnswer(t *testing.T) {
	var received Request
	socket := agent(t, func(conn *net.UnixConn) {
		if err := Read(conn, &received); err != nil {
			t.Error(err)
		}
		if err := Write(conn, Response{Error: Errorf(CodeInvalidNetNS, "no")}); err != nil {
			t.Error(err)
		}
	})
	resp, err := Do(t.Context(), socket, podRequest())
	if err != nil || resp.Error == nil || resp.Error.Code != CodeInvalidNetNS {
		t.Errorf("Do: %+v, %v", resp, err)
	}
	if received.ContainerID != podRequest().ContainerID {
		t.Errorf("the agent received %+v", received)
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
		"absent":                   filepath.Join(t.TempDir(), "absent.sock"),
		"refusing":                 refusing,
		"closed immediately":       agent(t, func(*net.UnixConn) {}),
		"closed after the request": agent(t, func(conn *net.UnixConn) { _ = Read(conn, &Request{}) }),
		"closed during the answer": agent(t, func(conn *net.UnixConn) {
			_ = Read(conn, &Request{})
			_, _ = conn.Write([]byte{0, 0, 0, 9, '{'})
		}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Do(t.Context(), socket, podRequest())
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), socket) {
				t.Errorf("Do: %v", err)
			}
		})
	}
}

func TestDoWithAnInvalidAnswer(t *testing.T) {
	socket := agent(t, func(conn *net.UnixConn) {
		_ = Read(conn, &Request{})
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n")
	})
	_, err := Do(t.Context(), socket, podRequest())
	var coded *Error
	if !errors.As(err, &coded) || coded.Code != CodeDecodingFailure || errors.Is(err, ErrUnavailable) {
		t.Errorf("Do: %v", err)
	}
}

// Do returns when its context ends, and the agent notices that the runtime has given up.
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
		t.Errorf("Do: %v", err)
	}
	if err := <-peerLeft; !errors.Is(err, io.EOF) {
		t.Errorf("the agent's read: %v", err)
	}
}
