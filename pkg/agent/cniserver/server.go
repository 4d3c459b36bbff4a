package cniserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/cniwire"
)

// Handler does what a request asks. Requests reach it validated, and of a pod's
// ADD, DEL and CHECK one at a time, as those of GC. An error that is or wraps a *cniwire.Error
// reaches the runtime with its code; a context's error as "try again later";
// any other as internal.
//
// The context ends when the runtime gives up or the time is over; an ADD that
// ends so must undo what it did. A DEL goes on when the runtime went away.
type Handler interface {
	Add(ctx context.Context, req cniwire.Request) (*types100.Result, error)
	Del(ctx context.Context, req cniwire.Request) error
	Check(ctx context.Context, req cniwire.Request) error
	Status(ctx context.Context, req cniwire.Request) error
	GC(ctx context.Context, req cniwire.Request) error
}

// Options bound a Server; a zero field has the default.
type Options struct {
	Log            logr.Logger
	PeerUID        uint32        // the one user who may ask; default 0, root
	NetNSRoots     []string      // directories of network namespaces; default cniwire.NetNSRoots()
	MaxConnections int           // served at once, waiting ones included; more wait in the socket's backlog; default 512
	MaxRequests    int           // with the Handler at once, STATUS not counted; default 32
	IOTimeout      time.Duration // to read a request, and to write a response; default 5 s
	RequestTimeout time.Duration // of a request, waiting included; default 60 s
	StopTimeout    time.Duration // that requests have to end after Serve's context; default 5 s

	Turns *Turns // of the pods, to share with others who work on their interfaces; default the server's own

	// Observe is called after each valid request, for metrics. May be nil.
	Observe func(req cniwire.Request, elapsed time.Duration, err error)
}

func (o Options) withDefaults() Options {
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.NetNSRoots == nil {
		o.NetNSRoots = cniwire.NetNSRoots()
	}
	if o.Turns == nil {
		o.Turns = NewTurns()
	}
	if o.Observe == nil {
		o.Observe = func(cniwire.Request, time.Duration, error) {}
	}
	o.MaxConnections = orDefault(o.MaxConnections, 512)
	o.MaxRequests = orDefault(o.MaxRequests, 32)
	o.IOTimeout = orDefault(o.IOTimeout, 5*time.Second)
	o.RequestTimeout = orDefault(o.RequestTimeout, 60*time.Second)
	o.StopTimeout = orDefault(o.StopTimeout, 5*time.Second)
	return o
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// Server answers weft-cni.
type Server struct {
	options     Options
	handler     Handler
	connections semaphore
	requests    semaphore
	pods        *Turns
}

// New makes a server.
func New(handler Handler, options Options) *Server {
	options = options.withDefaults()
	return &Server{
		options:     options,
		handler:     handler,
		connections: make(semaphore, options.MaxConnections),
		requests:    make(semaphore, options.MaxRequests),
		pods:        options.Turns,
	}
}

// Serve answers until the context ends, then closes the listener, gives the
// requests under way StopTimeout, ends their contexts, and returns nil when the
// last is answered.
func (s *Server) Serve(ctx context.Context, listener *net.UnixListener) error {
	stopListening := context.AfterFunc(ctx, func() { listener.Close() })
	defer stopListening()

	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	var underWay sync.WaitGroup
	err := s.accept(ctx, listener, func(conn *net.UnixConn) {
		underWay.Go(func() {
			defer s.connections.release()
			defer conn.Close()
			s.serve(requests, conn)
		})
	})
	listener.Close()

	tooLate := time.AfterFunc(s.options.StopTimeout, cancelRequests)
	defer tooLate.Stop()
	underWay.Wait()
	return err
}

// accept gives each connection to serve, which releases its place. A failure is
// returned: what it can be here is a lack of file descriptors, and if they leaked
// only a new process has them again.
func (s *Server) accept(ctx context.Context, listener *net.UnixListener, serve func(*net.UnixConn)) error {
	for {
		if err := s.connections.acquire(ctx); err != nil {
			return nil
		}
		conn, err := listener.AcceptUnix()
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case err != nil:
			return fmt.Errorf("CNI socket %s: %w", listener.Addr(), err)
		}
		serve(conn)
	}
}

// serve answers one connection.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	if err := checkPeer(conn, s.options.PeerUID); err != nil {
		s.options.Log.Info("Refused a CNI connection", "reason", err.Error())
		return
	}
	req, err := s.read(conn)
	var resp cniwire.Response
	switch {
	case errors.Is(err, errNoRequest):
		return
	case err != nil:
		s.options.Log.Info("Refused a CNI request", "reason", err.Error())
		resp.Error = wireError(err)
	default:
		resp = s.answer(ctx, conn, req)
	}
	if err := s.write(conn, resp); err != nil {
		// The runtime gave up; it will send DEL.
		s.options.Log.Info("Could not answer a CNI request", "command", req.Command,
			"container", req.ContainerID, "reason", err.Error())
	}
}

// answer has the handler do a valid request.
func (s *Server) answer(ctx context.Context, conn *net.UnixConn, req cniwire.Request) cniwire.Response {
	ctx, cancel := context.WithTimeout(ctx, s.options.RequestTimeout)
	defer cancel()
	if req.Command != cniwire.Del {
		defer s.cancelWithPeer(conn, cancel)()
	}
	start := time.Now()
	result, err := s.do(ctx, req)
	s.options.Observe(req, time.Since(start), err)
	if err != nil {
		s.options.Log.Error(err, "CNI request failed", "command", req.Command, "container", req.ContainerID,
			"interface", req.IfName, "namespace", req.Args.PodNamespace, "pod", req.Args.PodName)
		return cniwire.Response{Error: wireError(err)}
	}
	return cniwire.Response{Result: result}
}
