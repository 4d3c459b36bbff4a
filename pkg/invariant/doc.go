// Package invariant defines what is always true of a network at rest. Each invariant has a name and is a pure
// function of the whole northbound database and the Kubernetes objects that it is derived from. Invariants ignore how
// the rows were written, so that they also find errors on which the engine and its ledger agree.
//
//	Kubernetes objects ──┐
//	rows of NB ──────────┼──▶ World ──▶ Check ──▶ Violations: invariant, rows, owners, objects
//	rows of SB, if read ─┘
//
// A world that is read during changes may briefly violate an invariant. Check a running network twice and report only
// what persists. Every check is linear in the number of rows and objects.
package invariant
