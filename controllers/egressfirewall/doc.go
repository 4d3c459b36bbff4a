// Package egressfirewall reconciles EgressFirewalls, and the address sets that their rules name.
//
//	EgressFirewall ─▶ port group and ACLs ─names─▶ nodes/<selector> ◀─ Nodes
//	                                      ─names─▶ dns/<name>       ◀─ name servers
//
// All rules that name a set share it. A set exists while at least one rule names it. Pods join the group by their own
// units, in the transaction that creates their port.
package egressfirewall
