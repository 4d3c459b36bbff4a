package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// API holds the metrics of the addresses' API.
type API struct{ requests *prometheus.HistogramVec }

// NewAPI registers the metrics of the addresses' API.
func NewAPI(registry prometheus.Registerer) *API {
	m := &API{requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_api_request_duration_seconds",
		Help: "Time that the API of addresses took for a request. operation is the operationId of the OpenAPI document, " +
			"code the status code.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"operation", "code"})}
	registry.MustRegister(m.requests)
	return m
}

// Request observes a request.
func (m *API) Request(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(code)).Observe(took.Seconds())
}
