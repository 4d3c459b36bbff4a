package topology

import (
	"strconv"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// localnetPortKey is the tunnel key of a Localnet network's port. Ports of pods have keys from alloc's first slot
	// upwards.
	localnetPortKey = 1
	// tunnelPriority is the highest priority of an ACL.
	tunnelPriority = 32767
)

// addLocalnet adds the port that leads to the physical network on each node. The address unknown makes OVN send frames
// to unknown MACs there, so that pods resolve routers and hosts outside by ARP and ND.
func addLocalnet(u *unit.Unit, n PodNetwork, on unit.Ref) {
	name := names.NetworkLocalnet(n.Name)
	port := &nbdb.LogicalSwitchPort{
		// northd copies tag_request to tag, and never removes tag. Another UUID makes a new port when the VLAN changes.
		UUID: switchPortUUID(name + " " + strconv.Itoa(n.VLAN)), Name: name, Type: "localnet", Addresses: []string{"unknown"},
		Options: map[string]string{"network_name": n.PhysicalNetwork, requestedTunnelKey: key(localnetPortKey)},
	}
	if n.VLAN != 0 {
		port.TagRequest = &n.VLAN
	}
	// A node would take a datagram with another node's source address for one of a tunnel.
	tunnels := &nbdb.ACL{
		UUID: unit.UUID(nbdb.ACLTable, name), Direction: nbdb.ACLDirectionToLport, Priority: tunnelPriority,
		Match: ovnexpr.DatagramsToPort(name, ports.Geneve), Action: nbdb.ACLActionDrop,
		ExternalIDs: map[string]string{RuleKey: "no tunnel to nodes"},
	}
	u.Rows = append(u.Rows, unit.Row{Model: port}, unit.Row{Model: tunnels})
	u.Members = append(u.Members, unit.Membership{Parent: on, Column: "ports", Element: port.UUID},
		unit.Membership{Parent: on, Column: "acls", Element: tunnels.UUID})
}
