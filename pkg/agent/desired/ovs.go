package desired

import (
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// Kinds of units in a node's Open_vSwitch database.
const (
	KindNode       = "node"
	KindAttachment = "attachment"
)

// Chassis is what ovn-controller must be told to register this node.
type Chassis struct {
	Node string
	// SystemID names the Chassis.
	SystemID string
	// Southbound are the OVSDB remotes of the southbound database.
	Southbound []string
	EncapIP    string
	Datapath   networkv1alpha1.DatapathType
}

// Registration wants what makes ovn-controller register the chassis. It is a unit of its own: a bridge of somebody else that
// goes away must not take the chassis with it.
func Registration(c Chassis) unit.Unit {
	return unit.Unit{Key: unit.NewKey(KindNode, "chassis"), Members: settings(map[string]string{
		"system-id":                   c.SystemID,
		"hostname":                    c.Node,
		"ovn-remote":                  strings.Join(c.Southbound, ","),
		"ovn-encap-type":              "geneve",
		"ovn-encap-ip":                c.EncapIP,
		"ovn-bridge":                  names.IntegrationBridge,
		"ovn-bridge-datapath-type":    string(c.Datapath),
		"ovn-remote-probe-interval":   "30000", // ms
		"ovn-monitor-all":             "true",
		"ovn-openflow-probe-interval": "0", // the connection is local; probing it only ends it under load
	})}
}

// Registered wants of what is in Open_vSwitch's external_ids those that Registration sets, as they are, but for the chassis' name and the
// host's, which others may have set before us: taken back, it ends what made ovn-controller work.
func Registered(externalIDs map[string]string) unit.Unit {
	u := Registration(Chassis{})
	present := map[string]string{}
	for _, m := range u.Members {
		if value, ok := externalIDs[m.Element]; ok && m.Element != "system-id" && m.Element != "hostname" {
			present[m.Element] = value
		}
	}
	u.Members = settings(present)
	return u
}

func settings(pairs map[string]string) []unit.Membership {
	var members []unit.Membership
	for k, v := range pairs {
		members = append(members, unit.Membership{Parent: openVSwitch(), Column: "external_ids", Element: k, Value: v})
	}
	return members
}

func openVSwitch() unit.Ref { return unit.Ref{Table: vswitchdb.OpenvSwitchTable} }

// IntegrationBridge wants br-int whole, or only its settings where somebody else made it (ovn-controller makes one when it
// starts first): existing is that one's UUID, empty if there is none or it is ours.
func IntegrationBridge(datapath networkv1alpha1.DatapathType, existing string) unit.Unit {
	u := unit.Unit{Key: unit.NewKey(KindNode, "bridge")}
	secure := vswitchdb.BridgeFailModeSecure
	bridge := &vswitchdb.Bridge{
		UUID: IntegrationBridgeUUID(existing), Name: names.IntegrationBridge, DatapathType: string(datapath), FailMode: &secure,
		OtherConfig: map[string]string{"disable-in-band": "true"},
	}
	if existing != "" {
		u.Rows = append(u.Rows, unit.Row{Model: bridge, Columns: []string{"datapath_type", "fail_mode", "other_config"}})
		return u
	}
	u.Rows = append(u.Rows, unit.Row{Model: bridge})
	u.Members = append(u.Members, unit.Membership{Parent: openVSwitch(), Column: "bridges", Element: bridge.UUID})
	addPort(&u, bridge.UUID, names.IntegrationBridge, names.IntegrationBridge, &vswitchdb.Interface{Type: "internal"}, nil)
	return u
}

// IntegrationBridgeUUID is the UUID of br-int: the existing one of somebody else, or ours.
func IntegrationBridgeUUID(existing string) string {
	if existing != "" {
		return existing
	}
	return unit.UUID(vswitchdb.BridgeTable, names.IntegrationBridge)
}

// addPort wants a port with one interface on the bridge. key makes the rows' UUIDs.
func addPort(u *unit.Unit, bridgeUUID, name, key string, iface *vswitchdb.Interface, other map[string]string) {
	iface.UUID, iface.Name = unit.UUID(vswitchdb.InterfaceTable, key), name
	port := &vswitchdb.Port{UUID: unit.UUID(vswitchdb.PortTable, key), Name: name, Interfaces: []string{iface.UUID}, OtherConfig: other}
	u.Rows = append(u.Rows, unit.Row{Model: port}, unit.Row{Model: iface})
	u.Members = append(u.Members, unit.Membership{Parent: unit.Ref{Table: vswitchdb.BridgeTable, UUID: bridgeUUID}, Column: "ports", Element: port.UUID})
}

// ManagementPort wants the host's port on br-int. An empty MAC wants none: the operator has not given one yet.
func ManagementPort(node string, spec networkv1alpha1.NodeNetworkSpec, mtu int, bridgeUUID string) unit.Unit {
	u := unit.Unit{Key: unit.NewKey(KindNode, "management-port")}
	if spec.ManagementPort.MACAddress == "" {
		return u
	}
	mac := string(spec.ManagementPort.MACAddress)
	iface := &vswitchdb.Interface{Type: "internal", MAC: &mac, ExternalIDs: map[string]string{"iface-id": names.ManagementPort(node)}}
	if mtu > 0 {
		iface.MTURequest = &mtu
	}
	addPort(&u, bridgeUUID, names.ManagementInterface, names.ManagementInterface, iface, nil)
	return u
}
