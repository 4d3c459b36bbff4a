// Package secondary attaches the interfaces that pods request beside that on the cluster network, in the format of the
// Network Plumbing Working Group (package networks). Interfaces on Networks of Weft are ports of br-int; other
// definitions are delegated to the node's CNI plugins.
//
//	ADD of eth0 ─▶ Plan: pod, definitions ─▶ eth0 ─▶ Attach: all, or none ─▶ network-status
//	the pod's port changes ─▶ queue ─▶ compare with what the sandbox has ─▶ detach, attach ─▶ network-status
//
// No agent watches pods. The operator puts a hash of the pod's annotation into the pod's port, and the agent reads
// the one pod when the hash changes. An ordinary pod has no hash and costs nothing.
package secondary
