package campaign

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

// stuckAfter is the longest time that an engine may take for one step. Each step has a deadline of 10 s, so a longer
// time means a deadlock.
const stuckAfter = 60 * time.Second

// Health computes the operator's health across leaderships. It outlives the managers.
type Health struct {
	// Now is the clock. The default is time.Now.
	Now func() time.Time

	mu      sync.Mutex
	elected <-chan struct{} // nil if no manager exists
	cause   error           // why no manager exists
	engine  *ovndb.Engine
	led     time.Time // when a check first saw that this process leads
}

// Begin records a new manager. elected is closed once it leads.
func (h *Health) Begin(elected <-chan struct{}, engine *ovndb.Engine) { h.set(elected, engine, nil) }

// End records that the manager has stopped, with the cause.
func (h *Health) End(cause error) { h.set(nil, nil, cause) }

func (h *Health) set(elected <-chan struct{}, engine *ovndb.Engine, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elected, h.engine, h.cause, h.led = elected, engine, cause, time.Time{}
}

func (h *Health) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

// leads reports whether this process leads, and since when it has been seen to lead.
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

// Alive returns an error if only a restart can help the process: it leads, and its engine takes no step. A database
// that is away is no reason for a restart.
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

// Ready returns an error if the process cannot do its work. A leader needs the database, a standby only its caches.
func (h *Health) Ready(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.elected == nil && h.cause != nil:
		return fmt.Errorf("this process does not campaign for the lease now: %w", h.cause)
	case h.elected == nil:
		return errors.New("this process does not campaign for the lease yet")
	}
	if _, leads := h.leads(); leads && !h.engine.Connected() {
		return errors.New("the OVN northbound database is not connected")
	}
	return nil
}

// Serve serves /healthz and /readyz on an address until ctx ends. "0" serves nothing.
func (h *Health) Serve(ctx context.Context, address string) error {
	return ServeHealth(ctx, address, "northbound", h.Alive, h.Ready)
}

// ServeHealth serves /healthz and /readyz, each with one check of the given name, until ctx ends. Address "0" serves
// nothing.
func ServeHealth(ctx context.Context, address, name string, alive, ready healthz.Checker) error {
	if address == "0" {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	mux := http.NewServeMux()
	for path, check := range map[string]healthz.Checker{"/healthz": alive, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{name: check}})
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
