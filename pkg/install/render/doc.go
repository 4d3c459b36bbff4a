// Package render computes what the operator runs in a cluster: the completed workloads of config/operands,
// config/operator and config/agent, and the Secrets with which they authenticate to each other. It is pure;
// controllers/operand reads the cluster and applies the results.
//
//	Nodes ─▶ Place ─┬▶ Workloads ─▶ weft-central, weft-ovs, weft-ovn-controller, weft-operator, weft-agent
//	Secrets ────────┴▶ Keys ─▶ weft-{nb,sb}-{ca,server,tls}
package render
