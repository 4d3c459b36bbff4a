package topology

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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
func (n PodNetwork) addLocalnet(u *unit.Unit, on unit.Ref) {
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

// NodePhysicalNetworks returns the physical networks of a node with these labels. An unreadable selector is an error
// that names its field.
func NodePhysicalNetworks(all []networkv1alpha1.PhysicalNetwork, node labels.Set) ([]networkv1alpha1.NodePhysicalNetwork, error) {
	var found []networkv1alpha1.NodePhysicalNetwork
	for i, p := range all {
		selector, err := physicalSelector(i, p)
		if err != nil {
			return nil, err
		}
		if selector.Matches(node) {
			found = append(found, networkv1alpha1.NodePhysicalNetwork{Name: p.Name, Link: p.Link, Bridge: p.Bridge})
		}
	}
	return found, nil
}

// CheckPhysicalNetworks returns an error for the first unreadable selector. The API server does not validate selectors.
func CheckPhysicalNetworks(all []networkv1alpha1.PhysicalNetwork) error {
	for i, p := range all {
		if _, err := physicalSelector(i, p); err != nil {
			return err
		}
	}
	return nil
}

func physicalSelector(i int, p networkv1alpha1.PhysicalNetwork) (labels.Selector, error) {
	if p.NodeSelector == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(p.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.physicalNetworks[%d].nodeSelector: %w", i, err)
	}
	return selector, nil
}

// UnknownTo returns an error if the ClusterNetwork has no entry for the network's physical network.
func (n PodNetwork) UnknownTo(cn networkv1alpha1.ClusterNetworkSpec) error {
	name := networkv1alpha1.PhysicalNetworkName(n.PhysicalNetwork)
	named := func(p networkv1alpha1.PhysicalNetwork) bool { return p.Name == name }
	if name == "" || name == networkv1alpha1.GatewayPhysicalNetwork || slices.ContainsFunc(cn.PhysicalNetworks, named) {
		return nil
	}
	return fmt.Errorf("spec.physicalNetwork: ClusterNetwork default has no entry %s in spec.physicalNetworks", name)
}

// MissingOn returns why pods of a node do not reach the network's physical network. It returns nil for networks without
// a physical network.
func (n PodNetwork) MissingOn(node *networkv1alpha1.NodeNetwork) error {
	name := networkv1alpha1.PhysicalNetworkName(n.PhysicalNetwork)
	if name == "" {
		return nil
	}
	for _, s := range node.Status.PhysicalNetworks {
		if s.Name == name && s.Ready {
			return nil
		} else if s.Name == name {
			return fmt.Errorf("node %s is not connected with physical network %s: %s", node.Name, name, s.Message)
		}
	}
	selected := func(p networkv1alpha1.NodePhysicalNetwork) bool { return p.Name == name }
	switch {
	case name == networkv1alpha1.GatewayPhysicalNetwork:
		return fmt.Errorf("node %s has no physical network %s: its gateway has no bridge", node.Name, name)
	case slices.ContainsFunc(node.Spec.PhysicalNetworks, selected):
		return fmt.Errorf("node %s is not connected with physical network %s: weft-agent has not reported it yet", node.Name, name)
	}
	return fmt.Errorf("node %s has no physical network %s: no entry of ClusterNetwork's spec.physicalNetworks selects the node",
		node.Name, name)
}
