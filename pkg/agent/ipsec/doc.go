// Package ipsec encrypts a node's tunnels with IPsec. It configures strongSwan's IKE daemon (charon) on the node through its vici
// socket; charon negotiates keys with the other nodes and writes them into the kernel.
//
//	tunnels in Open vSwitch ─▶ connections ──vici──▶ charon ──▶ xfrm policies and states of the kernel
//	identity of the chassis ─▶ key, certificate ─┘      │
//	                                                    └── IKEv2, UDP 500 ──▶ charon of the other node
//
// ESP in transport mode protects UDP packets from and to Geneve's port between two addresses of tunnels. The certificates are those by
// which ovn-controllers identify themselves to the southbound database. ovs-monitor-ipsec, which OVN's own ipsec option needs, is a
// Python program that writes charon's former configuration files and reads RSA keys only.
package ipsec
