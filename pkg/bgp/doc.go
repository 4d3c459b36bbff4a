// Package bgp decides which routes each node announces to which BGPPeer. It is pure: it reads no cache and writes
// nothing.
//
//	BGPPeers, BGPAdvertisements, LoadBalancerPools, Services, EgressIPs, nodes ─▶ Compute ─▶ NodeNetwork.spec.bgp
package bgp
