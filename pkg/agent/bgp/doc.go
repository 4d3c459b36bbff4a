// Package bgp announces the node's routes by BGP. Each BGPPeer has a server of its own, with a table of the routes for
// that peer only, so that no policies decide which peer gets which route, and a change of one peer disturbs no other. A
// server does not listen: the node opens every session itself.
//
// Without a peer, nothing runs. When the agent ends, its sessions end without a notification. Routers with graceful
// restart therefore keep the routes, and the next agent confirms them.
package bgp
