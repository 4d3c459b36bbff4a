package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// families are the address families. OVN's address sets have one each.
var families = [...]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// AddressSetUnit returns a unit with an address set for each family. It is a unit of its own, which exists while
// other units name the sets in their matches.
func AddressSetUnit(key unit.Key, addresses []netip.Addr) unit.Unit {
	u := unit.Unit{Key: key}
	for _, family := range families {
		set := &nbdb.AddressSet{UUID: addressSetUUID(key, family), Name: addressSetName(key, family)}
		u.Rows = append(u.Rows, unit.Row{Model: set})
		for _, a := range addresses {
			if a.Is4() == family.Is4() {
				u.Members = append(u.Members,
					unit.Membership{Parent: unit.Ref{Table: nbdb.AddressSetTable, UUID: set.UUID}, Column: "addresses",
						Element: a.String()})
			}
		}
	}
	return u
}

// AddressSetRows returns the UUIDs of the rows of a set.
func AddressSetRows(key unit.Key) (uuids []string) {
	for _, family := range families {
		uuids = append(uuids, addressSetUUID(key, family))
	}
	return uuids
}

func addressSetName(key unit.Key, family netip.Addr) string {
	return names.AddressSet(key.Kind(), key.Name(), names.Family(family))
}

func addressSetUUID(key unit.Key, family netip.Addr) string {
	return unit.UUID(nbdb.AddressSetTable, addressSetName(key, family))
}

// selectorHash returns the name of a selector's group or set. text is the selector's canonical form.
func selectorHash(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:10])
}
