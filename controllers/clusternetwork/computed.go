package clusternetwork

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// computed returns the spec with all defaults: the API server's, and defaults that depend on other fields or on
// nodes.
func computed(spec networkv1alpha1.ClusterNetworkSpec, mtu int32) *networkv1alpha1.ClusterNetworkSpec {
	c := spec.DeepCopy()
	c.MTU = mtu
	for i, entry := range c.ClusterNetwork {
		prefix, err := entry.CIDR.Prefix()
		if err != nil || entry.HostPrefix != 0 {
			continue // the condition reports it
		}
		c.ClusterNetwork[i].HostPrefix = networkv1alpha1.DefaultHostPrefixIPv6
		if prefix.Addr().Is4() {
			c.ClusterNetwork[i].HostPrefix = networkv1alpha1.DefaultHostPrefixIPv4
		}
	}
	c.JoinSubnet = slices.DeleteFunc(c.JoinSubnet, func(join networkv1alpha1.CIDR) bool {
		return !slices.ContainsFunc(spec.ClusterNetwork, sameFamily(join))
	})
	return c
}

// sameFamily returns a filter for entries of a network's family. It keeps unreadable entries.
func sameFamily(network networkv1alpha1.CIDR) func(networkv1alpha1.ClusterNetworkEntry) bool {
	return func(entry networkv1alpha1.ClusterNetworkEntry) bool {
		a, err := network.Prefix()
		b, err2 := entry.CIDR.Prefix()
		return err != nil || err2 != nil || a.Addr().Is4() == b.Addr().Is4()
	}
}

// components are the components whose versions nodes report.
var components = []struct {
	name string
	of   func(networkv1alpha1.NodeNetworkStatus) string
}{
	{"agent", func(s networkv1alpha1.NodeNetworkStatus) string { return s.AgentVersion }},
	{"openvswitch", func(s networkv1alpha1.NodeNetworkStatus) string { return s.OVSVersion }},
	{"ovn-controller", func(s networkv1alpha1.NodeNetworkStatus) string { return s.OVNVersion }},
}

// versions returns the versions that all nodes run. A version that differs between nodes stays at its last common
// value.
func versions(before []networkv1alpha1.ComponentVersion, f statusInput) (found []networkv1alpha1.ComponentVersion) {
	if f.version != "" {
		found = append(found, networkv1alpha1.ComponentVersion{Name: "operator", Version: f.version})
	}
	for _, c := range components {
		version, same := f.common(c.of)
		if !same {
			i := slices.IndexFunc(before, func(v networkv1alpha1.ComponentVersion) bool { return v.Name == c.name })
			if i < 0 {
				continue
			}
			version = before[i].Version
		}
		found = append(found, networkv1alpha1.ComponentVersion{Name: c.name, Version: version})
	}
	if f.rollout != nil && f.rollout.Northd != "" {
		found = append(found, networkv1alpha1.ComponentVersion{Name: "ovn-northd", Version: f.rollout.Northd})
	}
	return found
}

// common returns the version that all nodes report. Lost nodes do not count.
func (f statusInput) common(of func(networkv1alpha1.NodeNetworkStatus) string) (version string, same bool) {
	byName := f.byName()
	for i := range f.nodes {
		nn := byName[f.nodes[i].Name]
		if facts.IsSilent(&f.nodes[i]) {
			continue
		}
		if nn == nil || of(nn.Status) == "" || version != "" && of(nn.Status) != version {
			return "", false
		}
		version = of(nn.Status)
	}
	return version, version != ""
}

// versionsOf returns the versions that a node reports, for a comparison.
func versionsOf(s networkv1alpha1.NodeNetworkStatus) (found [3]string) {
	for i, c := range components {
		found[i] = c.of(s)
	}
	return found
}
