// Package sandbox is a container runtime reduced to what a CNI plugin sees of one: network namespaces that are mounted in /run/netns, and
// executions of plugins. It runs inside a node, beside the real runtime, so that a test can call plugins without the cost of entering the
// node for each, and take their time there.
//
//	test ─▶ Client ── JSON lines ──▶ Serve, in the node ── fork, exec ──▶ weft-cni, bridge, ...
package sandbox
