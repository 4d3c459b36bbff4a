// Package health computes what a status reports about the network. It does nothing else.
//
//	conditions of a NodeNetwork ──Node──▶ problems ┐
//	facts of the operator ────────────────────────▶ Sort, Together ──▶ areas, and the conditions that sum up
//
// Conditions do not flap, by rule and not by timer. A reason of waiting counts as progress, not as a failure. A
// failure is reported only by a component that has seen it last long enough, such as the kubelet's silence or its
// back-off of a container. A value at a limit, such as a full node, counts as over the limit until it is well below.
package health
