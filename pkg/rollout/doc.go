// Package rollout decides what is done next on the way to operands of another version: a pure function of what is there and what is wanted. It
// remembers nothing, so that whoever asks it may be replaced at any time, also by the version before: a way back is a rollout as well.
//
//	preflight ──▶ canary ──▶ other nodes ──▶ databases and ovn-northd ──▶ operator ──▶ complete
//	    │            │            │                    │                     │
//	 Blocked         └────────────┴──── Stopped ───────┴─────────────────────┘   after Facts.Patience without what is waited for
//
// On a node one pod follows the other: ovn-controller, the agent, and Open vSwitch where it is another one. That one's pod stays, and its containers are restarted with the
// image that the others have brought: a node whose link is on a bridge in userspace has no network meanwhile, and would not hear of another pod. Then the agent is asked to reach other nodes
// through the network; its answer repeats a name made of the node's pods and that of the databases, so that no answer of before counts. The first node
// goes alone; then so many may be on their way as ClusterNetwork's spec says. When the databases were replaced all nodes are asked once more.
//
// ovn-northd is never newer than an ovn-controller: it may write flows that an older one cannot read. So nodes come first, and on the way back to an older OVN
// the databases do. Neither is replaced where its OVN is the same.
//
// What is of the wanted image and not as it shall be is no upgrade: it is put right at once.
package rollout
