// Package soak wears the agent out and counts what is left. It executes the installed plugin in a node as a runtime does, for pods that the
// operator serves, while the agent is killed again and again; and it starts and ends pods through kubelet under the same kills. Everything that
// an ADD makes anywhere is counted before and after.
//
//	Run ─▶ workers ── ADD, DEL of all kinds ──▶ weft-cni ─▶ agent ◀── kill -9 ── killer
//	  └──▶ Inventory before, Inventory after: what is more now has leaked
package soak
