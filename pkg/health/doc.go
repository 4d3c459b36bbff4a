// Package health turns what is known of the network into what a status says of it, and does nothing else.
//
//	conditions of a NodeNetwork ──Node──▶ problems ┐
//	facts of the operator ────────────────────────▶ Sort, Together ──▶ areas, and the conditions that sum up
//
// Nothing flaps by rule, not by timer: what waits for somebody who is at work (a reason of waiting) is progress and not a failure, a failure is
// told by whoever has seen it last for long enough (kubelet's silence, its back-off of a container), and what is at a limit, such as a full node,
// counts as over it until it is well below.
package health
