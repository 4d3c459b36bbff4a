package alloc

import (
	"sync"
	"time"
)

// Set holds an Allocator for each of several networks whose addresses may overlap. It is safe for concurrent use.
type Set struct {
	now func() time.Time

	mu     sync.Mutex
	byName map[string]*Allocator
}

// NewSet returns an empty set. now is time.Now but in tests.
func NewSet(now func() time.Time) *Set { return &Set{now: now, byName: map[string]*Allocator{}} }

// Of returns the allocator of a network; the first call for a network creates it.
func (s *Set) Of(network string) *Allocator {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[network] == nil {
		s.byName[network] = New(s.now)
	}
	return s.byName[network]
}

// CopyTo makes c, which nobody uses yet, a copy of the set.
func (s *Set) CopyTo(c *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.now = s.now
	c.byName = make(map[string]*Allocator, len(s.byName))
	for name, a := range s.byName {
		c.byName[name] = a.Clone()
	}
}
