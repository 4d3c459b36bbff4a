package ovndb

import (
	"slices"
	"sync"
)

// endpoints are the remotes of a connection, tried in turn.
type endpoints struct {
	mu   sync.Mutex
	list []string
	next int
}

func (e *endpoints) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.list)
}

// current returns the endpoint to try.
func (e *endpoints) current() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list[e.next%len(e.list)]
}

// skip moves on from an endpoint, unless another is already the next.
func (e *endpoints) skip(endpoint string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.list[e.next%len(e.list)] == endpoint {
		e.next++
	}
}

// set replaces the list, and reports whether it differs. The first endpoint is the next.
func (e *endpoints) set(list []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Equal(e.list, list) {
		return false
	}
	e.list, e.next = slices.Clone(list), 0
	return true
}

// Redirect replaces Config.Endpoints, at least one. A session with an endpoint that remains goes on. Any other session
// ends, and Run connects to the first new endpoint that responds.
func (c *Conn) Redirect(to []string) {
	if !c.endpoints.set(to) {
		return
	}
	if s := c.session(); s != nil && !slices.Contains(to, s.endpoint) {
		c.cfg.Log.Info("moving to another server", "database", c.cfg.Schema.Model.Name(), "from", s.endpoint, "to", to)
		s.link.cut()
	}
}
