package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/weft-network/weft/pkg/ovndb"
)

// stuckAfter is how long an engine may take for one step: each has a deadline of 10 s, so more is a deadlock.
const stuckAfter = 60 * time.Second

// Health says how the operator is, from one leadership to the next: it outlives the managers.
type Health struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu      sync.Mutex
	elected <-chan struct{} // nil: there is no manager
	engine  *ovndb.Engine
	led     time.Time // when a check first saw that this process leads
}

// Begin tells of a new manager; elected is closed once it leads.
func (h *Health) Begin(elected <-chan struct{}, engine *ovndb.Engine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elected, h.engine, h.led = elected, engine, time.Time{}
}

// End tells that the manager is no more.
func (h *Health) End() { h.Begin(nil, nil) }

func (h *Health) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

// leads reports whether this process leads, and since when that is known.
func (h *Health) leads() (time.Time, bool) {
	select {
	case <-h.elected:
		if h.led.IsZero() {
			h.led = h.now()
		}
		return h.led, true
	default:
		return time.Time{}, false
	}
}

// Alive fails when the process can only be helped by a restart: it leads, and its engine takes no step. A database that is away is no
// reason.
func (h *Health) Alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, leads := h.leads()
	if !leads {
		return nil
	}
	if step := h.engine.Progress(); step.After(last) {
		last = step
	}
	if idle := h.now().Sub(last); idle > stuckAfter {
		return fmt.Errorf("the engine has taken no step for %s", idle.Round(time.Second))
	}
	return nil
}

// Ready fails when the process cannot do its work: a leader needs the database, a stand-by only its caches.
func (h *Health) Ready(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.elected == nil {
		return errors.New("the OVN northbound database is out of reach; the lease is left to others")
	}
	if _, leads := h.leads(); leads && !h.engine.Connected() {
		return errors.New("the OVN northbound database is not connected")
	}
	return nil
}

// Serve answers /healthz and /readyz on an address until ctx ends; "0" serves nothing.
func (h *Health) Serve(ctx context.Context, address string) error {
	if address == "0" {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	mux := http.NewServeMux()
	for path, check := range map[string]healthz.Checker{"/healthz": h.Alive, "/readyz": h.Ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{"northbound": check}})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("health: %w", err)
	}
	return nil
}
