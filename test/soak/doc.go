// Package soak stresses the agent and searches for leaks. It executes the installed plugin in a node as a runtime
// does, for pods that the operator serves, while the agent is killed repeatedly. It also starts and ends pods
// through kubelet under the same kills. It counts everything that an ADD creates, before and after.
//
//	Run ─▶ workers ── ADD, DEL of all kinds ──▶ weft-cni ─▶ agent ◀── kill -9 ── killer
//	  └──▶ Inventory before, Inventory after: any increase is a leak
package soak
