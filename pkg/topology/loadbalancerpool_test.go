package topology_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// An address that moved leaves the set of the node that answered for it, also if that set's own unit stays as it is.
func TestAMovedAddressLeavesTheFormerHost(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.7")
	in := func(node string) []unit.Membership {
		set := unit.Ref{Table: nbdb.AddressSetTable, UUID: unit.UUID(nbdb.AddressSetTable, names.AnsweredAddresses(node, "IPv4"))}
		return []unit.Membership{{Parent: set, Column: "addresses", Element: a.String()}}
	}
	u := topology.LoadBalancerPoolUnit(facts.LoadBalancerPool{Name: "web",
		Announced: []facts.AnnouncedAddress{{Address: a, Node: "n2", ByHost: true}},
		Former:    []facts.AnnouncedAddress{{Address: a, Node: "n1"}}})
	if !reflect.DeepEqual(u.Members, in("n2")) || !reflect.DeepEqual(u.Left, in("n1")) {
		t.Errorf("the unit has %v and leaves %v", u.Members, u.Left)
	}
}
