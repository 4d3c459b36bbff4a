// Package chassis keeps the chassis in the southbound database: it copies the chassis of other zones' nodes from the northbound
// database, as ovn-ic does, and removes what former nodes left behind. It runs beside the databases, because on the network the
// southbound database accepts writes only with OVN's role.
//
//	operator ─▶ NB: Logical_Switch_Port, type=remote ─▶ Chassis (pure) ─▶ SB: Chassis, Encap
//	                                                       ▲
//	                            SB: Port_Binding, type=remote: which chassis must stay
//
//	operator ─▶ NB: Chassis_Template_Var, one of each node ─▶ left (pure) ─▶ SB: Chassis and Chassis_Private of no node
//
// The rules:
//
//   - The databases' events start each comparison. Nothing polls.
//   - In a cluster, only the process beside the leader of the southbound database writes. The others would revert its
//     changes while their northbound servers lag.
//   - The chassis of a port replaces a chassis of the same name that an ovn-controller made: the node has left this
//     zone.
//   - ovn-controller takes over a remote chassis that has its name. It keeps is-remote and the owner, so the chassis of
//     a node that comes to this zone is removed with its port. ovn-controller then makes another.
//   - A chassis is removed after the bindings that request it. So it survives an empty northbound database while
//     ovn-northd is paused, as "kubectl weft db rebuild" has it.
//   - The chassis of an ovn-controller is removed when it has had no node for a minute. If its ovn-controller runs, it makes
//     another, which stays.
package chassis
