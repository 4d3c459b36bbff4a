// Package rebuild makes OVN's databases anew while the network runs, on the machine where they are.
//
//	live                                             aside
//
//	NB ─────────── all rows ──────────────────────▶ NB'
//	 │                                               │
//	northd (pauses)                                northd'
//	 ▼                                               ▼
//	SB ─────────── chassis, bindings, MACs ───────▶ SB'
//	 ▲             NodeNetworks, where SB is lost ─▶ │
//	 └──────────── its file, by one rename ──────────┘
//
// ovn-controller must never see a southbound database without its chassis, its bindings or its flows: it would take its own flows
// out of Open vSwitch. So the new database is complete before anybody sees it, and takes the old one's place by one rename; then
// the server opens it. As every datapath and port requests its tunnel key, the new rows have the keys of the old ones: packets
// in flight mean the same before and after.
//
// A run is a list of steps. A step that fails undoes itself and those before it, in reverse; nothing live is touched before the
// swap but that ovn-northd pauses. Programs that are started here end with this process, however it ends.
package rebuild
