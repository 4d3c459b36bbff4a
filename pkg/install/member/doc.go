// Package member runs on each host that serves OVN's databases while they are clustered (ovsdb(7), clustered database
// service model):
//
//	operator ─Order, TLS─▶ Server ─▶ the order file ─▶ weft-ovn nb|sb: create, join, or wait (package launch)
//	         ◀─State──────         ─▶ cluster/kick
//	ovsdb-server, ovn-northd ─▶ a socket for each other member ─TLS─▶ that member's Server ─▶ its sockets
//
// ovsdb-server accepts a single certificate authority for all its connections, and the southbound database's
// authority signs the chassis certificate of every node. If raft or ovn-northd listened on the network, any node
// could therefore join as a member. They use only sockets of their host. Connections between hosts authenticate with
// the northbound database's authority, which signs no node's key.
package member
