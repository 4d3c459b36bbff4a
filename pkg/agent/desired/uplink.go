package desired

import (
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// KindUplink is the kind of a unit that moves a link of the host onto a bridge. It is written by package uplink alone.
const KindUplink = "uplink"

// Uplink is an external bridge that takes a link of the host.
type Uplink struct {
	Bridge   string
	Datapath networkv1alpha1.DatapathType
	// MAC and MTU (bytes) are the link's: the bridge's own port shall have them too.
	MAC string
	MTU int
	// Port is the link; empty before it is one.
	Port string
}

// UplinkKey is the unit of a bridge.
func UplinkKey(bridge string) unit.Key { return unit.NewKey(KindUplink, bridge) }

// UplinkBridge wants the bridge. Without a controller it forwards as a plain switch, so that the host is reached whatever happens to the
// agent. The link's port is transient: where Open vSwitch is started so that it drops such ports (ovs-ctl --delete-transient-ports), a host
// that boots has its link as it configured it until the agent moves it again.
func UplinkBridge(u Uplink) unit.Unit {
	standalone := vswitchdb.BridgeFailModeStandalone
	bridge := &vswitchdb.Bridge{
		UUID: unit.UUID(vswitchdb.BridgeTable, u.Bridge), Name: u.Bridge, DatapathType: string(u.Datapath), FailMode: &standalone,
		OtherConfig: map[string]string{"disable-in-band": "true", "hwaddr": u.MAC},
	}
	wanted := unit.Unit{Key: UplinkKey(u.Bridge), Rows: []unit.Row{{Model: bridge}},
		Members: []unit.Membership{{Parent: openVSwitch(), Column: "bridges", Element: bridge.UUID}}}
	own := &vswitchdb.Interface{Type: "internal"}
	if u.MTU > 0 {
		own.MTURequest = &u.MTU
	}
	addPort(&wanted, bridge.UUID, u.Bridge, u.Bridge, own, nil)
	if u.Port != "" {
		addPort(&wanted, bridge.UUID, u.Port, uplinkPort(u.Bridge, u.Port), &vswitchdb.Interface{}, map[string]string{"transient": "true"})
	}
	return wanted
}

// UplinkPortUUID is the UUID of the link's Port on a bridge.
func UplinkPortUUID(bridge, link string) string {
	return unit.UUID(vswitchdb.PortTable, uplinkPort(bridge, link))
}

func uplinkPort(bridge, link string) string { return bridge + " " + link }
