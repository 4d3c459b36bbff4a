package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/manifest"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// answerTimeout bounds one response. A plan of 10,000 pods takes seconds.
	answerTimeout = 2 * time.Minute
	// headerTimeout bounds the time in which a client must send its request's header.
	headerTimeout = 5 * time.Second
	// maxFailure bounds an error's text, in bytes.
	maxFailure = 1024
)

// Server serves requests on a socket.
type Server struct {
	Operator Operator
	Socket   string
	Log      logr.Logger
	// one admits a single request at a time, because each may copy all units.
	one chan struct{}
}

// NewServer returns a server. Start makes it listen.
func NewServer(socket string, operator Operator, log logr.Logger) *Server {
	return &Server{Operator: operator, Socket: socket, Log: log, one: make(chan struct{}, 1)}
}

// NeedLeaderElection is false so that each replica listens. A replica that does not lead says so.
func (s *Server) NeedLeaderElection() bool { return false }

// Start listens until ctx ends. Errors are only logged, because the network must not depend on the admin socket.
func (s *Server) Start(ctx context.Context) error {
	listener, err := listen(s.Socket)
	if err == nil {
		err = s.serve(ctx, listener)
	}
	if err != nil {
		s.Log.Error(err, "cannot serve the admin socket; kubectl weft plan, drift, check and history fail in this pod", "socket", s.Socket)
	}
	return nil
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathDrift, s.answer(func(r *http.Request) (any, error) { return s.Operator.Drift(r.Context()) }))
	mux.HandleFunc("GET "+pathCheck, s.answer(func(r *http.Request) (any, error) { return s.Operator.Check(r.Context()) }))
	mux.HandleFunc("GET "+pathHistory, s.answer(func(r *http.Request) (any, error) {
		request, err := historyRequest(r)
		if err != nil {
			return nil, err
		}
		return s.Operator.History(r.Context(), request)
	}))
	mux.HandleFunc("POST "+pathOperations, s.answer(func(r *http.Request) (any, error) {
		request, err := planRequest(r)
		if err != nil {
			return nil, err
		}
		return s.Operator.Operations(r.Context(), request)
	}))
	mux.HandleFunc("POST "+pathPlan, s.answer(func(r *http.Request) (any, error) {
		request, err := planRequest(r)
		if err != nil {
			return nil, err
		}
		return s.Operator.Plan(r.Context(), request)
	}))
	return mux
}

// planRequest parses a request.
func planRequest(r *http.Request) (PlanRequest, error) {
	documents, err := manifest.Read("input", r.Body)
	if err != nil {
		return PlanRequest{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return PlanRequest{Objects: documents, Delete: r.URL.Query().Get("delete") == "true"}, nil
}

// historyRequest parses a request.
func historyRequest(r *http.Request) (HistoryRequest, error) {
	query := r.URL.Query()
	request := HistoryRequest{Object: unit.Key(query.Get("object")), Limit: DefaultLimit}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > MaxLimit {
			return HistoryRequest{}, fmt.Errorf("%w: limit %q: want 1 to %d", ErrInvalid, text, MaxLimit)
		}
		request.Limit = limit
	}
	return request, nil
}

// answer writes the result of handle as JSON.
func (s *Server) answer(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, MaxManifests)
		select {
		case s.one <- struct{}{}:
			defer func() { <-s.one }()
		case <-ctx.Done():
			s.write(w, http.StatusServiceUnavailable, Failure{"another request is in progress: " + ctx.Err().Error()})
			return
		}
		answer, err := handle(r)
		if err != nil {
			s.write(w, statusOf(err), Failure{cut(err.Error())})
			return
		}
		s.write(w, http.StatusOK, answer)
	}
}

// cut bounds an error's text, because some errors contain a whole object.
func cut(text string) string {
	if len(text) <= maxFailure {
		return text
	}
	return strings.ToValidUTF8(text[:maxFailure], "") + "..."
}

func statusOf(err error) int {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (s *Server) write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.Log.V(1).Info("the client is gone", "reason", err.Error())
	}
}
