package vswitchdb

import (
	"slices"
	"strings"
)

// BridgeMappingsKey is ovn-controller's setting in Open_vSwitch's external_ids: "physnet:br-ex,other:br-other".
const BridgeMappingsKey = "ovn-bridge-mappings"

// DefaultTunnelKey is ovn-controller's setting in Open_vSwitch's external_ids with the address for the tunnels of ports that
// name none. It is absent on nodes with one address.
const DefaultTunnelKey = "ovn-encap-ip-default"

// CombineMappings returns the value of BridgeMappingsKey with the entries of change. It replaces an entry of the same network,
// appends a new one, and removes the network of an entry without a bridge ("other:"). All other entries of have stay where
// they are.
func CombineMappings(have, change string) string {
	entries := SplitMappings(have)
	for _, entry := range SplitMappings(change) {
		network, bridge, _ := strings.Cut(entry, ":")
		at := slices.IndexFunc(entries, func(had string) bool { return MappedNetwork(had) == network })
		switch {
		case bridge == "" && at >= 0:
			entries = slices.Delete(entries, at, at+1)
		case bridge != "" && at >= 0:
			entries[at] = entry
		case bridge != "":
			entries = append(entries, entry)
		}
	}
	return strings.Join(entries, ",")
}

// SplitMappings returns the entries of a value of BridgeMappingsKey.
func SplitMappings(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(m string) bool { return m == "" })
}

// MappedNetwork returns the network of an entry.
func MappedNetwork(entry string) string {
	network, _, _ := strings.Cut(entry, ":")
	return network
}
