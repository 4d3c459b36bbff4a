package invariant

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// nodeInvariants returns the invariants of nodes, their IDs and their rows.
func nodeInvariants() []Invariant {
	return []Invariant{
		{"NodeHasSwitch", "Every node with subnets has its switch, with a router port.", nodeHasSwitch},
		{"ManagementPort", "Every node with subnets has exactly one management port.", managementPort},
		{"UniqueNodeID", "Node IDs are unique and in 1..16000.", uniqueNodeID},
		{"DisjointSubnets", "No two pod subnets of nodes overlap.", disjointSubnets},
		{"SubnetInNetwork", "Every pod subnet of a node is in a network of ClusterNetwork.", subnetInNetwork},
		{"UniqueChassis", "No two nodes have the same chassis.", uniqueChassis},
	}
}

// served lists the nodes that exist and whose NodeNetworks the operator has completed. Without a ClusterNetwork none
// is completed.
func (v *view) served() (all []facts.Node) {
	for _, name := range slices.Sorted(maps.Keys(v.networks)) {
		nn := v.networks[name]
		if v.nodes[name] == nil || v.ClusterNetwork == nil || len(nn.Spec.PodSubnets) == 0 {
			continue
		}
		if node, err := facts.ParseNodeNetwork(nn); err == nil {
			all = append(all, node)
		}
	}
	return all
}

func aboutNode(node string, v Violation) Violation {
	v.Owners = append(v.Owners, topology.NodeKey(node))
	slices.Sort(v.Owners)
	v.Owners = slices.Compact(v.Owners)
	return v.of("Node " + node)
}

func nodeHasSwitch(v *view) (found []Violation) {
	own := map[string]*nbdb.LogicalSwitch{} // node -> its switch
	for _, s := range v.switches {
		if owner := ownerOf(s); owner.Kind() == topology.KindNode && s.Name == names.NodeSwitch(owner.Name()) {
			own[owner.Name()] = s
		}
	}
	for _, node := range v.served() {
		if wrong := v.wrongSwitch(node, own[node.Name]); wrong != "" {
			found = append(found, aboutNode(node.Name, Violation{Message: fmt.Sprintf("node %s %s", node.Name, wrong)}))
		}
	}
	return found
}

// wrongSwitch describes an error of a node's switch or of its link to the cluster router, or returns "".
func (v *view) wrongSwitch(node facts.Node, s *nbdb.LogicalSwitch) string {
	if s == nil {
		return "has no switch"
	}
	links := 0
	for _, port := range v.owned[topology.NodeKey(node.Name)] {
		if port.Name == names.SwitchToRouter(node.Name) && slices.Contains(s.Ports, port.UUID) {
			links++
		}
	}
	if links != 1 {
		return fmt.Sprintf("has %d ports %s on its switch, want 1", links, names.SwitchToRouter(node.Name))
	}
	var mine []*nbdb.LogicalRouterPort
	for _, port := range v.routerByName[names.RouterToSwitch(node.Name)] {
		if ours(port) {
			mine = append(mine, port)
		}
	}
	if len(mine) != 1 {
		return fmt.Sprintf("has %d router ports %s, want 1", len(mine), names.RouterToSwitch(node.Name))
	}
	want := topology.GatewayNetworks(node.Subnets)
	slices.Sort(want)
	if have := slices.Sorted(slices.Values(mine[0].Networks)); !slices.Equal(want, have) {
		return fmt.Sprintf("has networks %v at %s, want %v", have, mine[0].Name, want)
	}
	return ""
}

func managementPort(v *view) (found []Violation) {
	for _, node := range v.served() {
		var mine []*nbdb.LogicalSwitchPort
		for _, port := range v.owned[topology.NodeKey(node.Name)] {
			if port.Name == names.ManagementPort(node.Name) {
				mine = append(mine, port)
			}
		}
		if len(mine) != 1 {
			found = append(found, aboutNode(node.Name,
				v.about(rowsAny(mine), "node %s has %d management ports, want 1", node.Name, len(mine))))
			continue
		}
		want := ovnexpr.PortAddress{MAC: node.ManagementMAC, Addresses: facts.ManagementAddresses(node.Subnets)}.String()
		if have := mine[0].Addresses; len(have) != 1 || have[0] != want {
			found = append(found, aboutNode(node.Name,
				v.about([]any{mine[0]}, "port %s has addresses %q, want %q", mine[0].Name, have, want)))
		}
	}
	return found
}

func uniqueNodeID(v *view) (found []Violation) {
	holders := map[int32][]string{}
	for _, name := range slices.Sorted(maps.Keys(v.networks)) {
		switch id := v.networks[name].Spec.NodeID; {
		case id == 0: // not assigned yet
		case id < networkv1alpha1.MinNodeID || id > networkv1alpha1.MaxNodeID:
			found = append(found, Violation{Message: fmt.Sprintf("node %s has the ID %d, which is not in %d..%d",
				name, id, networkv1alpha1.MinNodeID, networkv1alpha1.MaxNodeID)}.of("NodeNetwork "+name))
		default:
			holders[id] = append(holders[id], name)
		}
	}
	for id, names := range holders {
		if len(names) > 1 {
			found = append(found, nodesTogether(names, fmt.Sprintf("node ID %d belongs to %v", id, names)))
		}
	}
	return found
}

func nodesTogether(nodes []string, message string) Violation {
	v := Violation{Message: message}
	for _, node := range nodes {
		v = v.of("NodeNetwork " + node)
		v.Owners = append(v.Owners, topology.NodeKey(node))
	}
	return v
}

// claim is a subnet and its node.
type claim struct {
	subnet netip.Prefix
	node   string
}

func disjointSubnets(v *view) (found []Violation) {
	var claims []claim
	for name, nn := range v.networks {
		for _, subnet := range subnetsOf(nn) {
			claims = append(claims, claim{subnet, name})
		}
	}
	// Two prefixes are either disjoint or one contains the other. So a prefix that overlaps an earlier one is inside
	// the last prefix that no other contains.
	slices.SortFunc(claims, func(a, b claim) int {
		if order := a.subnet.Compare(b.subnet); order != 0 {
			return order
		}
		return slices.Compare([]byte(a.node), []byte(b.node))
	})
	outer := claim{}
	for _, c := range claims {
		if outer.subnet.IsValid() && outer.subnet.Overlaps(c.subnet) {
			found = append(found, nodesTogether([]string{outer.node, c.node},
				fmt.Sprintf("subnet %s of %s overlaps %s of %s", c.subnet, c.node, outer.subnet, outer.node)))
			continue
		}
		outer = c
	}
	return found
}

func subnetInNetwork(v *view) (found []Violation) {
	if v.ClusterNetwork == nil {
		return nil
	}
	plan, err := facts.ParseInUse(v.ClusterNetwork)
	if err != nil {
		return nil // no network is in force; the ClusterNetwork's condition reports it
	}
	for name, nn := range v.networks {
		for _, subnet := range subnetsOf(nn) {
			inside := false
			for _, cluster := range plan.PodNetworks() {
				inside = inside || cluster.Bits() <= subnet.Bits() && cluster.Contains(subnet.Addr())
			}
			if !inside {
				found = append(found,
					Violation{Message: fmt.Sprintf("subnet %s of node %s is in no network of the ClusterNetwork",
						subnet, name), Owners: []unit.Key{topology.NodeKey(name)}}.of("NodeNetwork "+name))
			}
		}
	}
	return found
}

func uniqueChassis(v *view) (found []Violation) {
	holders := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(v.networks)) {
		if chassis := v.networks[name].Status.Chassis; chassis != "" {
			holders[chassis] = append(holders[chassis], name)
		}
	}
	for chassis, nodes := range holders {
		if len(nodes) > 1 {
			found = append(found, nodesTogether(nodes, fmt.Sprintf("chassis %s belongs to %v", chassis, nodes)))
		}
	}
	return found
}
