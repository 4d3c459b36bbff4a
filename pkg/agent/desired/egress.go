package desired

import (
	"net/netip"
	"strings"

	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

// answersKey is the external_ids key of the egress port's Interface that records Answers.
const answersKey = "weft.dev/answers"

// Answers are the addresses of others for which the host answers on one of its links. They are recorded with the egress port,
// because the kernel's entries have no owner.
type Answers struct {
	Link      string
	Addresses []netip.Addr
}

// ParseAnswers returns the recorded Answers of an Interface.
func ParseAnswers(externalIDs map[string]string) (a Answers) {
	for i, word := range strings.Fields(externalIDs[answersKey]) {
		if address, err := netip.ParseAddr(word); err == nil {
			a.Addresses = append(a.Addresses, address)
		} else if i == 0 {
			a.Link = word
		}
	}
	return a
}

func (a Answers) String() string {
	words := []string{a.Link}
	for _, address := range a.Addresses {
		words = append(words, address.String())
	}
	return strings.Join(words, " ")
}

// EgressKey is the key of EgressPort's unit.
func EgressKey() unit.Key { return unit.NewKey(KindNode, "egress-port") }

// EgressPort returns the unit with the host's port to the node's gateway router in Local mode.
func EgressPort(node string, mtu int, bridgeUUID string, answers Answers) unit.Unit {
	u := unit.Unit{Key: EgressKey()}
	mac := ipam.MAC(ipam.Addresses(ipam.EgressLink(false))).String()
	iface := &vswitchdb.Interface{Type: "internal", MAC: &mac,
		ExternalIDs: map[string]string{"iface-id": names.EgressPort(node), answersKey: answers.String()}}
	if mtu > 0 {
		iface.MTURequest = &mtu
	}
	addPort(&u, bridgeUUID, names.EgressInterface, names.EgressInterface, iface, nil)
	return u
}

// EgressHost returns the host's addresses at the egress port, and its routes to the addresses that the router carries, of the
// selected families.
func EgressHost(carried []netip.Addr, is4, is6 bool) (h Host) {
	router := ipam.Addresses(ipam.EgressLink(true))
	for i, own := range ipam.EgressLink(false) {
		if own.Addr().Is4() && !is4 || own.Addr().Is6() && !is6 {
			continue
		}
		h.Addresses = append(h.Addresses, own)
		for _, address := range carried {
			if address.Is4() == own.Addr().Is4() {
				h.Routes = append(h.Routes, Route{netip.PrefixFrom(address, address.BitLen()), router[i]})
			}
		}
	}
	return h
}
