package names

import "strings"

// NamespacePorts is the port group of a namespace's pods. OVN allows letters, digits, underscores and dots in it. A
// namespace has no dot.
func NamespacePorts(namespace string) string {
	return "ns_" + strings.ReplaceAll(namespace, "-", ".")
}

// AddressSet is the address set of one family ("IPv4", "IPv6") for a kind and name. A name has no underscore, and an asterisk
// only before its first dot. OVN allows no asterisk; without it the name begins with a dot, as no other name does.
func AddressSet(kind, name, family string) string {
	return kind + "_" + strings.ReplaceAll(strings.TrimPrefix(name, "*"), "-", "_") + "_" + family
}

// ManagementPorts is the port group of the management ports of all nodes.
const ManagementPorts = "management_ports"

// ManagementAddresses is the address set of the management ports of one family ("IPv4", "IPv6").
func ManagementAddresses(family string) string { return "management_" + family }

// ClusterIPs is the set of the cluster IPs of one family ("IPv4", "IPv6") that Weft balances.
func ClusterIPs(family string) string { return "cluster_ips_" + family }

// PodGroup is the port group of the pods of a selector, by the selector's hash.
func PodGroup(hash string) string { return "pods_" + hash }

// longestACL is the length of the longest ACL name that OVN allows, in bytes.
const longestACL = 63

// PolicyACL is the name of a NetworkPolicy's ACL in ovn-controller's log. It consists of the policy and a text. If
// the name is too long, the end of the policy's name is cut.
func PolicyACL(namespace, policy, text string) string {
	return aclName("NP", namespace+"/"+policy, text)
}

// MultiPolicyACL is the name of a MultiNetworkPolicy's ACL, like PolicyACL.
func MultiPolicyACL(namespace, policy, text string) string {
	return aclName("MNP", namespace+"/"+policy, text)
}

// ClusterPolicyACL is the ACL name of a cluster-wide policy. kind is CNP, ANP or BANP.
func ClusterPolicyACL(kind, policy, text string) string { return aclName(kind, policy, text) }

// EgressFirewallACL is the ACL name of a namespace's EgressFirewall.
func EgressFirewallACL(namespace, text string) string { return aclName("EF", namespace, text) }

// MulticastACL is the name of an ACL for the multicast packets of a namespace or node.
func MulticastACL(owner, text string) string { return aclName("MC", owner, text) }

// aclName cuts the policy's name and keeps the text, which has the rule and the reason.
func aclName(kind, policy, text string) string {
	if over := len(kind) + len(policy) + len(text) + len("::") - longestACL; over > 0 {
		kept := max(0, len(policy)-over)
		policy, text = policy[:kept], text[:min(len(text), longestACL-len(kind)-len("::")-kept)]
	}
	return kind + ":" + policy + ":" + text
}
