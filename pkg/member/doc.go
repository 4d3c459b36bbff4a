// Package member is what a host of OVN's databases does when these have several members (ovsdb(7), clustered database service model):
//
//	operator ─Order, TLS─▶ Server ─▶ the order's file ─▶ weft-ovn nb|sb: create, join, or wait (package launch)
//	         ◀─State──────         ─▶ cluster/kick
//	ovsdb-server, ovn-northd ─▶ a socket for each other member ─TLS─▶ its Server ─▶ its sockets
//
// ovsdb-server has one authority for all that it does, and that of the southbound one signs every node's chassis. So neither raft nor ovn-northd is on the
// network by itself: a node could be a member. They use sockets of their host, and what is between hosts knows each other by the northbound database's
// authority, which no node has a key of.
package member
