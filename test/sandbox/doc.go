// Package sandbox is a minimal container runtime from a CNI plugin's point of view: network namespaces mounted in
// /run/netns, and executions of plugins. It runs inside a node next to the real runtime, so that a test can call
// plugins, and time them there, without entering the node for each call.
//
//	test ─▶ Client ── JSON lines ──▶ Serve, in the node ── fork, exec ──▶ weft-cni, bridge, ...
package sandbox
