package service

import (
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/addresses/balance"
)

// latency measures how long a change of endpoints takes from its cause, such as a pod that becomes ready or ends,
// until the database has it.
type latency struct {
	// observe receives each measurement. nil disables the measurement.
	observe func(time.Duration)
	now     func() time.Time

	mu   sync.Mutex
	seen map[types.NamespacedName]time.Time // service -> the newest cause that the database has
}

// applied records that the database has a service with these slices. Causes from before the service was first seen do
// not count, because a start is not a change.
func (l *latency) applied(service types.NamespacedName, endpoints []discoveryv1.EndpointSlice) {
	if l.observe == nil {
		return
	}
	cause := balance.NewestCause(endpoints)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[types.NamespacedName]time.Time{}
	}
	before, known := l.seen[service]
	if !known {
		before = l.now()
	}
	if cause.After(before) {
		before = cause
		l.observe(l.now().Sub(cause))
	}
	l.seen[service] = before
}

// forget drops a deleted service.
func (l *latency) forget(service types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, service)
}
