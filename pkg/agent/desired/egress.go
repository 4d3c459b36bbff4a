package desired

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/unit"
)

// answersKey is the external_ids key of Open_vSwitch that records Answers.
const answersKey = "weft.dev/answers"

// Answers are addresses of others for which the host answers, each with the link on which it does. They are recorded in Open
// vSwitch, because the kernel's entries have no owner.
type Answers map[netip.Addr]string

// Answering returns the unit with the record of Answers. Without answers the record is absent.
func Answering(a Answers) unit.Unit {
	return unit.Unit{Key: unit.NewKey(KindNode, "answers"), Members: settings(map[string]string{answersKey: a.String()})}
}

// ParseAnswers returns the Answers recorded in external_ids of Open_vSwitch.
func ParseAnswers(externalIDs map[string]string) Answers {
	a := Answers{}
	for _, word := range strings.Fields(externalIDs[answersKey]) {
		link, text, _ := strings.Cut(word, "/")
		if address, err := netip.ParseAddr(text); err == nil {
			a[address] = link
		}
	}
	return a
}

// String returns the record: "eth0/192.0.2.7 eth1/2001:db8::7".
func (a Answers) String() string {
	var words []string
	for _, address := range a.All() {
		words = append(words, a[address]+"/"+address.String())
	}
	return strings.Join(words, " ")
}

// All lists the addresses, sorted.
func (a Answers) All() []netip.Addr { return slices.SortedFunc(maps.Keys(a), netip.Addr.Compare) }

// On lists the addresses of one link, sorted.
func (a Answers) On(link string) (addresses []netip.Addr) {
	for _, address := range a.All() {
		if a[address] == link {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Without returns the answers that b does not have on the same link.
func (a Answers) Without(b Answers) Answers {
	left := maps.Clone(a)
	maps.DeleteFunc(left, func(address netip.Addr, link string) bool { return b[address] == link })
	return left
}

// LinksOf returns on which link the host answers for each carried address: the first with a network that contains it, or else
// the first.
func LinksOf(carried []netip.Addr, links []Link) Answers {
	a := Answers{}
	for _, address := range carried {
		at := slices.IndexFunc(links, func(l Link) bool {
			return slices.ContainsFunc(l.Addresses, func(n netip.Prefix) bool { return n.Masked().Contains(address) })
		})
		a[address] = links[max(at, 0)].Name
	}
	return a
}

// FurtherLinks returns the status of the host's links besides the link outside.
func FurtherLinks(links []Link) (status []networkv1alpha1.NodeLink) {
	const most = 16
	for _, l := range links[:min(len(links), most)] {
		link := networkv1alpha1.NodeLink{Name: l.Name}
		if mac, err := net.ParseMAC(l.MAC); err == nil && len(mac) == 6 { // InfiniBand has 20 bytes
			link.MACAddress = networkv1alpha1.MACAddress(mac.String())
		}
		for _, address := range l.Addresses[:min(len(l.Addresses), most)] {
			link.Addresses = append(link.Addresses, networkv1alpha1.InterfaceAddress(address.String()))
		}
		status = append(status, link)
	}
	return status
}

// EgressKey is the key of EgressPort's unit.
func EgressKey() unit.Key { return unit.NewKey(KindNode, "egress-port") }

// EgressMAC returns the MAC of the host's end of the egress port.
func EgressMAC() string { return ipam.MAC(ipam.Addresses(ipam.EgressLink(false))).String() }

// EgressPort returns the unit with the host's port to the node's gateway router in Local mode.
func EgressPort(node string, mtu int, bridgeUUID string) unit.Unit {
	u := unit.Unit{Key: EgressKey()}
	mac := EgressMAC()
	iface := &vswitchdb.Interface{Type: "internal", MAC: &mac,
		ExternalIDs: map[string]string{"iface-id": names.EgressPort(node)}}
	if mtu > 0 {
		iface.MTURequest = &mtu
	}
	addPort(&u, bridgeUUID, names.EgressInterface, names.EgressInterface, iface, nil)
	return u
}

// EgressHost returns the host's addresses at the egress port, and its routes to the addresses for which it answers, of the
// selected families.
func EgressHost(answered []netip.Addr, is4, is6 bool) (h Host) {
	router := ipam.Addresses(ipam.EgressLink(true))
	for i, own := range ipam.EgressLink(false) {
		if own.Addr().Is4() && !is4 || own.Addr().Is6() && !is6 {
			continue
		}
		h.Addresses = append(h.Addresses, own)
		for _, address := range answered {
			if address.Is4() == own.Addr().Is4() {
				h.Routes = append(h.Routes, Route{netip.PrefixFrom(address, address.BitLen()), router[i]})
			}
		}
	}
	return h
}
