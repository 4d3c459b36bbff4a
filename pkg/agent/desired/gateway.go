package desired

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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
