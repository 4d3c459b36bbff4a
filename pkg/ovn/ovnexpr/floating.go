package ovnexpr

import "net/netip"

// Keys of the external_ids of a pod's port that list floating addresses, separated by commas. northd copies them to the
// southbound database, where the pod's node reads them.
const (
	// FloatingKey lists the port's addresses that are in no subnet of the node.
	FloatingKey = "weft.dev/floating"
	// TranslatedKey lists the addresses that the node's gateway router translates to the pod's.
	TranslatedKey = "weft.dev/translated"
)

// JoinAddresses writes the value of one of these keys.
func JoinAddresses(addresses []netip.Addr) string { return joined(addresses) }

// ParseAddresses reads the value of one of these keys from a port's external_ids. Without the key the list is empty.
func ParseAddresses(ids map[string]string, key string) ([]netip.Addr, error) {
	return split(ids, key, netip.ParseAddr)
}
