// Package leadershiptest makes an API server slow or silent for one process.
package leadershiptest

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Path is a process's connection to the API server. It can hold requests, like a slow or unreachable server.
type Path struct {
	mu      sync.Mutex
	holds   func(*http.Request) bool
	passes  chan struct{} // closed when held requests continue
	leads   func() bool
	strays  []string
	watches map[string]int
}

// Leases matches the requests for leases.
func Leases(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }

// Everything matches every request. Open watches continue.
func Everything(*http.Request) bool { return true }

// Config returns a configuration whose requests use this path.
func (p *Path) Config(base *rest.Config) *rest.Config {
	config := rest.CopyConfig(base)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{p, next} })
	return config
}

// Judge sets a function that reports whether the process leads.
func (p *Path) Judge(leads func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leads = leads
}

// Hold holds requests until Pass is called or they are cancelled.
func (p *Path) Hold(which func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds, p.passes = which, make(chan struct{})
}

// Pass lets all requests pass.
func (p *Path) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = nil
	close(p.passes)
}

// Strays returns the writing requests, other than for leases, that were sent while the process did not lead.
func (p *Path) Strays() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.strays)
}

// Watches returns how many watches of a URL path were opened.
func (p *Path) Watches(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watches[path]
}

// enter records a request and returns the channel on which it waits, or nil.
func (p *Path) enter(r *http.Request) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != http.MethodGet && !Leases(r) && p.leads != nil && !p.leads() {
		p.strays = append(p.strays, r.Method+" "+r.URL.Path)
	}
	if r.URL.Query().Get("watch") != "" {
		if p.watches == nil {
			p.watches = map[string]int{}
		}
		p.watches[r.URL.Path]++
	}
	if p.holds != nil && p.holds(r) {
		return p.passes
	}
	return nil
}

type transport struct {
	path *Path
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if passes := t.path.enter(r); passes != nil {
		select {
		case <-passes:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return t.next.RoundTrip(r)
}
