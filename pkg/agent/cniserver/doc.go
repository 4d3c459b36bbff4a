// Package cniserver is the agent's end of the CNI socket. It decides who may send requests, bounds and orders
// them, and leaves the work to a Handler.
//
//	accept ─▶ peer is root? ─▶ read, 1 MiB, 5 s ─▶ valid? ─▶ pod's turn ─▶ a place ─▶ Handler
//	  │             │                │                │
//	  512 at once   closed           error 6          error 4, 7
//
// A request holds its pod's turn before it takes one of the places, so that many requests of one pod never keep
// others waiting. STATUS waits for neither.
package cniserver
