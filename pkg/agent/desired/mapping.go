package desired

import (
	"maps"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

// PhysicalNetworksKey marks the agent's own mappings in Open_vSwitch's external_ids: "dc,storage". The mapping of the
// gateway's network is always the agent's.
const PhysicalNetworksKey = "weft.dev/physical-networks"

// BridgeMapping returns the unit that maps the gateway's network to a bridge, or to no bridge if gateway is empty, and each
// physical network to its bridge. The unit has only the agent's own entries of ovn-bridge-mappings. It removes an entry by an
// entry without a bridge. The agent's own networks are in former, or marked in the present external_ids of Open_vSwitch.
// An entry of another program takes precedence over a physical network of its name.
func BridgeMapping(externalIDs map[string]string, gateway string, physical map[string]string, former ...string) unit.Unit {
	foreign := ForeignMappings(externalIDs, former...)
	var entries, ours []string
	for _, network := range slices.Sorted(maps.Keys(physical)) {
		if _, taken := foreign[network]; !taken {
			entries, ours = append(entries, network+":"+physical[network]), append(ours, network)
		}
	}
	for _, network := range ownMappings(externalIDs, former) {
		if !slices.Contains(ours, network) {
			entries = append(entries, network+":")
		}
	}
	entries = append(entries, names.PhysicalNetwork+":"+gateway)
	return unit.Unit{Key: unit.NewKey(KindNode, "bridge-mapping"), Members: settings(map[string]string{
		vswitchdb.BridgeMappingsKey: strings.Join(entries, ","), PhysicalNetworksKey: strings.Join(ours, ",")})}
}

// ownMappings returns the physical networks that the agent has mapped, sorted.
func ownMappings(externalIDs map[string]string, former []string) []string {
	ours := slices.Concat(vswitchdb.SplitMappings(externalIDs[PhysicalNetworksKey]), former)
	slices.Sort(ours)
	return slices.Compact(ours)
}

// ForeignMappings returns the mappings that the agent has not made: network -> bridge. former are networks that this process
// has mapped.
func ForeignMappings(externalIDs map[string]string, former ...string) map[string]string {
	ours := append(ownMappings(externalIDs, former), names.PhysicalNetwork)
	foreign := map[string]string{}
	for _, m := range vswitchdb.SplitMappings(externalIDs[vswitchdb.BridgeMappingsKey]) {
		if network, bridge, _ := strings.Cut(m, ":"); !slices.Contains(ours, network) {
			foreign[network] = bridge
		}
	}
	return foreign
}

// MappedBridge returns the bridge to which ovn-bridge-mappings maps the gateway's network, or an empty string.
func MappedBridge(externalIDs map[string]string) string {
	return BridgeTo(externalIDs, names.PhysicalNetwork)
}

// BridgeTo returns the bridge to which ovn-bridge-mappings maps a physical network, or an empty string.
func BridgeTo(externalIDs map[string]string, physical string) string {
	for _, m := range vswitchdb.SplitMappings(externalIDs[vswitchdb.BridgeMappingsKey]) {
		if network, bridge, _ := strings.Cut(m, ":"); network == physical {
			return bridge
		}
	}
	return ""
}
