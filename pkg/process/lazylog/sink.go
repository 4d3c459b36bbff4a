// Package lazylog formats the context of a logger when something is logged. controller-runtime makes a logger with the
// object's name for each reconciliation, and nearly none of them logs.
package lazylog

import (
	"slices"

	"github.com/go-logr/logr"
)

// New returns a logger that formats the values of WithValues with each message, and not before. The values must not
// change meanwhile.
func New(log logr.Logger) logr.Logger {
	if log.GetSink() == nil {
		return log
	}
	if deeper, ok := log.GetSink().(logr.CallDepthLogSink); ok {
		return log.WithSink(sink{base: deeper.WithCallDepth(1)}) // the frame of this package
	}
	return log.WithSink(sink{base: log.GetSink()})
}

// sink implements logr.LogSink and logr.CallDepthLogSink.
type sink struct {
	base   logr.LogSink
	values []any // pairs
}

// Init does nothing, because the base is initialized.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s sink) Enabled(level int) bool { return s.base.Enabled(level) }

// Info implements logr.LogSink.
func (s sink) Info(level int, message string, values ...any) {
	s.base.WithValues(s.values...).Info(level, message, values...)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, values ...any) {
	s.base.WithValues(s.values...).Error(err, message, values...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(values ...any) logr.LogSink {
	return sink{s.base, slices.Concat(s.values, values)}
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.base.WithName(name), s.values} }

// WithCallDepth implements logr.CallDepthLogSink.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.base.(logr.CallDepthLogSink); ok {
		return sink{deeper.WithCallDepth(depth), s.values}
	}
	return s
}
