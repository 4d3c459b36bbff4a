package cniserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/weft-network/weft/pkg/cniwire"
)

// errNoRequest: the peer connected and left, as a probe of the socket does.
var errNoRequest = errors.New("no request")

// read receives a valid request. An error that is not errNoRequest is for the peer.
func (s *Server) read(conn *net.UnixConn) (cniwire.Request, error) {
	if err := conn.SetReadDeadline(time.Now().Add(s.options.IOTimeout)); err != nil {
		return cniwire.Request{}, err
	}
	var req cniwire.Request
	switch err := cniwire.Read(conn, &req); {
	case errors.Is(err, io.EOF):
		return cniwire.Request{}, errNoRequest
	case err != nil:
		return cniwire.Request{}, unreadable(err)
	}
	if req.Command == cniwire.Del {
		req.NetNS = "" // may be gone or name another by now: nothing of DEL may depend on it
	}
	return req, req.Validate(s.options.NetNSRoots)
}

func unreadable(err error) error {
	var coded *cniwire.Error
	if errors.As(err, &coded) {
		return err
	}
	return cniwire.Errorf(cniwire.CodeDecodingFailure, "read request: %v", err)
}

func (s *Server) write(conn *net.UnixConn, resp cniwire.Response) error {
	if err := conn.SetDeadline(time.Now().Add(s.options.IOTimeout)); err != nil {
		return err
	}
	return cniwire.Write(conn, resp)
}

// cancelWithPeer cancels when the peer goes away: a client keeps its connection
// open and silent while it waits. The returned function ends the watch.
func (s *Server) cancelWithPeer(conn *net.UnixConn, cancel context.CancelFunc) (stop func()) {
	// The deadline of the request's reading must not pass for a peer that left;
	// that of the past ends the watch without closing what write still needs.
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		cancel()
		return func() {}
	}
	ended := make(chan struct{})
	watching, stopWatching := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		_, _ = conn.Read(make([]byte, 1))
		if watching.Err() == nil {
			cancel()
		}
	}()
	return func() {
		stopWatching()
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-ended
	}
}

// do waits for the pod's turn and a place, and calls the handler.
func (s *Server) do(ctx context.Context, req cniwire.Request) (json.RawMessage, error) {
	if req.Command == cniwire.Status {
		return s.call(ctx, req)
	}
	pod := podOf(req)
	if req.Command == cniwire.Add {
		overtaken, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer s.pods.overtake(pod, req.ContainerID, end)()
		ctx = overtaken
	}
	if err := s.pods.lock(ctx, pod); err != nil {
		return nil, fmt.Errorf("waiting for an earlier request of pod %s: %w", pod, err)
	}
	defer s.pods.unlock(pod)
	if err := s.requests.acquire(ctx); err != nil {
		return nil, fmt.Errorf("waiting for one of %d places: %w", cap(s.requests), err)
	}
	defer s.requests.release()
	return s.call(ctx, req)
}

// podOf is what requests of one pod share. DEL may lack the pod's name; GC has none.
func podOf(req cniwire.Request) string {
	switch {
	case req.Command == cniwire.GC:
		return "of no name (GC)"
	case req.Args.PodName == "":
		return "of container " + req.ContainerID
	}
	return turnOf(req.Args.PodNamespace, req.Args.PodName)
}

// call turns a panic into an error: the request of one pod must not take the
// network away from the others.
func (s *Server) call(ctx context.Context, req cniwire.Request) (result json.RawMessage, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	switch req.Command {
	case cniwire.Add:
		return s.add(ctx, req)
	case cniwire.Del:
		return nil, s.handler.Del(ctx, req)
	case cniwire.Check:
		return nil, s.handler.Check(ctx, req)
	case cniwire.GC:
		return nil, s.handler.GC(ctx, req)
	default: // Validate lets no other pass
		return nil, s.handler.Status(ctx, req)
	}
}

func (s *Server) add(ctx context.Context, req cniwire.Request) (json.RawMessage, error) {
	result, err := s.handler.Add(ctx, req)
	if err != nil {
		return nil, err
	}
	result.CNIVersion = types100.ImplementedSpecVersion
	return json.Marshal(result)
}

// wireError gives an error the code that the runtime sees.
func wireError(err error) *cniwire.Error {
	var coded *cniwire.Error
	switch {
	case errors.As(err, &coded) && err == error(coded): //nolint:errorlint // only the error itself goes on as it is, not one that wraps it
		return coded
	case coded != nil:
		return cniwire.Errorf(coded.Code, "%v", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "%v", err)
	}
	return cniwire.Errorf(cniwire.CodeInternal, "%v", err)
}
