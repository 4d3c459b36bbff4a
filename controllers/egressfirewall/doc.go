// Package egressfirewall reconciles EgressFirewalls, and the address sets that their rules name.
//
//	EgressFirewall ─▶ port group and ACLs ─names─▶ nodes/<selector> ◀─ Nodes
//	                                      ─names─▶ dns/<name>       ◀─ name servers
//
// A set is one for all who name it, and is there as long as somebody does. Pods are in the group by their own units, from the transaction
// on that makes their port.
package egressfirewall
