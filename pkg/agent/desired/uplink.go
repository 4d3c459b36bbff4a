package desired

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

// KindUplink is the kind of units that move a link of the host onto a bridge. Only package uplink writes them.
const KindUplink = "uplink"

// Uplink is an external bridge for a link of the host.
type Uplink struct {
	Bridge   string
	Datapath networkv1alpha1.DatapathType
	// MAC and MTU (in bytes) are the link's. The bridge's own port gets the same.
	MAC string
	MTU int
	// Port is the link. It is empty until the link becomes a port.
	Port string
}

// UplinkKey returns the key of a bridge's unit.
func UplinkKey(bridge string) unit.Key { return unit.NewKey(KindUplink, bridge) }

// UplinkBridge returns the unit with the bridge. Without a controller the bridge switches normally, so that the host
// stays reachable without the agent. The link's port is transient. If Open vSwitch drops such ports at its start
// (ovs-ctl --delete-transient-ports), a host that boots has its link as it configured it until the agent moves the link
// again.
func UplinkBridge(u Uplink) unit.Unit {
	standalone := vswitchdb.BridgeFailModeStandalone
	bridge := &vswitchdb.Bridge{
		UUID: UplinkBridgeUUID(u.Bridge), Name: u.Bridge, DatapathType: string(u.Datapath), FailMode: &standalone,
		OtherConfig: map[string]string{"disable-in-band": "true", "hwaddr": u.MAC},
	}
	wanted := unit.Unit{
		Key: UplinkKey(u.Bridge), Rows: []unit.Row{{Model: bridge}},
		Members: []unit.Membership{{Parent: openVSwitch(), Column: "bridges", Element: bridge.UUID}},
	}
	own := &vswitchdb.Interface{Type: "internal"}
	if u.MTU > 0 {
		own.MTURequest = &u.MTU
	}
	addPort(&wanted, bridge.UUID, u.Bridge, u.Bridge, own, nil)
	if u.Port != "" {
		transient := map[string]string{"transient": "true"}
		addPort(&wanted, bridge.UUID, u.Port, uplinkPort(u.Bridge, u.Port), &vswitchdb.Interface{}, transient)
	}
	return wanted
}

// UplinkBridgeUUID returns the UUID of the bridge's row.
func UplinkBridgeUUID(bridge string) string { return unit.UUID(vswitchdb.BridgeTable, bridge) }

// UplinkPortUUID returns the UUID of the link's Port row on a bridge.
func UplinkPortUUID(bridge, link string) string {
	return unit.UUID(vswitchdb.PortTable, uplinkPort(bridge, link))
}

func uplinkPort(bridge, link string) string { return bridge + " " + link }
