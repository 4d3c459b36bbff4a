// Package cni makes and removes the links of pods: a veth pair whose one end is
// the pod's interface and whose other end is a port of the integration bridge.
//
//	pod netns                        host netns
//	┌───────────────┐              ┌─────────────────────────┐
//	│ eth0          ├─── veth ─────┤ weft0123456789 ─ br-int │
//	│ MAC, IPs, MTU │              │ alias weft:<id>/<ifname>│
//	└───────────────┘              └─────────────────────────┘
//
// Both ends are created where they live and with the names they keep: moving or
// renaming a link waits for an RCU grace period under the RTNL lock. Nothing
// here waits for duplicate address detection: OVN gave the address to one port.
//
// The package works on the network namespace of its process, and enters a pod's
// with a thread of its own.
package cni
