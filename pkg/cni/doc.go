// Package cni creates and removes the links of pods. A link is a veth pair: one end is the pod's interface and the
// other end is a port of the integration bridge.
//
//	pod netns                        host netns
//	┌───────────────┐              ┌─────────────────────────┐
//	│ eth0          ├─── veth ─────┤ weft0123456789 ─ br-int │
//	│ MAC, IPs, MTU │              │ alias weft:<id>/<ifname>│
//	└───────────────┘              └─────────────────────────┘
//
// Both ends are created in their namespaces and with their final names, because moving or renaming a link waits for
// an RCU grace period under the RTNL lock. Duplicate address detection is disabled, because OVN gives each address to
// only one port.
//
// The package works in the network namespace of its process, and enters a pod's namespace on a separate thread.
package cni
