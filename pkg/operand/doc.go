// Package operand computes what the operator runs in a cluster: the workloads of config/operands, config/operator and config/agent, filled in, and
// the Secrets by which they know each other. It is pure; controllers/operand reads and applies.
//
//	Nodes ─▶ Place ─▶ the node of the databases ─┬▶ Workloads ─▶ weft-central, weft-ovs, weft-ovn-controller, weft-operator, weft-agent
//	Secrets of before ───────────────────────────┴▶ Keys ─▶ weft-{nb,sb}-{ca,server,tls}
package operand
