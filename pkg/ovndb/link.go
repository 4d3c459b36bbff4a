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
	"time"

	"github.com/weft-network/weft/pkg/process/peer"
)

const (
	// dialTimeout bounds the dial and the requests of the handshake. A healthy server takes milliseconds.
	dialTimeout = 5 * time.Second
	// digestRate is the lowest rate, in bytes per second, at which the client processes a copy of a database. 3 MB/s
	// are usual.
	digestRate = 256 << 10
	// firstByte is how many times the limit of a call a server may take before it sends the first byte of a large
	// reply.
	firstByte = 6
	// chunk is the size of the copy buffer.
	chunk = 64 << 10
)

// errSilent means that a server stopped sending in the middle of a reply, or before it.
var errSilent = errors.New("the server stopped sending")

// link is the connection of one session to one server. libovsdb dials by itself and writes without a deadline. If a
// server vanished silently, such a write would block, together with the client's locks, for as long as TCP retries
// (15 minutes). So the client connects to a socket of this process, and the link carries the bytes. The link has
// deadlines and can be cut.
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
	held   func() // called instead of closing the client's side; may be nil
	calls  map[*waiting]struct{}
	// undigested counts the bytes received since the last call ended. Replies arrive in order, so all earlier bytes
	// are processed.
	undigested int64
}

// waiting is a call whose reply has not arrived.
type waiting struct {
	limit   time.Duration // how long the server may be silent
	silence *time.Timer
}

// openLink connects to a server. limit bounds a call, and extend receives how long a large reply may still take.
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

// serve opens a socket for one connection of the client and carries its bytes. before holds the bytes that the server
// has sent already.
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

// socketDir creates a directory for a socket. The operator's root file system is read-only, but every container has
// /dev/shm.
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

// ours reports whether this process is the peer.
func ours(client *net.UnixConn) bool {
	pid, err := peer.PID(client)
	return err == nil && pid == os.Getpid()
}

// fromServer copies the server's bytes to the client. The server may be silent for any time.
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

// toServer copies the client's bytes to the server. A server that accepts nothing within the limit counts as lost.
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

// count extends the deadlines of waiting calls by the time that the client needs to process n received bytes. A
// client that loads a large reply is not blind.
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

// backlog returns how long the client may take to process the received bytes. l.mu must be held.
func (l *link) backlog() time.Duration { return time.Duration(l.undigested) * time.Second / digestRate }

// patient returns a context that ends when the server has been silent for limit, plus the time to process what it
// sent. A large reply, and calls that wait behind it on the same connection, may take any time while bytes arrive.
// The caller must call done when the call ends.
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

// cut ends the connection on both sides at once, so that reads and writes return an error. It may be called again.
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

// leave closes a connection without waiting for it. On a busy machine close(2) took noticeable time, and nothing
// depends on its end.
func leave(connection io.Closer) {
	go func() { _ = connection.Close() }()
}

// hold keeps the client's side open until release, even if the link is cut, and calls lost instead. libovsdb's
// Connect adds to a WaitGroup on which its disconnect handler already waits once the connection has ended.
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
		// Nothing is sent. The race detector orders a write before what is read next, but ignores a close. Without
		// the write, the end that the client reads would appear unrelated to this release.
		_, _ = l.client.Write(nil)
		if l.isCut {
			leave(l.client)
		}
	}
}
