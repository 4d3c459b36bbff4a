// Package central measures what a network of some size costs the programs between the operator and the nodes: ovn-northd and the southbound
// ovsdb-server. `make bench-central` runs it.
//
//	units of pkg/topology ──▶ pkg/ovndb ──▶ ovsdb-server (NB) ──▶ ovn-northd ──▶ ovsdb-server (SB) ──▶ agents: monitors without a node
//
// The rows are those that the operator writes for such a cluster; no Kubernetes is there. What is told is CPU time and memory from /proc, rows,
// bytes that a monitor is sent, and what northd's incremental engine says that it did (inc-engine/show-stats): which of its nodes had to
// compute everything anew.
package central
