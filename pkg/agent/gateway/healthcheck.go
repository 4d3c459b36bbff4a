package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// healthTimeout limits the duration of a load balancer's request.
const healthTimeout = 5 * time.Second

// HealthChecks serves the services' healthCheckNodePorts as kube-proxy does: 200 if this node has endpoints of the
// service, and 503 otherwise.
type HealthChecks struct {
	log logr.Logger

	mu     sync.Mutex
	byName map[types.NamespacedName]*healthCheck
	ended  bool
}

// healthCheck is the health check of one service.
type healthCheck struct {
	name   types.NamespacedName
	port   int32
	server *http.Server // nil: cannot listen at the port

	mu    sync.Mutex
	ready int
}

// NewHealthChecks returns HealthChecks without a service.
func NewHealthChecks(log logr.Logger) *HealthChecks {
	return &HealthChecks{log: log, byName: map[types.NamespacedName]*healthCheck{}}
}

// set makes the service's health check at the port report that many ready endpoints on this node. Port 0 removes the
// check.
func (h *HealthChecks) set(name types.NamespacedName, port int32, ready int) {
	if port == 0 {
		h.forget(name)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	check := h.byName[name]
	if check != nil && (check.port != port || check.server == nil) {
		check.close()
		check = nil
	}
	if check == nil && !h.ended {
		check = &healthCheck{name: name, port: port}
		if err := check.listen(); err != nil {
			h.log.Info("cannot serve a health check", "service", name.String(), "port", port, "reason", err.Error())
		}
		h.byName[name] = check
	}
	if check != nil {
		check.set(ready)
	}
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

func (c *healthCheck) close() {
	if c.server != nil {
		_ = c.server.Close()
	}
}

func (c *healthCheck) set(ready int) {
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
func (c *healthCheck) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	answer := healthAnswer{LocalEndpoints: c.ready, ServiceProxyHealthy: true}
	c.mu.Unlock()
	answer.Service.Namespace, answer.Service.Name = c.name.Namespace, c.name.Name
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(answer.LocalEndpoints))
	if answer.LocalEndpoints == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // fails if the client has disconnected
}
