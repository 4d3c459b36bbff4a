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

// Routed is the set of the addresses, of a family ("IPv4", "IPv6"), of a node's pods that leave by routers of their own, and AllRouted
// that of all nodes' pods.
func Routed(node, family string) string { return "routed_" + plain(node) + "_" + family }

// AllRouted is described at Routed.
func AllRouted(family string) string { return "routed_" + family }

// EgressAddresses is the set of egress IPs of one family ("IPv4", "IPv6") that a node's gateway router carries in Local mode.
func EgressAddresses(node, family string) string { return "egress_" + plain(node) + "_" + family }

// AnsweredAddresses is the set of addresses of load balancers of one family ("IPv4", "IPv6") for which a node's host answers in
// Local mode.
func AnsweredAddresses(node, family string) string { return "answered_" + plain(node) + "_" + family }

// RouterAddresses is the set of addresses of one family ("IPv4", "IPv6") for which a node's gateway router answers in Shared mode: egress
// IPs and addresses of load balancers.
func RouterAddresses(node, family string) string { return "router_" + plain(node) + "_" + family }

// EgressIPPods is the set of the addresses of an EgressIP's pods. OVN allows letters, digits, underscores and periods
// in it. The hash distinguishes names that differ in other characters.
func EgressIPPods(egressIP, family string) string {
	return "egressip_" + plain(egressIP) + "_" + family
}

// plain writes a name with the characters that OVN allows in the name of a set, and a hash.
func plain(name string) string {
	hash := fnv.New64a()
	fmt.Fprint(hash, name)
	return strings.NewReplacer("-", "_", "/", "_").Replace(name) + fmt.Sprintf("_%x", hash.Sum64())
}
