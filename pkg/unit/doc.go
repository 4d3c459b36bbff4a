// Package unit defines the data that every reconciler produces and the engine applies.
//
// A Unit is the part of an OVSDB database that one Kubernetes object, or one key shared by several objects, needs:
//
//	unit "pod/demo/web-0"
//	 ├─ rows         Logical_Switch_Port demo_web-0              (owned whole)
//	 └─ memberships  Logical_Switch worker-1, column ports  ∋ it (one element of a column that others share)
//
// A deleted object is an empty unit, so that there is no delete path. Row UUIDs are derived from symbolic keys (see
// UUID), so that a reference to another unit's row needs no search, and a repeated insert is recognised.
package unit
