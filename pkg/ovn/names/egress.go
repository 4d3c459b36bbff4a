package names

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// EgressPods is the group of the ports of all pods that an EgressIP selects.
const EgressPods = "egress_pods"

// Inside is the set of destinations, of a family ("IPv4", "IPv6"), to which pods do not use their egress IP: the
// networks of pods and routers, and the nodes' addresses.
func Inside(family string) string { return "inside_" + family }

// EgressIPPods is the set of the addresses of an EgressIP's pods. OVN allows letters, digits, underscores and periods
// in it. The hash distinguishes names that differ in other characters.
func EgressIPPods(egressIP, family string) string {
	hash := fnv.New64a()
	fmt.Fprint(hash, egressIP)
	return "egressip_" + strings.ReplaceAll(egressIP, "-", "_") + fmt.Sprintf("_%x_", hash.Sum64()) + family
}
