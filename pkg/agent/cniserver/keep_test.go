package cniserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/test/poll"
)

// kept starts a server that keeps its socket.
func kept(t *testing.T, handler Handler) running {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "weft", "cni.sock")
	listener, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	server := running{socket: socket, stop: stop, ended: make(chan error, 1)}
	go func() {
		server.ended <- New(handler, Options{PeerUID: uint32(os.Getuid())}).Keep(ctx, listener, socket)
	}()
	return server
}

// A deleted socket is there again, also if its directory was deleted or another file took its place. A request that was under way is
// answered. A socket of a newer agent stays.
func TestADeletedSocketComesBack(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	server := kept(t, fake{add: succeed, del: func(context.Context, cniwire.Request) error {
		close(begun)
		<-finish
		return nil
	}})
	underWay := make(chan error, 1)
	go func() {
		_, err := cniwire.Do(context.Background(), server.socket, request(cniwire.Del, 1))
		underWay <- err
	}()
	<-begun
	for what, spoil := range map[string]func() error{
		"the socket": func() error { return os.Remove(server.socket) },
		"the directory": func() error {
			away := t.TempDir() + "/away"
			return errors.Join(os.Rename(filepath.Dir(server.socket), away), os.RemoveAll(away))
		},
		"its place": func() error {
			other := filepath.Join(filepath.Dir(server.socket), "other")
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, server.socket))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		poll.Wait{Timeout: time.Minute, Interval: time.Second / 50}.Eventually(t, func() error {
			conn, err := net.Dial("unix", server.socket)
			if err == nil {
				conn.Close()
			}
			return err
		})
		if resp := server.send(t, request(cniwire.Add, 2)); resp.Error != nil {
			t.Errorf("%s: ADD: %v", what, resp.Error)
		}
	}
	close(finish)
	if err := <-underWay; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	newer, err := Listen(server.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	server.stop()
	if err := <-server.ended; err != nil {
		t.Errorf("Keep: %v", err)
	}
	accepted := make(chan error, 1)
	go func() {
		conn, err := newer.Accept()
		if err == nil {
			conn.Close()
		}
		accepted <- err
	}()
	if conn, err := net.Dial("unix", server.socket); err != nil {
		t.Errorf("the newer agent's socket: %v", err)
	} else {
		conn.Close()
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

// Keep fails if it cannot listen again.
func TestASocketThatCannotComeBack(t *testing.T) {
	server := kept(t, fake{add: succeed})
	defer server.stop()
	dir := filepath.Dir(server.socket)
	err := errors.Join(os.WriteFile(dir+".file", nil, 0o600),
		unix.Renameat2(unix.AT_FDCWD, dir+".file", unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-server.ended; err == nil {
		t.Error("Keep returned no error")
	}
}
