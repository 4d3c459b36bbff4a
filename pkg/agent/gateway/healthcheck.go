package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/ipam/reserved"
)

// healthTimeout limits the duration of a load balancer's request.
const healthTimeout = 5 * time.Second

// HealthChecks serves the services' healthCheckNodePorts as kube-proxy does: 200 if this node has endpoints of the
// service in the client's family and the node's services are programmed, and 503 otherwise.
type HealthChecks struct {
	healthy func() bool // whether the node's services are programmed

	mu     sync.Mutex
	byName map[types.NamespacedName]*healthCheck
	ended  bool
}

// healthCheck is the health check of one service.
type healthCheck struct {
	name    types.NamespacedName
	port    int32
	server  *http.Server
	healthy func() bool

	mu    sync.Mutex
	ready localEndpoints
}

// localEndpoints are the numbers of addresses at which a service has ready endpoints on the node.
type localEndpoints struct{ ipv4, ipv6 int }

// NewHealthChecks returns HealthChecks without a service. healthy reports whether the node's services are programmed.
func NewHealthChecks(healthy func() bool) *HealthChecks {
	return &HealthChecks{healthy: healthy, byName: map[types.NamespacedName]*healthCheck{}}
}

// set makes the service's health check at the port report ready endpoints on this node. Port 0 removes the
// check. An error means that the port cannot be listened at now. The caller tries again.
func (h *HealthChecks) set(name types.NamespacedName, port int32, ready localEndpoints) error {
	if port == 0 {
		h.forget(name)
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	check := h.byName[name]
	if check != nil && check.port != port {
		check.close()
		delete(h.byName, name)
		check = nil
	}
	if check == nil && !h.ended {
		check = &healthCheck{name: name, port: port, healthy: h.healthy}
		if err := check.listen(); err != nil {
			return fmt.Errorf("health check port %d: %w", port, err)
		}
		h.byName[name] = check
	}
	if check != nil {
		check.set(ready)
	}
	return nil
}

// ports returns the ports at which the services' health checks are served.
func (h *HealthChecks) ports() (found []reserved.Port) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, check := range h.byName {
		found = append(found, reserved.Port{Protocol: "tcp", Number: uint16(check.port), Owner: "the node port of service " + name.String()})
	}
	return found
}

func (h *HealthChecks) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if check := h.byName[name]; check != nil {
		check.close()
		delete(h.byName, name)
	}
}

// Run closes all health checks when ctx ends.
func (h *HealthChecks) Run(ctx context.Context) error {
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, check := range h.byName {
		check.close()
	}
	return nil
}

func (c *healthCheck) listen() error {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(c.port))))
	if err != nil {
		return err
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: healthTimeout, IdleTimeout: healthTimeout}
	go func() {
		_ = c.server.Serve(listener) // returns after close
	}()
	return nil
}

func (c *healthCheck) close() { _ = c.server.Close() }

func (c *healthCheck) set(ready localEndpoints) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = ready
}

// healthAnswer has the format of kube-proxy's response.
type healthAnswer struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// ServeHTTP implements http.Handler.
func (c *healthCheck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	answer := healthAnswer{LocalEndpoints: c.ready.ipv4, ServiceProxyHealthy: c.healthy()}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && at.IP.To4() == nil {
		answer.LocalEndpoints = c.ready.ipv6
	}
	c.mu.Unlock()
	answer.Service.Namespace, answer.Service.Name = c.name.Namespace, c.name.Name
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(answer.LocalEndpoints))
	if answer.LocalEndpoints == 0 || !answer.ServiceProxyHealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // fails if the client has disconnected
}
