// Package invariant says what is always true of a network that is at rest: pure functions over the whole northbound database and
// the Kubernetes objects that it is made from, each with a name. They do not ask how the rows came to be, so that they also find
// what the engine and its ledger agree on wrongly.
//
//	Kubernetes objects ──┐
//	rows of NB ──────────┼──▶ World ──▶ Check ──▶ Violations: invariant, rows, owners, objects
//	rows of SB, if read ─┘
//
// A world that is read while things change may violate an invariant for a moment: who looks at a running network looks twice and
// believes what stays. Every check is linear in the number of rows and objects.
package invariant
