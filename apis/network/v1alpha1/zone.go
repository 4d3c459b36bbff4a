package v1alpha1

import "k8s.io/apimachinery/pkg/labels"

// Selects reports whether the zone's nodeSelector matches the labels of a node.
func (z Zone) Selects(node labels.Set) bool {
	return labels.SelectorFromSet(z.NodeSelector).Matches(node)
}

// ZoneOf returns the first zone that selects a node with these labels, or "".
func ZoneOf(zones []Zone, node labels.Set) ZoneName {
	for _, z := range zones {
		if z.Selects(node) {
			return z.Name
		}
	}
	return ""
}
