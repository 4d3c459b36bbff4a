package desired

import (
	"cmp"
	"errors"
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
// per family, if possible a preferred one: the Node's own, and then the reported ones. It has one next hop for each of
// these families: spec's, or else one of the default routes. unusable names the next hops of spec that the link cannot
// reach. In their place the result has the former next hops, as far as the link reaches these.
func Gateway(spec networkv1alpha1.NodeGateway, link Link, preferred []netip.Addr, former []networkv1alpha1.IP) (
	status networkv1alpha1.NodeGatewayStatus, unusable, err error) {
	status = networkv1alpha1.NodeGatewayStatus{
		Mode: spec.Mode, Uplink: spec.Uplink, SNAT: spec.SNAT, MACAddress: networkv1alpha1.MACAddress(link.MAC),
	}
	hops, unusable := nextHops(spec, link)
	for _, text := range former {
		if hop, err := text.Addr(); err == nil && unusable != nil && link.reaches(hop) == nil {
			hops = append(hops, hop)
		}
	}
	hops = append(hops, link.NextHops...)
	for _, is4 := range []bool{true, false} {
		address, ok := pick(link.Addresses, preferred, is4)
		if !ok {
			continue
		}
		status.Addresses = append(status.Addresses, networkv1alpha1.InterfaceAddress(address.String()))
		if i := slices.IndexFunc(hops, func(hop netip.Addr) bool { return hop.Is4() == is4 }); i >= 0 {
			status.NextHops = append(status.NextHops, networkv1alpha1.IP(hops[i].String()))
		}
	}
	if len(status.Addresses) == 0 {
		return status, unusable, fmt.Errorf("link %s has no address", link.Name)
	}
	return status, unusable, nil
}

// nextHops returns the next hops of spec that the link reaches. unusable names the others. In Local mode the host's routes
// decide, so that any address counts as usable.
func nextHops(spec networkv1alpha1.NodeGateway, link Link) (hops []netip.Addr, unusable error) {
	for i, text := range spec.NextHops {
		hop, err := text.Addr()
		if err == nil && spec.Mode != networkv1alpha1.GatewayLocal {
			err = link.reaches(hop)
		}
		if err != nil {
			unusable = errors.Join(unusable, fmt.Errorf("spec.gateway.nextHops[%d] %s: %w", i, text, err))
			continue
		}
		hops = append(hops, hop)
	}
	return hops, unusable
}

// reaches returns an error if the link does not lead to a next hop without another router: the next hop is neither in a
// subnet of the link nor the next hop of one of its default routes.
func (l Link) reaches(hop netip.Addr) error {
	contains := func(p netip.Prefix) bool { return p.Contains(hop) }
	switch {
	case slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Addr() == hop }):
		return fmt.Errorf("it is an address of link %s itself", l.Name)
	case hop.Is6() && hop.IsLinkLocalUnicast(), slices.Contains(l.NextHops, hop), slices.ContainsFunc(l.Addresses, contains):
		return nil
	}
	return fmt.Errorf("it is in no subnet of link %s, which has %v", l.Name, l.Addresses)
}

// FormerGateway returns the settings with which a reported gateway stays as it is, on a link that leads to it.
func FormerGateway(spec networkv1alpha1.NodeGateway, status networkv1alpha1.NodeGatewayStatus, link string) networkv1alpha1.NodeGateway {
	return networkv1alpha1.NodeGateway{Mode: status.Mode, Uplink: status.Uplink, Interface: link, NextHops: status.NextHops,
		SNAT: cmp.Or(status.SNAT, spec.SNAT), Move: spec.Move, NodePortAddresses: spec.NodePortAddresses}
}

// pick returns an address of one family: the first of the preferred addresses that is there, or else the first.
func pick(addresses []netip.Prefix, preferred []netip.Addr, is4 bool) (netip.Prefix, bool) {
	for _, want := range preferred {
		if i := slices.IndexFunc(addresses, func(p netip.Prefix) bool { return p.Addr() == want }); i >= 0 && want.Is4() == is4 {
			return addresses[i], true
		}
	}
	if i := slices.IndexFunc(addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == is4 }); i >= 0 {
		return addresses[i], true
	}
	return netip.Prefix{}, false
}
