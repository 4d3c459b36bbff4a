package network

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// computed is the spec with all defaults: those of the API server, and those that depend on other fields or on nodes.
func computed(spec networkv1alpha1.ClusterNetworkSpec, mtu int32) *networkv1alpha1.ClusterNetworkSpec {
	c := spec.DeepCopy()
	c.MTU = mtu
	for i, entry := range c.ClusterNetwork {
		prefix, err := entry.CIDR.Prefix()
		if err != nil || entry.HostPrefix != 0 {
			continue // the condition says so
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

// sameFamily reports whether an entry has the family of a network; who cannot be read is not left out.
func sameFamily(network networkv1alpha1.CIDR) func(networkv1alpha1.ClusterNetworkEntry) bool {
	return func(entry networkv1alpha1.ClusterNetworkEntry) bool {
		a, err := network.Prefix()
		b, err2 := entry.CIDR.Prefix()
		return err != nil || err2 != nil || a.Addr().Is4() == b.Addr().Is4()
	}
}

// components are what nodes report versions of.
var components = []struct {
	name string
	of   func(networkv1alpha1.NodeNetworkStatus) string
}{
	{"agent", func(s networkv1alpha1.NodeNetworkStatus) string { return s.AgentVersion }},
	{"openvswitch", func(s networkv1alpha1.NodeNetworkStatus) string { return s.OVSVersion }},
	{"ovn-controller", func(s networkv1alpha1.NodeNetworkStatus) string { return s.OVNVersion }},
}

// versions are what all nodes run; one that they do not agree on stays what it was.
func versions(before []networkv1alpha1.ComponentVersion, f facts) (found []networkv1alpha1.ComponentVersion) {
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

// common returns the version that all nodes report. Nodes that are lost are asked when they are back.
func (f facts) common(of func(networkv1alpha1.NodeNetworkStatus) string) (version string, same bool) {
	byName := f.byName()
	for i := range f.nodes {
		nn := byName[f.nodes[i].Name]
		if isLost(&f.nodes[i]) {
			continue
		}
		if nn == nil || of(nn.Status) == "" || version != "" && of(nn.Status) != version {
			return "", false
		}
		version = of(nn.Status)
	}
	return version, version != ""
}

// versionsOf is what a node reports, to be compared.
func versionsOf(s networkv1alpha1.NodeNetworkStatus) (found [3]string) {
	for i, c := range components {
		found[i] = c.of(s)
	}
	return found
}
