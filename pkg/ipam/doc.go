// Package ipam computes addresses: node subnets of a cluster network, addresses and MACs of a subnet, node IDs and
// port slots. It has no state. The only allocator with state is in pkg/ipam/alloc.
//
//	10.244.0.0/16, hostPrefix 24 ─▶ 10.244.3.0/24 of node 4
//	                                 ├─ .0    network
//	                                 ├─ .1    gateway: the cluster router
//	                                 ├─ .2    management port: the host
//	                                 ├─ .3 …  pods
//	                                 └─ .255  broadcast (IPv4)
package ipam
