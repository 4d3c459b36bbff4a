package names

import (
	"fmt"
	"strings"
)

// NamespacePorts is the port group of a namespace's pods. OVN allows letters, digits, underscores and dots in it, a namespace has no dot.
func NamespacePorts(namespace string) string {
	return "ns_" + strings.ReplaceAll(namespace, "-", ".")
}

// AddressSet is the set of addresses of one family ("IPv4", "IPv6") of what its kind and name say. A name has no underscore.
func AddressSet(kind, name, family string) string {
	return kind + "_" + strings.ReplaceAll(name, "-", "_") + "_" + family
}

// ManagementPorts is the port group of the management ports of all nodes.
const ManagementPorts = "management_ports"

// ManagementAddresses is the set of their addresses of one family ("IPv4", "IPv6").
func ManagementAddresses(family string) string { return "management_" + family }

// PodGroup is the port group of the pods of a selector, by the selector's hash.
func PodGroup(hash string) string { return "pods_" + hash }

// PolicyACL is the name that ovn-controller logs for an ACL: what a policy says where. OVN allows 63 characters.
func PolicyACL(namespace, policy, text string) string {
	const longest = 63
	name := fmt.Sprintf("NP:%s/%s:%s", namespace, policy, text)
	if over := len(name) - longest; over > 0 { // the end says what and why
		name = fmt.Sprintf("NP:%s:%s", (namespace + "/" + policy)[:len(namespace)+1+len(policy)-over], text)
	}
	return name
}

// ClusterPolicyACL is that name for a ClusterNetworkPolicy's.
func ClusterPolicyACL(policy, text string) string {
	const longest = 63
	if over := len("CNP::") + len(policy) + len(text) - longest; over > 0 {
		policy = policy[:len(policy)-over]
	}
	return "CNP:" + policy + ":" + text
}
