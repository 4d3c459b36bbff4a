// Package pod reconciles Pods. Each pod with a network of its own gets an address and a port in the database. An
// ordinary pod costs no API write, because the port carries everything to the node.
//
//	Pod ─ read.go ─> request ┐
//	NodeNetwork, selectors,  ├─ decide.go ─> fate ─ take.go ─> addresses ─ apply.go ─> port, conditions, record
//	addresses in use ─ state ┘               (release, leave, refuse, or a port: here, of a node that is away, elsewhere)
//
// The files read.go and decide.go have no effects, and apply.go assembles the port, whatever the fate. What is remembered of pods is in
// state.go and in package alloc; restore.go fills both at the start. The other files say which events enqueue which pods.
package pod
