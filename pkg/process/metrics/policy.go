package metrics

import "github.com/prometheus/client_golang/prometheus"

// Rule is a rule of a policy, with its decisions.
type Rule struct {
	Kind, Namespace, Name, Rule, Verdict string
	Packets                              uint64
}

// policies reads the counters of rules at each scrape.
type policies struct {
	packets *prometheus.Desc
	read    func() []Rule
}

// NewPolicies registers the counters of rules. read is called at each scrape.
func NewPolicies(registry prometheus.Registerer, read func() []Rule) {
	registry.MustRegister(&policies{read: read, packets: prometheus.NewDesc("weft_policy_packets_total",
		"Packets that a rule decided on this node, for policies with logged decisions (annotation "+
			"network.weft.dev/acl-logging). verdict is allow, pass or drop.",
		[]string{"kind", "namespace", "name", "rule", "verdict"}, nil)})
}

// Describe implements prometheus.Collector.
func (p *policies) Describe(to chan<- *prometheus.Desc) { to <- p.packets }

// Collect implements prometheus.Collector.
func (p *policies) Collect(to chan<- prometheus.Metric) {
	for _, rule := range p.read() {
		to <- prometheus.MustNewConstMetric(p.packets, prometheus.CounterValue, float64(rule.Packets), rule.Kind,
			rule.Namespace, rule.Name, rule.Rule, rule.Verdict)
	}
}
