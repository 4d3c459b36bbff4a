// Package rollout decides the next step towards the wanted version of the operands. The decision is a pure function
// of the observed and the wanted state. It keeps no state of its own, so that the process that calls it may be
// replaced at any time, also by the previous version: a rollback is a rollout as well.
//
//	preflight ──▶ canary ──▶ other nodes ──▶ databases and ovn-northd ──▶ operator ──▶ complete
//	    │            │            │                    │                     │
//	 Blocked         └────────────┴──── Stopped ───────┴─────────────────────┘   after Facts.Patience without progress
//
// On a node the pods are replaced one after the other: ovn-controller, the agent, and Open vSwitch if it changed.
// Open vSwitch keeps its pod; its containers are restarted with the new image, which the other pods have already
// pulled. A node whose link is on a userspace bridge has no network while Open vSwitch restarts, so its kubelet could
// not learn of a new pod.
//
// Then the agent is requested to reach other nodes through the network. Its answer repeats an ID computed from the
// node's pods and the databases' pods, so that no earlier answer counts. The first node, the canary, goes alone; then
// up to the number of nodes in ClusterNetwork's spec are upgraded at a time. After the databases are replaced, all
// nodes must answer once more.
//
// ovn-northd must never be newer than an ovn-controller, because it may write flows that an older ovn-controller
// cannot read. So nodes come first, and on the way back to an older OVN the databases come first. Neither is replaced
// if its OVN stays the same.
//
// Objects that already have the wanted image but differ otherwise are not part of an upgrade; they are repaired at
// once.
package rollout
