package invariant

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// clusterInvariants returns the invariants of the ClusterNetwork's status.
func clusterInvariants() []Invariant {
	return []Invariant{
		{"CountsAreRight", "ClusterNetwork's status counts the ports of pods and the Nodes.", countsAreRight},
	}
}

func countsAreRight(v *view) (found []Violation) {
	if v.ClusterNetwork == nil {
		return nil
	}
	status, object := v.ClusterNetwork.Status, "ClusterNetwork "+v.ClusterNetwork.Name
	wrong := func(format string, args ...any) {
		found = append(found, Violation{Message: fmt.Sprintf(format, args...)}.of(object))
	}
	if status.ObservedGeneration != 0 && int(status.Nodes.Total) != len(v.Nodes) {
		wrong("status.nodes says %d nodes, there are %d", status.Nodes.Total, len(v.Nodes))
	}
	if status.Nodes.Ready > status.Nodes.Total {
		wrong("status.nodes says %d of %d nodes are ready", status.Nodes.Ready, status.Nodes.Total)
	}
	used, divided := v.usedAddresses(status.Addresses), v.divided()
	for _, counts := range status.Addresses {
		if counts.Used != used[counts.CIDR] && !divided {
			wrong("status.addresses says %d are used of %s, ports have %d", counts.Used, counts.CIDR, used[counts.CIDR])
		}
		if counts.Total != counts.Used+counts.Free {
			wrong("status.addresses of %s says %d used and %d free of %d", counts.CIDR, counts.Used, counts.Free, counts.Total)
		}
	}
	return found
}

// withoutZones reports whether the spec has no zones, so that nothing connects them.
func (v *view) withoutZones() bool {
	return v.ClusterNetwork != nil && len(v.ClusterNetwork.Spec.Zones) == 0
}

// divided reports whether some nodes are in a zone, whose pods count as soon as their status has their addresses.
func (v *view) divided() bool {
	return len(v.NodesElsewhere) > 0 ||
		slices.ContainsFunc(v.NodeNetworks, func(nn networkv1alpha1.NodeNetwork) bool { return nn.Spec.Zone != "" })
}

// usedAddresses counts the addresses of pods' ports in each network, without floating addresses, which pools count.
func (v *view) usedAddresses(networks []networkv1alpha1.NetworkAddresses) map[networkv1alpha1.CIDR]int64 {
	used := map[networkv1alpha1.CIDR]int64{}
	var prefixes []netip.Prefix
	for _, n := range networks {
		if prefix, err := n.CIDR.Prefix(); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	for owner, ports := range v.owned {
		if owner.Kind() != topology.KindPod {
			continue
		}
		for _, port := range ports {
			for _, address := range ordinaryAddresses(port) {
				for _, prefix := range prefixes {
					if prefix.Contains(address) {
						used[networkv1alpha1.CIDR(prefix.String())]++
					}
				}
			}
		}
	}
	return used
}

// ordinaryAddresses returns the addresses of a pod's port that are not floating.
func ordinaryAddresses(port *nbdb.LogicalSwitchPort) (found []netip.Addr) {
	floating, _ := ovnexpr.ParseAddresses(port.ExternalIDs, ovnexpr.FloatingKey)
	for _, element := range addressesOf(port) {
		for _, address := range element.Addresses {
			if !slices.Contains(floating, address) {
				found = append(found, address)
			}
		}
	}
	return found
}
