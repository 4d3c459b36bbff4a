package ovndb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds the making of a connection and the questions asked on it; a healthy server takes milliseconds.
	dialTimeout = 5 * time.Second
	// digestRate is how fast, in bytes per second, a copy of a database is taken in at the very least; 3 MB/s are usual.
	digestRate = 256 << 10
	// firstByte is how many times the limit of a call a server may think before it sends the first of something large.
	firstByte = 6
	// chunk is how much is carried at once.
	chunk = 64 << 10
)

// errSilent says that a server stopped in the middle of an answer, or before it.
var errSilent = errors.New("the server has sent nothing more")

// link is the connection of one session to one server. libovsdb dials by itself and writes without a deadline: a server that
// vanishes without a word would hold a write, and with it the client's locks, for as long as TCP tries (15 minutes). So the
// client talks to a socket of this process, and the link carries the bytes: with deadlines, and it can be cut.
type link struct {
	limit  time.Duration // of a call
	extend func(time.Duration)
	server net.Conn
	socket *net.UnixListener
	dir    string        // of the socket
	ended  chan struct{} // closed when the link is cut

	mu     sync.Mutex
	client net.Conn
	isCut  bool
	held   func() // is called instead of closing the client's side; nil: it is closed
	calls  map[*waiting]struct{}
	// undigested counts the bytes that have come since the last call ended: answers come in order, so all before is taken in.
	undigested int64
}

// waiting is a call whose answer has not come.
type waiting struct {
	limit   time.Duration // how long the server may be silent
	silence *time.Timer
}

// openLink connects to a server; limit bounds what it may take for a call, and extend is told how long a large answer may take yet.
func openLink(ctx context.Context, endpoint string, security TLS, limit time.Duration, extend func(time.Duration)) (*link, error) {
	server, err := connect(ctx, endpoint, security, min(limit, dialTimeout))
	if err != nil {
		return nil, err
	}
	return &link{limit: limit, extend: extend, calls: map[*waiting]struct{}{}, server: server, ended: make(chan struct{})}, nil
}

// connect dials an OVSDB remote within the limit.
func connect(ctx context.Context, endpoint string, security TLS, limit time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: limit}
	network, address, _ := strings.Cut(endpoint, ":")
	switch network {
	case "tcp", "unix":
		return dialer.DialContext(ctx, network, address)
	case "ssl":
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return security.secure(ctx, conn, host, limit)
	}
	return nil, fmt.Errorf("%s: only ssl, tcp and unix connections are supported", endpoint)
}

// serve gives the client a socket to connect to, once, and carries what comes; before is what the server sent already.
func (l *link) serve(before io.Reader) (endpoint string, err error) {
	if l.dir, err = socketDir(); err != nil {
		return "", err
	}
	path := filepath.Join(l.dir, "ovsdb")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(l.dir))
	}
	l.mu.Lock()
	l.socket = socket
	if l.isCut {
		socket.Close()
	}
	l.mu.Unlock()
	go l.carry(before)
	return "unix:" + path, nil
}

// socketDir makes a directory for a socket. The operator's root file system is read-only, but every container has /dev/shm.
func socketDir() (string, error) {
	dir, err := os.MkdirTemp("", "weft-")
	if err != nil {
		dir, err = os.MkdirTemp("/dev/shm", "weft-")
	}
	return dir, err
}

// carry accepts the client and copies both ways until either side ends or the link is cut.
func (l *link) carry(before io.Reader) {
	defer l.cut()
	client, err := l.accept()
	if err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		defer l.cut()
		l.fromServer(client, io.MultiReader(before, l.server))
	})
	both.Go(func() {
		defer l.cut()
		l.toServer(client)
	})
	both.Wait()
}

// accept takes one connection of this process and removes the socket.
func (l *link) accept() (net.Conn, error) {
	defer os.RemoveAll(l.dir)
	defer l.socket.Close()
	for {
		client, err := l.socket.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if !ours(client) {
			client.Close()
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.isCut {
			client.Close()
			return nil, errDisconnected
		}
		l.client = client
		return client, nil
	}
}

// ours reports whether this process is at the other end.
func ours(client *net.UnixConn) bool {
	raw, err := client.SyscallConn()
	if err != nil {
		return false
	}
	var peer *syscall.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil {
		return false
	}
	return err == nil && int(peer.Pid) == os.Getpid()
}

// fromServer copies what the server sends; a server may be silent for as long as it likes.
func (l *link) fromServer(client io.Writer, server io.Reader) {
	buffer := make([]byte, chunk)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			l.count(n)
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// toServer copies what the client sends; a server that takes nothing within the limit is lost.
func (l *link) toServer(client io.Reader) {
	buffer := make([]byte, chunk)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			if err := l.server.SetWriteDeadline(time.Now().Add(l.limit)); err != nil {
				return
			}
			if _, err := l.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// count lets the calls that wait for an answer take longer, by the time that it takes to digest what has come. Who loads something
// large is not blind meanwhile.
func (l *link) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undigested += int64(n)
	for one := range l.calls {
		one.silence.Reset(one.limit + l.backlog())
		if one.limit > l.limit {
			l.extend(l.limit + l.backlog())
		}
	}
}

// backlog is how long the client may take to digest what has come; l.mu is held.
func (l *link) backlog() time.Duration { return time.Duration(l.undigested) * time.Second / digestRate }

// patient returns a context that ends when the server is silent for so long, and longer after it has sent much: what is large, and
// what waits behind it on the same connection, may take as long as it likes while it comes. done must be called when the call ends.
func (l *link) patient(ctx context.Context, limit time.Duration) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &waiting{limit: limit, silence: time.AfterFunc(limit+l.backlog(), func() { cancel(errSilent) })}
	l.calls[one] = struct{}{}
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, one)
		if one.silence.Stop() {
			l.undigested = 0
		}
		cancel(nil)
	}
}

// cut ends the connection on both sides at once: whoever writes or reads gets an error. It may be called again.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return
	}
	l.isCut = true
	close(l.ended)
	leave(l.server)
	if l.socket != nil {
		leave(l.socket)
	}
	switch {
	case l.client == nil:
	case l.held != nil:
		l.held()
	default:
		leave(l.client)
	}
}

// leave closes a connection and does not wait for it: on a busy machine close(2) was seen to take its time, and nothing depends on its end.
func leave(connection io.Closer) {
	go func() { _ = connection.Close() }()
}

// hold keeps the client's side open until release, also when the link is cut: libovsdb's Connect adds to a WaitGroup that its
// disconnect handler, once the connection has ended, waits for already. lost is called instead.
func (l *link) hold(lost func()) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = lost
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = nil
		if l.client == nil {
			return
		}
		// Nothing is sent. The race detector takes a write as coming before what is read next, but sees no close: without it, the end
		// that the client reads seems to have nothing to do with this release.
		_, _ = l.client.Write(nil)
		if l.isCut {
			leave(l.client)
		}
	}
}
