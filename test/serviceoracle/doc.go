// Package serviceoracle compares what Weft makes of Services with Kubernetes' own kube-proxy.
//
//	random changes ──▶ kube-apiserver ──▶ kube-proxy (nftables) ──▶ its tables, as the kernel has them ──┐
//	                        │                                                                          equal?
//	                        └──▶ Weft's functions ──▶ rows, flows, the host's table in the kernel ──────┘
//
// Both answers are computed for each kind of client of node n1 (a pod, the node, two clients outside), each destination that a service
// has or had, in both gateway modes and with uplink Interface. An answer is
// the set of backends, a refusal, silence, or that nothing was done.
//
//   - kube-proxy and the API server are the programs of the lab (make tools). They run in network namespaces of the test.
//   - Many sequences of changes share one API server. Each has a namespace, addresses and ports of its own. Per step, kube-proxy writes
//     its tables once or twice. A Service that is written last, the marker, shows that it has followed.
//   - Nobody sends packets: ruleset, bridge and fabric evaluate tables, flows and rows. A random choice is the set of all choices.
//   - The agent starts again in each step, in one of the modes. It finds the table of its predecessor, and must not change it.
//   - Answers of health checks (healthCheckNodePort) must have kube-proxy's status and number of endpoints, in both families.
//   - An endpoint that is listed twice has entries that are equal, or one of them terminates. Otherwise kube-proxy uses either entry.
//   - OVN cannot send packets that come from the host, or from the gateway router, to the host's own addresses (docs/user/services.md).
//     Such backends are "lost".
//   - weft.go alone depends on how Weft is called. It renders from the API server's objects, so it does not see what a watch would miss.
//
// Differences by design and known faults are in rules.go. Each known fault must occur. All other differences fail the test.
package serviceoracle
