package topology_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// zonesOf returns the zones of the ClusterNetwork, and "" for the default zone.
func zonesOf(t *testing.T, objects string) []networkv1alpha1.ZoneName {
	t.Helper()
	zones := []networkv1alpha1.ZoneName{""}
	for _, doc := range strings.Split(objects, "\n---\n") {
		var cn networkv1alpha1.ClusterNetwork
		if err := yaml.Unmarshal([]byte(doc), &cn); err != nil {
			t.Fatal(err)
		}
		for _, z := range cn.Spec.Zones {
			zones = append(zones, z.Name)
		}
	}
	return zones
}

// transitNode adds a node's part of the connection between the zones.
func (b *builder) transitNode(nn *networkv1alpha1.NodeNetwork) {
	read, ok, err := facts.ParseTransitNode(nn, *b.transit, b.elsewhere[nn.Name])
	if err != nil {
		b.t.Fatal(err)
	}
	if ok {
		b.units = append(b.units, topology.TransitNodeUnit(read))
	}
}
