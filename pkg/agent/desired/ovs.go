package desired

import (
	"net/netip"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/pkg/unit"
)

// Kinds of units in a node's Open_vSwitch database.
const (
	KindNode       = "node"
	KindAttachment = "attachment"
)

// Chassis has the settings with which ovn-controller registers this node.
type Chassis struct {
	Node string
	// SystemID is the name of the Chassis.
	SystemID string
	// Southbound are the OVSDB remotes of the southbound database.
	Southbound []string
	// Tunnels are the addresses to which other nodes tunnel. Packets to the node itself use the first.
	Tunnels  []netip.Addr
	Datapath networkv1alpha1.DatapathType
	// Zoned makes ovn-controller tunnel to the nodes of other zones.
	Zoned bool
}

// ControllerRemotes returns ovn-controller's remotes of the southbound database: the node's relays, or the databases of its zone, or
// database, the remotes of the command line. The database is no remote beside relays, because ovn-controller shuffles its
// remotes: a share of the nodes would use the database even while all relays work. After the loss of relays, the database
// would have to send all copies at once, which is the load that relays exist to avoid.
func ControllerRemotes(spec networkv1alpha1.NodeNetworkSpec, database []string) []string {
	return remotes(spec.Relays, ports.Relay, remotes(spec.Databases, ports.Southbound, database))
}

// ReaderRemotes returns the agent's own remotes of the southbound database, in the same way.
func ReaderRemotes(spec networkv1alpha1.NodeNetworkSpec, database []string) []string {
	return remotes(spec.Relays, ports.RelayReader, remotes(spec.Databases, ports.SouthboundReader, database))
}

func remotes(servers []networkv1alpha1.IP, port uint16, otherwise []string) []string {
	var all []string
	for _, s := range servers {
		if address, err := netip.ParseAddr(string(s)); err == nil { // the CRD admits nothing else
			all = append(all, "ssl:"+netip.AddrPortFrom(address, port).String())
		}
	}
	if len(all) == 0 {
		return otherwise
	}
	return all
}

// RemoteKey is the setting with ovn-controller's remotes of the southbound database, separated by commas.
const RemoteKey = "ovn-remote"

// Registration returns the unit with the settings that make ovn-controller register the chassis. It is separate from the
// bridge, because the removal of a foreign bridge must not remove the chassis.
func Registration(c Chassis) unit.Unit {
	tunnels := make([]string, 0, len(c.Tunnels))
	for _, address := range c.Tunnels {
		tunnels = append(tunnels, address.String())
	}
	byDefault := "" // the setting is absent
	if len(tunnels) > 1 {
		byDefault = tunnels[0]
	}
	pairs := map[string]string{
		"system-id":                   c.SystemID,
		"hostname":                    c.Node,
		RemoteKey:                     strings.Join(c.Southbound, ","),
		"ovn-encap-type":              "geneve",
		"ovn-encap-ip":                strings.Join(tunnels, ","),
		vswitchdb.DefaultTunnelKey:    byDefault,
		"ovn-bridge":                  names.IntegrationBridge,
		"ovn-bridge-datapath-type":    string(c.Datapath),
		"ovn-remote-probe-interval":   "30000", // ms
		"ovn-monitor-all":             "true",
		"ovn-openflow-probe-interval": "0", // probes of this local connection would only end it under load
	}
	if c.Zoned {
		pairs["ovn-is-interconn"] = "true"
	}
	return unit.Unit{Key: unit.NewKey(KindNode, "chassis"), Members: settings(pairs)}
}

// Registered returns Registration's unit with the present values of its settings, so that it can be removed. It omits
// the names of the chassis and the host, which others may have set before Weft. Without the removed settings,
// ovn-controller stops working.
func Registered(externalIDs map[string]string) unit.Unit {
	u := Registration(Chassis{Zoned: true})
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

// IntegrationBridge returns the unit with br-int. existing is the UUID of a br-int that another program created, as
// ovn-controller does when it starts first. The unit then has only the settings of that bridge.
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

// IntegrationBridgeUUID returns the UUID of br-int: existing, if it is not empty, or the UUID of Weft's own row.
func IntegrationBridgeUUID(existing string) string {
	if existing != "" {
		return existing
	}
	return unit.UUID(vswitchdb.BridgeTable, names.IntegrationBridge)
}

// addPort adds a port with one interface on the bridge to the unit. The rows' UUIDs are derived from key.
func addPort(u *unit.Unit, bridgeUUID, name, key string, iface *vswitchdb.Interface, other map[string]string) {
	iface.UUID, iface.Name = unit.UUID(vswitchdb.InterfaceTable, key), name
	port := &vswitchdb.Port{UUID: unit.UUID(vswitchdb.PortTable, key), Name: name, Interfaces: []string{iface.UUID}, OtherConfig: other}
	u.Rows = append(u.Rows, unit.Row{Model: port}, unit.Row{Model: iface})
	bridge := unit.Ref{Table: vswitchdb.BridgeTable, UUID: bridgeUUID}
	u.Members = append(u.Members, unit.Membership{Parent: bridge, Column: "ports", Element: port.UUID})
}

// ManagementPortKey is the key of ManagementPort's unit.
func ManagementPortKey() unit.Key { return unit.NewKey(KindNode, "management-port") }

// ManagementPort returns the unit with the host's port on br-int. It is empty until the operator has assigned a MAC.
func ManagementPort(node string, spec networkv1alpha1.NodeNetworkSpec, mtu int, bridgeUUID string) unit.Unit {
	u := unit.Unit{Key: ManagementPortKey()}
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
