// Package rebuild recreates OVN's databases while the network runs. It runs on the host of the databases.
//
//	live                                             aside
//
//	NB ─────────── all rows ──────────────────────▶ NB'
//	 │                                               │
//	northd (pauses)                                northd'
//	 ▼                                               ▼
//	SB ─────────── chassis, bindings, MACs ───────▶ SB'
//	 ▲             NodeNetworks, if SB is lost ────▶ │
//	 └──────────── its file, by one rename ──────────┘
//
// ovn-controller must never see a southbound database without its chassis, its bindings or its flows, because it
// would remove its flows from Open vSwitch. So the new database is completed before any client sees it. One rename
// then puts its file in the old one's place, and the server opens it. Every datapath and port requests its tunnel
// key, so the new rows have the keys of the old ones and packets in flight keep their meaning.
//
// A run is a list of steps. If a step fails, it and all earlier steps are undone in reverse order. Before the swap a
// run changes nothing live, except that ovn-northd pauses. Programs that a run starts end with this process, however
// it ends.
package rebuild
