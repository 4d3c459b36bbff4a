// Package central measures what a network of a given size costs the programs between the operator and the nodes:
// ovn-northd and the southbound ovsdb-server. `make bench-central` runs it.
//
//	units of pkg/topology ──▶ pkg/ovndb ──▶ ovsdb-server (NB) ──▶ ovn-northd ──▶ ovsdb-server (SB) ──▶ agents: monitors without a node
//
// The rows are the rows that the operator writes for such a cluster; Kubernetes is not involved. The figures are CPU
// time and memory from /proc, rows, bytes sent to a monitor, and the statistics of northd's incremental engine
// (inc-engine/show-stats): which of its nodes had to recompute everything.
package central
