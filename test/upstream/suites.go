// Package upstream runs Kubernetes' own tests of networks in a lab, and those of network-policy-api, none of them edited.
package upstream

// Suite is a part of the tests.
type Suite struct {
	Name string // of its files
	// Focus and Skip are regular expressions over a test's whole name.
	Focus, Skip string
	// PolicyAPI is the go.mod of network-policy-api's tests, of one of its versions; empty: Kubernetes' own tests.
	PolicyAPI string
}

// Suites are what `make e2e-upstream` runs. docs/conformance.md has the reason for each test that is left out.
var Suites = []Suite{
	{Name: "conformance", Focus: `\[sig-network\].*\[Conformance\]`},
	{Name: "netpol", Focus: `\[sig-network\] Netpol`, Skip: sctp},
	{Name: "others", Focus: `\[sig-network\]`, Skip: `\[Conformance\]|Netpol|` + sctp + `|` + elsewhere},
	{Name: "policyapi", PolicyAPI: "go.mod"},
	{Name: "policyapi-v1alpha1", PolicyAPI: "v1alpha1.mod"},
}

const (
	// sctp: the lab's kernel may have no SCTP sockets.
	sctp = `SCTP`
	// elsewhere is what needs a cloud, an ingress controller, the Internet, kube-proxy itself, feature gates that are off, or a cluster of its own.
	elsewhere = `\[Disruptive\]|\[Feature:|\[FeatureGate:|\[Slow\]|\[Serial\]|LoadBalancer|KubeProxy|kube-proxy|Firewall|Ingress|\[LinuxOnly\] NetworkPolicyLegacy|external \(client\)|Internet`
)
