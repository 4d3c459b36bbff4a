// Package load puts the load of a cluster on a controller: real etcd, kube-apiserver and ovsdb-server, fake Nodes, Pods, Services and
// policies, all through the public API. `make bench` runs it.
//
//	16 clients ──▶ kube-apiserver ──▶ controller, a process of its own ──▶ ovsdb-server (NB) ──▶ observer
//	                │ audit log: its calls    │ /proc: its CPU and memory     │ log: transactions, rows
//
// Nobody is asked how fast he is: the observer is a monitor of NB without libovsdb, transactions and rows are counted in the database's
// own log, API calls in the API server's audit log, and CPU time in /proc. So another controller can stand in the place of the operator; the
// floor (test/bench/floor) does.
//
// With agents, ovn-northd copies the database to a southbound one, which monitors like those of ovn-controllers watch (test/bench/probe).
package load
