package topology_test

import (
	"testing"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/topology"
)

// Rows of the table of groups have no owner other than in their name.
func TestANodesGroupIsNamedAsItsUnit(t *testing.T) {
	if got, want := names.NodeLoadBalancers("n1"), string(topology.NodeKey("n1")); got != want {
		t.Errorf("the group is %q, the unit %q", got, want)
	}
}
