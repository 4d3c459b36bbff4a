// Package unit is the data that every reconciler produces and the engine applies.
//
// A Unit is what one Kubernetes object, or one key shared by several, wants in an OVSDB database:
//
//	unit "pod/demo/web-0"
//	 ├─ rows         Logical_Switch_Port demo_web-0              (owned whole)
//	 └─ memberships  Logical_Switch worker-1, column ports  ∋ it (one element of a column that others share)
//
// A deleted object is an empty unit, so there is no delete path. Row UUIDs are derived from symbolic keys (see UUID), so a
// reference to another unit's row needs no look-up and a repeated insert is recognised.
package unit
