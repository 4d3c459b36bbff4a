package cniwire

import (
	"context"
	"errors"
)

// DefaultSocket is where the agent listens when the configuration names no socket.
const DefaultSocket = "/run/weft/cni.sock"

// ErrUnavailable says that no agent answers at the socket: it is absent,
// refuses, or went away before it answered. Trying again later is right.
var ErrUnavailable = errors.New("weft-agent does not answer")

// Do sends a request to the agent at the socket and waits for its response. An
// error that the agent answered is in the Response; the returned error is of
// the conversation and wraps ErrUnavailable if there was no agent to talk to.
func Do(ctx context.Context, socket string, req Request) (Response, error) {
	return Response{}, errors.New("not yet")
}
