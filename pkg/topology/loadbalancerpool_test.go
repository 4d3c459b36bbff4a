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

// An address that moved leaves the sets of the node that answered for it, also if their own unit stays as it is.
func TestAMovedAddressLeavesTheFormerHost(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.7")
	in := func(sets ...string) (members []unit.Membership) {
		for _, name := range sets {
			set := unit.Ref{Table: nbdb.AddressSetTable, UUID: unit.UUID(nbdb.AddressSetTable, name)}
			members = append(members, unit.Membership{Parent: set, Column: "addresses", Element: a.String()})
		}
		return members
	}
	u := topology.LoadBalancerPoolUnit(facts.LoadBalancerPool{Name: "web",
		Announced: []facts.AnnouncedAddress{{Address: a, Node: "n2", ByHost: true}},
		Former:    []facts.AnnouncedAddress{{Address: a, Node: "n1"}}})
	left := in(names.AnsweredAddresses("n1", "IPv4"), names.RouterAddresses("n1", "IPv4"))
	if !reflect.DeepEqual(u.Members, in(names.AnsweredAddresses("n2", "IPv4"))) || !reflect.DeepEqual(u.Left, left) {
		t.Errorf("the unit has %v and leaves %v", u.Members, u.Left)
	}
}
