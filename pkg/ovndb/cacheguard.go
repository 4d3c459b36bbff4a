package ovndb

import (
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// cacheGuard listens to what libovsdb logs. It reconnects at two kinds of cache errors, but only logs the others and goes on with
// a copy that is wrong; and it drops events when their buffer is full, so that a change may never be looked at. In both cases the
// session ends, and the next one begins with a complete copy and a comparison of everything.
type cacheGuard struct {
	log     logr.Logger
	loaded  *atomic.Bool // events that are dropped before do no harm: everything is compared then
	damaged func()
}

// What libovsdb says (client.handleClientErrors, cache.eventProcessor).
const (
	cacheError   = "error updating cache"
	droppedEvent = "dropping event"
)

// Init implements logr.LogSink.
func (g *cacheGuard) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. Messages of level 0 must come here whatever is shown.
func (g *cacheGuard) Enabled(level int) bool { return level == 0 || g.log.V(level).Enabled() }

// Info implements logr.LogSink.
func (g *cacheGuard) Info(level int, message string, pairs ...any) {
	if strings.HasPrefix(message, droppedEvent) {
		if g.loaded.Load() {
			g.damaged()
		}
		return // it comes by the thousand
	}
	g.log.V(level).Info(message, pairs...)
}

// Error implements logr.LogSink.
func (g *cacheGuard) Error(err error, message string, pairs ...any) {
	g.log.Error(err, message, pairs...)
	if strings.HasPrefix(message, cacheError) {
		g.damaged()
	}
}

// WithValues implements logr.LogSink.
func (g *cacheGuard) WithValues(pairs ...any) logr.LogSink {
	return &cacheGuard{g.log.WithValues(pairs...), g.loaded, g.damaged}
}

// WithName implements logr.LogSink.
func (g *cacheGuard) WithName(name string) logr.LogSink {
	return &cacheGuard{g.log.WithName(name), g.loaded, g.damaged}
}
