package names_test

import (
	"testing"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// A Node may have the name of a switch that exists once.
func TestNoNodeHasASwitchOfTheCluster(t *testing.T) {
	for _, node := range []string{names.JoinSwitch, names.TransitSwitch} {
		if name := names.NodeSwitch(node); name == names.JoinSwitch || name == names.TransitSwitch {
			t.Errorf("node %s has the switch %s", node, name)
		}
	}
	if name := names.NodeSwitch("n1"); name != "n1" {
		t.Errorf("node n1 has the switch %s", name)
	}
}
