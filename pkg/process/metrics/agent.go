package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Agent holds the metrics of a node's agent.
type Agent struct {
	*Database
	requests   *prometheus.HistogramVec
	collected  *prometheus.CounterVec
	stages     *prometheus.HistogramVec
	failed     *prometheus.CounterVec
	failing    prometheus.Gauge
	repairs    *prometheus.CounterVec
	programmed prometheus.Histogram
	synced     prometheus.Gauge
}

// NewAgent registers the metrics of an agent. stages are the stages at which an ADD can fail, and objects the kinds of state that
// are repaired.
func NewAgent(registry prometheus.Registerer, stages, objects []string) *Agent {
	m := &Agent{
		Database: newDatabase(registry),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_cni_request_duration_seconds",
			Help:    "Time that the agent took for a CNI request, including the wait for the pod's port. outcome is ok or error.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}, []string{"command", "outcome"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_collected_total",
			Help: "Interfaces of pods that were removed although no DEL reached the agent. reason is gc (the " +
				"runtime's GC did not list it), sandbox (its pod's port and its sandbox are gone) or tombstone " +
				"(its DEL came while no agent ran)."},
			[]string{"reason"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weft_cni_stage_seconds",
			Help: "Time that each stage of a successful ADD took after the one before it: node, address (the " +
				"operator, northd), link, port (the node's OVSDB), interface (ovs-vswitchd), binding and flows (ovn-controller), " +
				"and for pods with random host ports host-ports (the operator, northd).",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18)}, []string{"stage"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_cni_stage_failures_total",
			Help: "ADDs that failed, by the first incomplete stage."}, []string{"stage"}),
	}
	m.failing = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_cni_failing_interfaces",
		Help: "Interfaces of pods on this node that differed from their original state at the agent's last check, " +
			"which runs every 5 minutes."})
	m.repairs = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weft_agent_repairs_total",
		Help: "Repairs of what Weft writes on the node, after another program had changed or deleted it. object is " +
			"nftables (Weft's tables), firewall (Weft's rules in chains of other firewalls), routes, rules (of policy routing), " +
			"sysctls, flows or ipsec (policies and keys of encrypted tunnels)."}, []string{"object"})
	for _, object := range objects {
		m.repairs.WithLabelValues(object).Add(0)
	}
	m.programmed = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weft_host_service_programming_seconds",
		Help: "Time from a change of a service's endpoints, by the annotation of its EndpointSlices, until this node's host had it: " +
			"its nftables table and the flows of its external bridge. Changes that only OVN makes are in weft_service_propagation_seconds.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)})
	m.synced = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_host_services_synced_timestamp_seconds",
		Help: "When this node's host last had all changes of services, in seconds since 1970; 0 before the first time."})
	for _, reason := range []string{"gc", "sandbox", "tombstone"} {
		m.collected.WithLabelValues(reason).Add(0) // visible from the first scrape
	}
	for _, stage := range stages {
		// otherwise the first failures of a stage, which occur together, would be no increase
		m.failed.WithLabelValues(stage).Add(0)
	}
	registry.MustRegister(m.requests, m.collected, m.stages, m.failed, m.failing, m.repairs, m.programmed, m.synced)
	return m
}

// Collected counts one interface that was removed without a DEL. reason is gc, sandbox or tombstone.
func (m *Agent) Collected(reason string) { m.collected.WithLabelValues(reason).Inc() }

// Stage observes one stage of a successful ADD.
func (m *Agent) Stage(stage string, took time.Duration) {
	m.stages.WithLabelValues(stage).Observe(took.Seconds())
}

// StageFailed counts an ADD that failed at a stage.
func (m *Agent) StageFailed(stage string) { m.failed.WithLabelValues(stage).Inc() }

// Repaired counts one repair. object is the kind of what was repaired.
func (m *Agent) Repaired(object string) { m.repairs.WithLabelValues(object).Inc() }

// Failing sets how many interfaces of pods differed from their original state.
func (m *Agent) Failing(interfaces int) { m.failing.Set(float64(interfaces)) }

// ServiceProgrammed observes how long a change of a service's endpoints took until the host had it.
func (m *Agent) ServiceProgrammed(took time.Duration) { m.programmed.Observe(took.Seconds()) }

// ServicesSynced sets when the host last had all changes of services.
func (m *Agent) ServicesSynced(at time.Time) { m.synced.Set(float64(at.UnixMilli()) / 1000) }

// Request observes one CNI request. command is ADD, DEL, CHECK or STATUS.
func (m *Agent) Request(command string, elapsed time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.requests.WithLabelValues(command, outcome).Observe(elapsed.Seconds())
}
