// Package uplink moves the node's link that leads outside onto an Open vSwitch bridge, and back, without disconnecting
// the node.
//
//	eth0 (addresses, routes)   ─▶   breth0 (addresses, routes) ─ bridge ─ eth0 (nothing)
//
// Every move is a commit-confirm:
//
//	snapshot ─▶ ledger on disk: Moving ─▶ steps ─▶ probe ─▶ ledger: Confirmed
//	                 │                                 │
//	                 └─ death, deadline, failed probe ─┴─▶ undo ─▶ ledger: RolledBack
//
// Steps are data. Each step describes the state that it establishes, not a change, so that repeating a step changes
// nothing. Undoing may therefore begin at any point and may be repeated after any death. Three parties supervise a move.
// This process has a deadline. The guard, a separate process in its own session, undoes the move at once when the pipe
// to this process closes, and at the deadline in any case. The next start of the agent calls Recover before anything
// else.
//
// On the userspace datapath nothing is forwarded while Open vSwitch does not run. After a grace, Watch and Recover give links their
// addresses and routes back, with the steps of undoing but without the rows. Ensure moves such a link again:
//
//	Confirmed ─▶ Open vSwitch is away ─▶ ledger: Undoing ─▶ undo without rows ─▶ ledger: Away ─▶ Ensure ─▶ Moving
//
// A ledger is valid for one boot. After a reboot the host has configured its link again, and nothing on the link is
// Weft's. Undoing then removes only Weft's rows in Open vSwitch, and the next move takes a new snapshot.
package uplink
