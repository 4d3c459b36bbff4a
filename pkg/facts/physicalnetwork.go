package facts

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

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

// keepPhysicalNetworks returns the physical networks that a node's spec gets: the wanted ones, and its former ones in use, which are
// leaving.
func keepPhysicalNetworks(have, want []networkv1alpha1.NodePhysicalNetwork,
	used func(networkv1alpha1.PhysicalNetworkName) bool) []networkv1alpha1.NodePhysicalNetwork {
	all := slices.Clone(want)
	for _, h := range have {
		i := slices.IndexFunc(all, func(w networkv1alpha1.NodePhysicalNetwork) bool { return w.Name == h.Name })
		if h.Leaving = i < 0 || all[i].Link != h.Link || all[i].Bridge != h.Bridge; !h.Leaving || used == nil || !used(h.Name) {
			continue
		}
		if i < 0 {
			all = append(all, h)
		} else {
			all[i] = h
		}
	}
	return all
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

// LeavingOn returns why no further pod of a node gets an interface on the network: the node keeps the network's physical network only
// for the pods that use it.
func (n PodNetwork) LeavingOn(node *networkv1alpha1.NodeNetwork) error {
	for _, p := range node.Spec.PhysicalNetworks {
		if string(p.Name) == n.PhysicalNetwork && p.Leaving {
			return fmt.Errorf("node %s takes no further pod on physical network %s (%s), which ClusterNetwork's spec.physicalNetworks "+
				"does not have for the node any more", node.Name, p.Name, cmp.Or(p.Link, p.Bridge))
		}
	}
	return nil
}
