package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/unit"
)

// Link is the present state of a link of the host.
type Link struct {
	Name string
	MAC  string
	// Addresses are the link's global addresses.
	Addresses []netip.Prefix
	// NextHops are the next hops of the default routes over the link. Preferred routes come first.
	NextHops []netip.Addr
}

// Gateway computes from the host's link what the operator needs to build the gateway router. The result has one address
// per family, preferably one of the Node's addresses in internal. It has one next hop for each of these families, from
// spec or else from the default routes.
func Gateway(spec networkv1alpha1.NodeGateway, link Link, internal []netip.Addr) (networkv1alpha1.NodeGatewayStatus, error) {
	status := networkv1alpha1.NodeGatewayStatus{
		Mode: spec.Mode, Uplink: spec.Uplink, MACAddress: networkv1alpha1.MACAddress(link.MAC),
	}
	hops, err := nextHops(spec, link)
	if err != nil {
		return status, err
	}
	for _, is4 := range []bool{true, false} {
		address, ok := pick(link.Addresses, internal, is4)
		if !ok {
			continue
		}
		status.Addresses = append(status.Addresses, networkv1alpha1.InterfaceAddress(address.String()))
		if i := slices.IndexFunc(hops, func(hop netip.Addr) bool { return hop.Is4() == is4 }); i >= 0 {
			status.NextHops = append(status.NextHops, networkv1alpha1.IP(hops[i].String()))
		}
	}
	if len(status.Addresses) == 0 {
		return status, fmt.Errorf("link %s has no address", link.Name)
	}
	return status, nil
}

func nextHops(spec networkv1alpha1.NodeGateway, link Link) ([]netip.Addr, error) {
	if len(spec.NextHops) == 0 {
		return link.NextHops, nil
	}
	var hops []netip.Addr
	for _, text := range spec.NextHops {
		hop, err := text.Addr()
		if err != nil {
			return nil, fmt.Errorf("spec.gateway.nextHops: %w", err)
		}
		hops = append(hops, hop)
	}
	return hops, nil
}

// pick returns an address of one family, preferably one of the preferred addresses.
func pick(addresses []netip.Prefix, preferred []netip.Addr, is4 bool) (netip.Prefix, bool) {
	var first netip.Prefix
	for _, p := range addresses {
		if p.Addr().Is4() != is4 {
			continue
		}
		if slices.Contains(preferred, p.Addr()) {
			return p, true
		}
		if !first.IsValid() {
			first = p
		}
	}
	return first, first.IsValid()
}

// BridgeMapping returns the unit that maps the outside network to a bridge, or to no bridge if bridge is empty. It keeps
// the other mappings of ovn-bridge-mappings, whose present value is present.
func BridgeMapping(present, bridge string) unit.Unit {
	u := unit.Unit{Key: unit.NewKey(KindNode, "bridge-mapping")}
	mappings := slices.DeleteFunc(splitMappings(present), func(m string) bool { return networkOf(m) == names.PhysicalNetwork })
	if bridge != "" {
		mappings = append(mappings, names.PhysicalNetwork+":"+bridge)
	}
	if len(mappings) > 0 {
		u.Members = settings(map[string]string{BridgeMappingsKey: strings.Join(mappings, ",")})
	}
	return u
}

// BridgeMappingsKey is ovn-controller's setting in Open_vSwitch's external_ids: "physnet:br-ex,other:br-other".
const BridgeMappingsKey = "ovn-bridge-mappings"

// MappedBridge returns the bridge to which ovn-bridge-mappings maps the outside network, or an empty string.
func MappedBridge(present string) string {
	for _, m := range splitMappings(present) {
		if network, bridge, _ := strings.Cut(m, ":"); network == names.PhysicalNetwork {
			return bridge
		}
	}
	return ""
}

func splitMappings(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(m string) bool { return m == "" })
}

func networkOf(mapping string) string {
	network, _, _ := strings.Cut(mapping, ":")
	return network
}
