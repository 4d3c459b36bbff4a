package ovndb

import (
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// cacheGuard is a log sink that watches for two kinds of messages of libovsdb. libovsdb reconnects after two kinds of
// cache errors, but only logs the others and continues with a wrong copy. It also drops events when their buffer is
// full, so that a change may never be processed. In both cases the guard ends the session. The next session begins
// with a complete copy and compares everything.
type cacheGuard struct {
	log     logr.Logger
	loaded  *atomic.Bool // before the first copy is complete, dropped events do no harm: everything is compared then
	damaged func()
}

// The prefixes of libovsdb's messages (client.handleClientErrors, cache.eventProcessor).
const (
	cacheError   = "error updating cache"
	droppedEvent = "dropping event"
)

// Init implements logr.LogSink.
func (g *cacheGuard) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. It accepts messages of level 0 at any verbosity, because the guard must see them.
func (g *cacheGuard) Enabled(level int) bool { return level == 0 || g.log.V(level).Enabled() }

// Info implements logr.LogSink.
func (g *cacheGuard) Info(level int, message string, pairs ...any) {
	if strings.HasPrefix(message, droppedEvent) {
		if g.loaded.Load() {
			g.damaged()
		}
		return // repeated thousands of times
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
