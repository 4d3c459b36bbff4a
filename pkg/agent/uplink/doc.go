// Package uplink moves a node's link to the outside onto an Open vSwitch bridge, and back, without losing the node.
//
//	eth0 (addresses, routes)   ─▶   breth0 (addresses, routes) ─ bridge ─ eth0 (nothing)
//
// Every move is a commit-confirm:
//
//	snapshot ─▶ ledger on disk: Moving ─▶ steps ─▶ probe ─▶ ledger: Confirmed
//	                 │                                 │
//	                 └─ death, deadline, failed probe ─┴─▶ undo ─▶ ledger: RolledBack
//
// Steps are data, and each says how something shall be, not what to change: doing one again changes nothing, so undoing may begin at any
// point and be repeated after any death. Three watch over a move: this process by its deadline; a process of its own in another session
// (the guard), which undoes at once when the pipe to this process ends and at the deadline whatever this process does; and the next start,
// whose first act is Recover.
//
// What is in the ledger holds for one boot. After a reboot the host has configured its link anew and nothing on it is ours, so only our
// rows in Open vSwitch go, and the move is made again with a new snapshot.
package uplink
