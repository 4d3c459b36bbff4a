// Package bfd detects within a second that a router is unreachable, by Bidirectional Forwarding Detection: asynchronous
// mode (RFC 5880), with routers on the node's link (RFC 5881) and behind other routers (RFC 5883).
//
//	Listener, UDP 3784 and 4784 ─▶ Node ─▶ Session ─▶ machine, a value ─▶ the session's own socket
//	                                          └─▶ Changed: BGP closes the session with the router
//
// A Node opens a listener with the first session that needs it, and closes it with the last. Each Session has a goroutine
// and a socket whose source port does not change. The machine decides everything from packets and times; it reads no clock.
//
// There is no authentication, echo function or demand mode of the node's own. The node's sessions share the fate of the
// agent, so that packets never have the C bit.
//
// The package exists because no library fits. GoBGP 4 (as of 4.8) has BFD inside of each BGP server, and Weft has a server
// for each BGPPeer. The servers bind the same wildcard port, so that the kernel gives all packets to the last one. GoBGP does
// not check the TTL of received packets, has sessions on the link alone, ignores the router's intervals, and resets BGP
// when the router only switches BFD off. gopacket's decoder panics on a packet whose authentication section is cut off.
package bfd
