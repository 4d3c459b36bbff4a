package agent

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

// healthTimeout bounds how long a load balancer may take to ask.
const healthTimeout = 5 * time.Second

// healthChecks answer load balancers that ask whether this node has endpoints of a service, at the service's healthCheckNodePort, as kube-proxy
// does: 200 where it has, 503 where it has none.
type healthChecks struct {
	log logr.Logger

	mu     sync.Mutex
	byName map[types.NamespacedName]*healthCheck
	ended  bool
}

// healthCheck is a service's.
type healthCheck struct {
	name   types.NamespacedName
	port   int32
	server *http.Server // nil: the port could not be had

	mu    sync.Mutex
	ready int
}

func newHealthChecks(log logr.Logger) *healthChecks {
	return &healthChecks{log: log, byName: map[types.NamespacedName]*healthCheck{}}
}

// set makes the service's health check answer at the port, 0 for none, that so many endpoints are ready here.
func (h *healthChecks) set(name types.NamespacedName, port int32, ready int) {
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
			h.log.Info("health check is not served", "service", name.String(), "port", port, "reason", err.Error())
		}
		h.byName[name] = check
	}
	if check != nil {
		check.set(ready)
	}
}

func (h *healthChecks) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if check := h.byName[name]; check != nil {
		check.close()
		delete(h.byName, name)
	}
}

// run ends all with ctx.
func (h *healthChecks) run(ctx context.Context) error {
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
		_ = c.server.Serve(listener) // ends with close
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

// healthAnswer is kube-proxy's.
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
	_ = json.NewEncoder(w).Encode(answer) // who asked may be gone
}
