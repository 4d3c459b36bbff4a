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
