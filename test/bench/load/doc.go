// Package load puts the load of a cluster on a controller: real etcd, kube-apiserver and ovsdb-server, and fake
// Nodes, Pods, Services and policies, all through the public API. `make bench` runs it.
//
//	16 clients ──▶ kube-apiserver ──▶ controller (own process) ──▶ ovsdb-server (NB) ──▶ observer
//	                │ audit log: its calls    │ /proc: its CPU and memory     │ log: transactions, rows
//
// The benchmark measures every figure from outside the controller. The observer monitors NB without libovsdb.
// Transactions and rows are counted in the database's own log, API calls in the API server's audit log, and CPU time
// in /proc. So another controller can replace the operator, as the floor (test/bench/floor) does.
//
// With agents, ovn-northd fills a southbound database, which monitors watch as ovn-controllers do
// (test/bench/probe).
package load
