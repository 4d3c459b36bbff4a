// Package cniserver is the agent's end of the CNI socket. It decides who may
// ask, bounds what is asked and in what order, and leaves the work to a Handler.
package cniserver

import (
	"context"
	"net"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/cniwire"
)

// Handler does what a request asks. Requests reach it validated, one at a time
// per pod. An error that is or wraps a *cniwire.Error reaches the runtime with
// its code; a context's error as "try again later"; any other as internal.
//
// The context ends when the runtime gives up or the time is over; an ADD that
// ends so must undo what it did. A DEL is not ended by the runtime going away.
type Handler interface {
	Add(ctx context.Context, req cniwire.Request) (*types100.Result, error)
	Del(ctx context.Context, req cniwire.Request) error
	Check(ctx context.Context, req cniwire.Request) error
	Status(ctx context.Context, req cniwire.Request) error
}

// Options bound a Server; a zero field has the default.
type Options struct {
	Log            logr.Logger
	PeerUID        uint32        // the one user who may ask; default 0, root
	NetNSRoots     []string      // directories of network namespaces; default cniwire.NetNSRoots()
	MaxConnections int           // open at once, waiting ones included; default 512
	MaxRequests    int           // with the Handler at once; default 32
	IOTimeout      time.Duration // to read a request, and to write a response; default 5 s
	RequestTimeout time.Duration // of a request, waiting included; default 60 s
	StopTimeout    time.Duration // that requests have to end after Serve's context; default 5 s

	// Observe is called after each request that reached a queue, for metrics. May be nil.
	Observe func(req cniwire.Request, elapsed time.Duration, err error)
}

// Server answers weft-cni.
type Server struct {
	options Options
	handler Handler
}

// New makes a server.
func New(handler Handler, options Options) *Server {
	return &Server{options: options, handler: handler}
}

// Listen makes the socket, readable by its owner alone, in a directory readable
// by its owner alone. It takes the place of a socket that is there.
func Listen(path string) (*net.UnixListener, error) { panic("not yet") }

// Serve answers until the context ends, then closes the listener, gives the
// requests under way StopTimeout and returns nil.
func (s *Server) Serve(ctx context.Context, listener *net.UnixListener) error { panic("not yet") }
