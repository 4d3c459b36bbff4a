// Package topology builds units from the values that pkg/facts reads from Kubernetes objects. Its functions are pure:
// they use no clients and no clock. The package does not import k8s.io/api.
//
// Pod and PodPort are the only facts here. No object has all of their values: the reconcilers assemble them.
//
//	                ┌───────────────────────────── ovn_cluster_router ─────────────────────────────┐
//	                │ rtos-worker-1                 rtos-worker-2          rtoj-ovn_cluster_router │
//	                └──────┬──────────────────────────────┬───────────────────────────┬────────────┘
//	         stor-worker-1 │                stor-worker-2 │   jtor-ovn_cluster_router │
//	            ┌──────────┴─────────┐         ┌──────────┴─────────┐           ┌─────┴─────┐
//	            │ switch worker-1    │         │ switch worker-2    │           │ join      │
//	            └─┬───────────────┬──┘         └─┬───────────────┬──┘           └───────────┘
//	k8s-worker-1  │               │ demo_web-0   │               │ demo_web-1    (gateway routers follow)
//	ovn-k8s-mp0 (host)            pod            host            pod
//
// Invariants:
//   - Each node has a switch with the node's name. Each pod has a port named <namespace>_<pod>.
//   - The row UUID of a pod's port is derived from the pod's UID, so that a recreated pod never uses its
//     predecessor's port.
//   - Every datapath and every port requests its tunnel key, so that a rebuilt southbound database has the same
//     dataplane keys: datapaths 1 cluster router, 2 join, 0x010000+ID node switches; ports of a node switch 1 router,
//     2 management, 16..32767 pods; ports of the cluster router 1 join, 16+ID nodes.
//   - A pod's port has port security for exactly its own addresses.
//   - A service is one load balancer per protocol in the group clusterLBGroup, which every node's switch has.
//     Where nodes differ, it has templates. A local cluster IP has a load balancer on each node with an endpoint (local.go).
package topology
