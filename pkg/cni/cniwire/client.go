package cniwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// DefaultSocket is where the agent listens when the configuration names no socket.
const DefaultSocket = "/run/weft/cni.sock"

// ErrUnavailable means that no agent answers at the socket: the socket is absent, refuses the connection, or is
// closed before an answer. The caller should retry later.
var ErrUnavailable = errors.New("weft-agent does not answer")

// Do sends a request to the agent at the socket and waits for its response. An error of the request is in the
// Response. The returned error is an error of the connection; it wraps ErrUnavailable if no agent answered.
func Do(ctx context.Context, socket string, req Request) (Response, error) {
	resp, err := converse(ctx, socket, req)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return Response{}, fmt.Errorf("socket %s: %w", socket, ctx.Err())
	case isAbsence(err):
		return Response{}, fmt.Errorf("socket %s: %w: %w", socket, ErrUnavailable, err)
	}
	return Response{}, fmt.Errorf("socket %s: %w", socket, err)
}

func converse(ctx context.Context, socket string, req Request) (Response, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	// Closing the connection ends a pending read or write, and the agent notices it.
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	if err := Write(conn, req); err != nil {
		return Response{}, err
	}
	var resp Response
	if err := Read(conn, &resp); err != nil {
		return Response{}, err
	}
	return resp, nil
}

// isAbsence reports whether err means that no agent answered, as opposed to an invalid answer. A connect to a socket
// with a full backlog fails with EAGAIN (unix(7)).
func isAbsence(err error) bool {
	for _, absence := range []error{
		unix.ENOENT, unix.ECONNREFUSED, unix.EAGAIN, unix.ECONNRESET, unix.EPIPE,
		io.EOF, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, absence) {
			return true
		}
	}
	return false
}
