package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
)

const (
	// programmingTimeout is how long a change of services may wait until the node counts as unhealthy. kube-proxy waits as
	// long by default.
	programmingTimeout = time.Minute
	// The waits between two attempts to listen at the health port.
	firstListenWait, lastListenWait = time.Second, 30 * time.Second
	// toBeDeletedTaint is how the cluster autoscaler marks a node that it will delete.
	toBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"
)

// ProxyHealthOptions configure a ProxyHealth.
type ProxyHealthOptions struct {
	// Node returns the agent's Node, or nil if it does not exist.
	Node func(context.Context) *corev1.Node
	// Taken, if set, is called with the reason when another program has the port, once until the server listens.
	Taken func(error)
	// Observe, if set, receives how long each change of endpoints took until the host had it.
	Observe func(time.Duration)
	// Synced, if set, receives the time at which the host last had all changes that were known when its write began.
	Synced func(time.Time)
	Now    func() time.Time
}

// ProxyHealth records which changes of services the host does not have yet, and serves /healthz and /livez as kube-proxy
// does. Load balancers of clouds probe /healthz: it is 200 while no change waits longer than programmingTimeout and nobody
// deletes the node.
type ProxyHealth struct {
	options ProxyHealthOptions
	start   time.Time

	mu sync.Mutex
	// waiting are the changes that no write contains yet. written are the changes of the write that is under way, or that failed.
	waiting, written changes
	seen             map[types.NamespacedName]time.Time // the newest cause of each service's changes
	synced           time.Time                          // zero: never
	families         []corev1.IPFamily
}

// change is a change of a service that the host does not have yet.
type change struct {
	since time.Time
	cause time.Time // when the change of endpoints happened in the cluster; zero: unknown
}

type changes map[types.NamespacedName]change

// add keeps the older of two changes of a service.
func (all changes) add(service types.NamespacedName, c change) {
	if earlier, ok := all[service]; ok {
		c.since = earlier.since
		if !earlier.cause.IsZero() {
			c.cause = earlier.cause
		}
	}
	all[service] = c
}

func (all changes) anyBefore(limit time.Time) bool {
	for _, c := range all {
		if !c.since.After(limit) {
			return true
		}
	}
	return false
}

// NewProxyHealth returns a ProxyHealth that waits for the first write.
func NewProxyHealth(o ProxyHealthOptions) *ProxyHealth {
	start := o.Now()
	return &ProxyHealth{options: o, start: start, waiting: changes{{}: {since: start}}, written: changes{},
		seen: map[types.NamespacedName]time.Time{}}
}

// queue records that a service was read whose newest change of endpoints happened at cause. differs is whether the host must
// be written. Causes from before the start, and causes that are known, are not measured.
func (p *ProxyHealth) queue(service types.NamespacedName, cause time.Time, differs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := cause.After(p.start) && cause.After(p.seen[service])
	if isNew {
		p.seen[service] = cause
	}
	if !differs {
		return
	}
	c := change{since: p.options.Now()}
	if isNew {
		c.cause = cause
	}
	p.waiting.add(service, c)
}

// forget drops what is known of a deleted service. Its deletion may wait.
func (p *ProxyHealth) forget(service types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, service)
}

// begin must be called before the services are read for a write, and done after that write has succeeded.
func (p *ProxyHealth) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for service, c := range p.waiting {
		p.written.add(service, c)
	}
	clear(p.waiting)
}

// done is described at begin.
func (p *ProxyHealth) done(families []corev1.IPFamily) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced, p.families = p.options.Now(), families
	for _, c := range p.written {
		if p.options.Observe != nil && !c.cause.IsZero() {
			p.options.Observe(p.synced.Sub(c.cause))
		}
	}
	clear(p.written)
	if p.options.Synced != nil {
		p.options.Synced(p.synced)
	}
}

func familyNames(f hostnet.Families) (names []corev1.IPFamily) {
	if f.IPv4 {
		names = append(names, corev1.IPv4Protocol)
	}
	if f.IPv6 {
		names = append(names, corev1.IPv6Protocol)
	}
	return names
}

// isHealthy reports whether no change waits longer than programmingTimeout.
func (p *ProxyHealth) isHealthy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.options.Now().Add(-programmingTimeout)
	return !p.waiting.anyBefore(limit) && !p.written.anyBefore(limit)
}

// familyHealth and proxyHealth have the format of kube-proxy's answer.
type familyHealth struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

type proxyHealth struct {
	LastUpdated  time.Time                        `json:"lastUpdated"`
	CurrentTime  time.Time                        `json:"currentTime"`
	NodeEligible *bool                            `json:"nodeEligible,omitempty"`
	Healthy      bool                             `json:"healthy"`
	Status       map[corev1.IPFamily]familyHealth `json:"status,omitempty"`
}

func (p *ProxyHealth) health() proxyHealth {
	healthy := p.isHealthy()
	p.mu.Lock()
	defer p.mu.Unlock()
	h := proxyHealth{LastUpdated: p.synced, CurrentTime: p.options.Now(), Healthy: healthy, Status: map[corev1.IPFamily]familyHealth{}}
	for _, family := range p.families {
		h.Status[family] = familyHealth{LastUpdated: p.synced, Healthy: healthy}
	}
	return h
}

// isEligible reports whether a node may get connections of load balancers: it exists and nobody deletes it.
func isEligible(node *corev1.Node) bool {
	return node != nil && node.DeletionTimestamp.IsZero() &&
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeletedTaint })
}

// Handler serves /healthz and /livez. Only /healthz depends on whether somebody deletes the node.
func (p *ProxyHealth) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		h, eligible := p.health(), isEligible(p.options.Node(r.Context()))
		h.NodeEligible = &eligible
		writeHealth(w, h, h.Healthy && eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		h := p.health()
		writeHealth(w, h, h.Healthy)
	})
	return mux
}

// writeHealth writes an answer. A good one says that the last update is now, as kube-proxy's does.
func writeHealth(w http.ResponseWriter, h proxyHealth, good bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if good {
		h.LastUpdated = h.CurrentTime
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(h) // fails if the client has disconnected
}

// Serve returns a function that serves Handler at an address until its context ends. While another program has the port, such
// as a kube-proxy that still runs, it tries again.
func (p *ProxyHealth) Serve(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		server := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: healthTimeout, IdleTimeout: healthTimeout}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		for wait := firstListenWait; ; wait = min(2*wait, lastListenWait) {
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err == nil {
				_ = server.Serve(listener) // returns after Close
				return nil
			}
			if wait == firstListenWait && p.options.Taken != nil && ctx.Err() == nil {
				p.options.Taken(fmt.Errorf("cannot serve the node's health for load balancers: %w; it is tried again", err))
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
		}
	}
}

// ReportTaken returns a function for ProxyHealthOptions.Taken that records an event of the node.
func ReportTaken(recorder events.EventRecorder, node string) func(error) {
	regarding := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
	return func(why error) {
		recorder.Eventf(regarding, nil, corev1.EventTypeWarning, "ProxyHealthPortTaken", "Balance", "%s", nodeevents.Note(why))
	}
}
