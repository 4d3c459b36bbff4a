package alloc

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCorrect(t *testing.T) {
	mac := net.HardwareAddr{0x02, 0, 0, 0, 0, 7}
	for name, c := range map[string]struct {
		node      string
		owner     Owner
		addresses []netip.Prefix
		mac       net.HardwareAddr
		refused   string
		want      []netip.Prefix
	}{
		"both families":        {owner: "a", addresses: prefixes("10.0.0.9/24", "fd00::9/64"), want: prefixes("10.0.0.9/24", "fd00::9/64")},
		"one family":           {owner: "a", addresses: prefixes("fd00::9/64"), want: prefixes("fd00::9/64")},
		"with a requested MAC": {owner: "a", addresses: prefixes("10.0.0.9/24"), mac: mac, want: prefixes("10.0.0.9/24")},
		"its own":              {owner: "a", addresses: prefixes("10.0.0.3/24"), want: prefixes("10.0.0.3/24")},
		"another owner's":      {owner: "a", addresses: prefixes("10.0.0.4/24"), refused: "already belongs to b"},
		"the gateway's":        {owner: "a", addresses: prefixes("10.0.0.1/24"), refused: "10.0.0.1"},
		"outside":              {owner: "a", addresses: prefixes("10.0.7.9/24"), refused: "10.0.7.9"},
		"two of a family":      {owner: "a", addresses: prefixes("10.0.0.8/24", "10.0.0.9/24"), refused: "2 addresses of one family"},
		"floating":             {owner: "f", addresses: prefixes("10.0.0.9/24"), refused: "floating"},
		"no assignment":        {owner: "nobody", addresses: prefixes("10.0.0.9/24"), refused: "no assignment"},
		"another node":         {node: "n2", owner: "a", addresses: prefixes("10.0.0.9/24"), refused: "no assignment"},
	} {
		a := New(func() time.Time { return time.Unix(0, 0) })
		a.SetNode("n1", prefixes("10.0.0.0/24", "fd00::/64"), nil)
		for owner, had := range map[Owner]Assignment{"a": {Addresses: prefixes("10.0.0.3/24", "fd00::3/64"), Slot: 20},
			"b": {Addresses: prefixes("10.0.0.4/24", "fd00::4/64"), Slot: 21},
			"f": {Addresses: prefixes("fd00::5/64"), Floating: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Slot: 22}} {
			if _, err := a.Claim("n1", owner, had); err != nil {
				t.Fatal(err)
			}
		}
		_, before, _ := a.Get(c.owner)
		if c.node == "" {
			c.node = "n1"
		}
		err := a.Correct(c.node, c.owner, c.addresses, c.mac)
		_, after, _ := a.Get(c.owner)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) || !slices.Equal(before.Addresses, after.Addresses) {
				t.Errorf("%s: %v, and the owner has %v", name, err, after)
			}
			continue
		}
		if err != nil || !slices.Equal(after.Addresses, c.want) || after.Slot != before.Slot ||
			c.mac != nil && after.MAC.String() != c.mac.String() {
			t.Errorf("%s: %v, and the owner has %v", name, err, after)
		}
		kept := slices.ContainsFunc(before.Addresses, func(b netip.Prefix) bool { return slices.Contains(after.Addresses, b) })
		if _, err := a.Claim("n1", "next", Assignment{Addresses: before.Addresses}); (err == nil) == kept {
			t.Errorf("%s: the former addresses %v are claimed: %v", name, before.Addresses, err)
		}
	}
}
