package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/unit"
)

// Link is one of the host's, as it is.
type Link struct {
	Name string
	MAC  string
	// Addresses are those of global scope.
	Addresses []netip.Prefix
	// NextHops are those of the default routes that use the link, the preferred ones first.
	NextHops []netip.Addr
}

// Gateway computes what of the host's link a gateway router is built from: one address per family, the Node's own before others, and one next
// hop for each of these families, by spec or by the default routes.
func Gateway(spec networkv1alpha1.NodeGateway, link Link, internal []netip.Addr) (networkv1alpha1.NodeGatewayStatus, error) {
	status := networkv1alpha1.NodeGatewayStatus{Mode: spec.Mode, Uplink: spec.Uplink, MACAddress: networkv1alpha1.MACAddress(link.MAC)}
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

// pick chooses an address of one family.
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

// BridgeMapping wants the network outside to be at a bridge, "" for at none, beside what else ovn-bridge-mappings says now.
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

// MappedBridge is the bridge to which ovn-bridge-mappings leads the network outside; empty if to none.
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
