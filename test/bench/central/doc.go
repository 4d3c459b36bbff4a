// Package central measures what a network of a given size costs the programs between the operator and the nodes:
// ovn-northd and the southbound ovsdb-server. `make bench-central` runs it.
//
//	units of pkg/topology ──▶ pkg/ovndb ──▶ ovsdb-server (NB) ──▶ ovn-northd ──▶ ovsdb-server (SB) ──▶ agents: monitors without a node
//
// The rows are the rows that the operator writes for such a cluster; Kubernetes is not involved. The figures are CPU
// time and memory from /proc, rows, bytes sent to a monitor, and the statistics of northd's incremental engine
// (inc-engine/show-stats): which of its nodes had to recompute everything.
//
// With -zones N, the network of that size is in N equal parts, and the measured databases belong to the default zone. They
// have the rows of its own nodes and pods, all services, policies and sets, the addresses of pods elsewhere in the sets, and
// the rows of nodes elsewhere. weft-ovn's own code (pkg/install/chassis) copies the chassis of nodes elsewhere. The network
// has no EgressIPs, so the policies that lead to their nodes elsewhere are missing.
package central
