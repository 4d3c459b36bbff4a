package ovnexpr

import "net/netip"

// Keys of the external_ids of a pod's port that list addresses, separated by commas. northd copies them to the
// southbound database, where the pod's node reads them.
const (
	// FloatingKey lists the port's addresses of an IPPool. On the cluster network they are in no subnet of the node. On a
	// Network the node probes them on the segment.
	FloatingKey = "weft.dev/floating"
	// TranslatedKey lists the addresses that the node's gateway router translates to the pod's.
	TranslatedKey = "weft.dev/translated"
	// RoutedKey lists the pod's addresses with which its packets leave the node, because they go to routers of their own. WatchedKey
	// lists the addresses of routers that the node's gateway router watches by BFD.
	RoutedKey  = "weft.dev/routed"
	WatchedKey = "weft.dev/watched"
)

// JoinAddresses writes the value of one of these keys.
func JoinAddresses(addresses []netip.Addr) string { return joined(addresses) }

// ParseAddresses reads the value of one of these keys from a port's external_ids. Without the key the list is empty.
func ParseAddresses(ids map[string]string, key string) ([]netip.Addr, error) {
	return split(ids, key, netip.ParseAddr)
}
