package metrics

import "github.com/prometheus/client_golang/prometheus"

// Rule is one of a policy, with what it decided.
type Rule struct {
	Kind, Namespace, Name, Rule, Verdict string
	Packets                              uint64
}

// policies asks for the counters of rules when they are read.
type policies struct {
	packets *prometheus.Desc
	read    func() []Rule
}

// NewPolicies registers the counters of rules, which read asks for at each scrape.
func NewPolicies(registry prometheus.Registerer, read func() []Rule) {
	registry.MustRegister(&policies{read: read, packets: prometheus.NewDesc("weft_policy_packets_total",
		"Packets that a rule decided on this node, of policies whose decisions are logged (annotation network.weft.dev/acl-logging). verdict is allow, pass or drop.",
		[]string{"kind", "namespace", "name", "rule", "verdict"}, nil)})
}

// Describe implements prometheus.Collector.
func (p *policies) Describe(to chan<- *prometheus.Desc) { to <- p.packets }

// Collect implements prometheus.Collector.
func (p *policies) Collect(to chan<- prometheus.Metric) {
	for _, rule := range p.read() {
		to <- prometheus.MustNewConstMetric(p.packets, prometheus.CounterValue, float64(rule.Packets), rule.Kind, rule.Namespace, rule.Name, rule.Rule, rule.Verdict)
	}
}
