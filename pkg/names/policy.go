package names

import "strings"

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

// longestACL is the longest name that OVN allows an ACL, in bytes.
const longestACL = 63

// PolicyACL is the name that ovn-controller logs for an ACL: what a policy says where. Of one that is too long, the end of the policy's name is missing.
func PolicyACL(namespace, policy, text string) string {
	return aclName("NP", namespace+"/"+policy, text)
}

// ClusterPolicyACL is that name for a policy of the whole cluster; the kind is CNP, ANP or BANP.
func ClusterPolicyACL(kind, policy, text string) string { return aclName(kind, policy, text) }

// EgressFirewallACL is that name for one of a namespace's EgressFirewall.
func EgressFirewallACL(namespace, text string) string { return aclName("EF", namespace, text) }

// aclName keeps the end, which says what and why.
func aclName(kind, policy, text string) string {
	if over := len(kind) + len(policy) + len(text) + len("::") - longestACL; over > 0 {
		kept := max(0, len(policy)-over)
		policy, text = policy[:kept], text[:min(len(text), longestACL-len(kind)-len("::")-kept)]
	}
	return kind + ":" + policy + ":" + text
}
