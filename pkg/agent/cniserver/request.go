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

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// errNoRequest means that the peer connected and left, as a probe of the socket does.
var errNoRequest = errors.New("no request")

// read receives a valid request. Any error but errNoRequest is reported to the peer.
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
		req.NetNS = "" // may be gone or reused by now, so that DEL must not depend on it
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

// cancelWithPeer cancels the request when the peer disconnects. A client keeps its connection open and silent while it
// waits. stop ends the watch.
func (s *Server) cancelWithPeer(conn *net.UnixConn, cancel context.CancelFunc) (stop func()) {
	// The read deadline of the request must not look like a peer that left. stop sets a deadline in the past, which ends
	// the watch but keeps the connection open for the response.
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

// do waits for the pod's turn and for a place, and calls the handler.
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

// podOf returns the key that all requests of one pod share. A DEL may lack the pod's name, and a GC has none.
func podOf(req cniwire.Request) string {
	switch {
	case req.Command == cniwire.GC:
		return "of no name (GC)"
	case req.Args.PodName == "":
		return "of container " + req.ContainerID
	}
	return turnOf(req.Args.PodNamespace, req.Args.PodName)
}

// call converts a panic into an error, because the request of one pod must not disconnect the others.
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
	default: // Validate refuses other commands
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

// wireError returns the error with the code for the runtime.
func wireError(err error) *cniwire.Error {
	var coded *cniwire.Error
	switch {
	case errors.As(err, &coded) && err == error(coded): //nolint:errorlint // not wrapped, and passed on unchanged
		return coded
	case coded != nil:
		return cniwire.Errorf(coded.Code, "%v", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "%v", err)
	}
	return cniwire.Errorf(cniwire.CodeInternal, "%v", err)
}
