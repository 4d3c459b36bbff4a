package topology_test

import (
	"testing"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/topology"
)

// The table of groups cannot say whose a row is, but by its name.
func TestANodesGroupIsNamedAsItsUnit(t *testing.T) {
	if got, want := names.NodeLoadBalancers("n1"), string(topology.NodeKey("n1")); got != want {
		t.Errorf("the group is %q, the unit %q", got, want)
	}
}
