// Package upstream runs Kubernetes' own network tests and network-policy-api's tests in a lab, without changes to
// them.
package upstream

// Suite is a part of the tests.
type Suite struct {
	Name string // name of its files
	// Focus and Skip are regular expressions over a test's whole name.
	Focus, Skip string
	// PolicyAPI is the go.mod of a version of network-policy-api's tests; empty for Kubernetes' own tests.
	PolicyAPI string
}

// Suites are what `make e2e-upstream` runs. docs/evidence/conformance.md gives the reason for each skipped test.
var Suites = []Suite{
	{Name: "conformance", Focus: `\[sig-network\].*\[Conformance\]`},
	{Name: "netpol", Focus: `\[sig-network\] Netpol`, Skip: sctp},
	{Name: "others", Focus: `\[sig-network\]`, Skip: `\[Conformance\]|Netpol|` + sctp + `|` + elsewhere},
	{Name: "policyapi", PolicyAPI: "go.mod"},
	{Name: "policyapi-v1alpha1", PolicyAPI: "v1alpha1.mod"},
}

const (
	// sctp tests are skipped because the lab's kernel may have no SCTP sockets.
	sctp = `SCTP`
	// elsewhere are tests that need a cloud, an ingress controller, the Internet, kube-proxy itself, disabled
	// feature gates, or their own cluster.
	elsewhere = `\[Disruptive\]|\[Feature:|\[FeatureGate:|\[Slow\]|\[Serial\]|LoadBalancer|KubeProxy|` +
		`kube-proxy|Firewall|Ingress|\[LinuxOnly\] NetworkPolicyLegacy|external \(client\)|Internet`
)
