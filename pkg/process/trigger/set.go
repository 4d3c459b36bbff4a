package trigger

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/unit"
)

// Set holds a trigger for each kind of unit. Reconcilers enqueue objects of other kinds through it. The zero value is
// ready to use. It is safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	byKind map[string]*Trigger
}

// Of returns the trigger of a kind; the first call for a kind creates it.
func (s *Set) Of(kind string) *Trigger {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKind == nil {
		s.byKind = map[string]*Trigger{}
	}
	if s.byKind[kind] == nil {
		s.byKind[kind] = &Trigger{}
	}
	return s.byKind[kind]
}

// Enqueue requests a reconciliation of one object by the controller of a kind.
func (s *Set) Enqueue(kind string, name types.NamespacedName) { s.Of(kind).Enqueue(name) }

// EnqueueAfter is Enqueue after a delay.
func (s *Set) EnqueueAfter(kind string, name types.NamespacedName, delay time.Duration) {
	s.Of(kind).EnqueueAfter(name, delay)
}

// EnqueueUnit requests a reconciliation of the object that a unit is made from.
func (s *Set) EnqueueUnit(key unit.Key) { s.Of(key.Kind()).Enqueue(NameOf(key)) }
