package desired

import (
	"maps"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// BridgeMappingsKey is ovn-controller's setting in Open_vSwitch's external_ids: "physnet:br-ex,other:br-other".
	BridgeMappingsKey = "ovn-bridge-mappings"
	// PhysicalNetworksKey marks the agent's own mappings in Open_vSwitch's external_ids: "dc,storage". The mapping of
	// the gateway's network is always the agent's.
	PhysicalNetworksKey = "weft.dev/physical-networks"
)

// BridgeMapping returns the unit that maps the gateway's network to a bridge, or to no bridge if gateway is empty, and
// each physical network to its bridge. externalIDs are the present ones of Open_vSwitch, whose foreign mappings stay.
// A foreign mapping takes precedence over a physical network of its name.
func BridgeMapping(externalIDs map[string]string, gateway string, physical map[string]string) unit.Unit {
	foreign := ForeignMappings(externalIDs)
	mappings := slices.DeleteFunc(splitMappings(externalIDs[BridgeMappingsKey]), func(m string) bool {
		_, stays := foreign[networkOf(m)]
		return !stays
	})
	var ours []string
	for _, network := range slices.Sorted(maps.Keys(physical)) {
		if _, taken := foreign[network]; !taken {
			mappings, ours = append(mappings, network+":"+physical[network]), append(ours, network)
		}
	}
	if gateway != "" {
		mappings = append(mappings, names.PhysicalNetwork+":"+gateway)
	}
	return mappingUnit(map[string]string{BridgeMappingsKey: strings.Join(mappings, ","), PhysicalNetworksKey: strings.Join(ours, ",")})
}

// PresentMapping returns the unit with the present values, so that an engine that has just started can remove them.
func PresentMapping(externalIDs map[string]string) unit.Unit {
	return mappingUnit(map[string]string{
		BridgeMappingsKey: externalIDs[BridgeMappingsKey], PhysicalNetworksKey: externalIDs[PhysicalNetworksKey]})
}

func mappingUnit(pairs map[string]string) unit.Unit {
	maps.DeleteFunc(pairs, func(_, value string) bool { return value == "" })
	return unit.Unit{Key: unit.NewKey(KindNode, "bridge-mapping"), Members: settings(pairs)}
}

// DropsMapping reports whether the unit lacks a setting that is present. The engine removes only settings that it has
// applied since its start.
func DropsMapping(externalIDs map[string]string, want unit.Unit) bool {
	return slices.ContainsFunc(PresentMapping(externalIDs).Members, func(present unit.Membership) bool {
		return !slices.ContainsFunc(want.Members, func(m unit.Membership) bool { return m.Element == present.Element })
	})
}

// ForeignMappings returns the mappings that the agent has not made: network -> bridge.
func ForeignMappings(externalIDs map[string]string) map[string]string {
	ours := append(splitMappings(externalIDs[PhysicalNetworksKey]), names.PhysicalNetwork)
	foreign := map[string]string{}
	for _, m := range splitMappings(externalIDs[BridgeMappingsKey]) {
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
	for _, m := range splitMappings(externalIDs[BridgeMappingsKey]) {
		if network, bridge, _ := strings.Cut(m, ":"); network == physical {
			return bridge
		}
	}
	return ""
}

func splitMappings(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(m string) bool { return m == "" })
}

func networkOf(mapping string) string {
	network, _, _ := strings.Cut(mapping, ":")
	return network
}
