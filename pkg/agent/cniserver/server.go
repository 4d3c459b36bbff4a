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

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// Handler serves validated requests. It gets one ADD, DEL or CHECK of a pod at a time, and one GC. An error that is
// or wraps a *cniwire.Error reaches the runtime with its code, a context's error as "try again later", and any other
// error as internal.
//
// The context ends when the runtime disconnects or the time is over. An ADD that ends so must undo what it did. A
// DEL continues after the runtime disconnected.
type Handler interface {
	Add(ctx context.Context, req cniwire.Request) (*types100.Result, error)
	Del(ctx context.Context, req cniwire.Request) error
	Check(ctx context.Context, req cniwire.Request) error
	Status(ctx context.Context, req cniwire.Request) error
	GC(ctx context.Context, req cniwire.Request) error
}

// Options configure a Server. Zero fields have their defaults.
type Options struct {
	Log            logr.Logger
	PeerUID        uint32        // the only user who may send requests; default 0, root
	NetNSRoots     []string      // directories of network namespaces; default cniwire.NetNSRoots()
	MaxConnections int           // served at once, including waiting ones; others wait in the socket's backlog; default 512
	MaxRequests    int           // in the Handler at once, without STATUS; default 32
	IOTimeout      time.Duration // to read a request, and to write a response; default 5 s
	RequestTimeout time.Duration // of a request, including the time it waits; default 60 s
	StopTimeout    time.Duration // for requests under way after the end of Serve's context; default 5 s

	Turns *Turns // of the pods, shared with others that change their interfaces; default the server's own

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

// Server answers the requests of weft-cni.
type Server struct {
	options     Options
	handler     Handler
	connections semaphore
	requests    semaphore
	pods        *Turns
}

// New returns a server.
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

// Serve answers requests until the context ends. It then closes the listener, waits StopTimeout for the requests under
// way, ends their contexts, and returns nil after the last response.
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

// accept passes each connection to serve, which releases its place. It returns any failure, because the likely cause is
// a lack of file descriptors. If the process leaked them, only a new process has them again.
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

// serve answers the request of one connection.
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
		// The runtime disconnected. It will send a DEL.
		s.options.Log.Info("Could not answer a CNI request", "command", req.Command,
			"container", req.ContainerID, "reason", err.Error())
	}
}

// answer lets the handler execute a valid request.
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
