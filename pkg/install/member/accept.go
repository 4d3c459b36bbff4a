package member

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// accept listens at a TCP address and calls serve for each connection until ctx ends. A connection ends with serve.
func accept(ctx context.Context, address string, log *slog.Logger, serve func(context.Context, net.Conn) error) error {
	listener, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		all.Go(func() {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			if err := serve(ctx, conn); err != nil && ctx.Err() == nil {
				log.Info("connection ended", "from", conn.RemoteAddr().String(), "error", err.Error())
			}
		})
	}
}

// secure performs the server's side of a TLS handshake. It leaves a deadline on conn, which the caller removes.
func secure(ctx context.Context, conn net.Conn, config *tls.Config) (*tls.Conn, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		raw, err := tcp.SyscallConn()
		if err == nil {
			err = bound(raw)
		}
		if err != nil {
			return nil, err
		}
	}
	secured := tls.Server(conn, config)
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, err
	}
	return secured, secured.HandshakeContext(ctx)
}

// pipe connects conn to a socket of this host.
func pipe(ctx context.Context, conn net.Conn, path string) error {
	local, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	join(ctx, conn, local)
	return nil
}

// join copies data both ways until either connection or ctx ends. It closes both connections.
func join(ctx context.Context, a, b net.Conn) {
	end := func() { a.Close(); b.Close() }
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer end()
			_, _ = io.Copy(way[0], way[1]) // an error here only means that a connection ended
		})
	}
	both.Wait()
}
