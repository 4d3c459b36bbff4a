package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// route has the attributes of a prefix for one peer, in a form that can be compared.
type route struct {
	nextHop     netip.Addr
	preference  int64 // -1: none
	communities string
}

// routesFor returns the routes of a peer. It leaves out a prefix of a family without a next hop.
func routesFor(spec *networkv1alpha1.NodeBGP, peer string) (map[netip.Prefix]route, error) {
	hops := map[bool]netip.Addr{}
	for _, text := range spec.NextHops {
		hop, err := text.Addr()
		if err != nil {
			return nil, fmt.Errorf("spec.bgp.nextHops: %w", err)
		}
		hops[hop.Is4()] = hop
	}
	routes := make(map[netip.Prefix]route, len(spec.Routes))
	for _, r := range spec.Routes {
		prefix, err := netip.ParsePrefix(r.Prefix)
		if err != nil {
			return nil, fmt.Errorf("spec.bgp.routes: %w", err)
		}
		hop := hops[prefix.Addr().Is4()]
		if !hop.IsValid() || len(r.Peers) > 0 && !slices.Contains(r.Peers, peer) {
			continue
		}
		has := route{nextHop: hop, preference: -1, communities: strings.Join(r.Communities, " ")}
		if r.LocalPreference != nil {
			has.preference = *r.LocalPreference
		}
		routes[prefix] = has
	}
	return routes, nil
}

// path returns a route as the server takes it. internal means that the peer is in the nodes' own AS.
func (r route) path(prefix netip.Prefix, internal bool) (*apiutil.Path, error) {
	nlri, err := packet.NewIPAddrPrefix(prefix)
	if err != nil {
		return nil, err
	}
	path := &apiutil.Path{Family: packet.RF_IPv4_UC, Nlri: nlri, Age: time.Now().Unix(),
		Attrs: []packet.PathAttributeInterface{packet.NewPathAttributeOrigin(packet.BGP_ORIGIN_ATTR_TYPE_IGP)}}
	var next packet.PathAttributeInterface
	if prefix.Addr().Is4() {
		next, err = packet.NewPathAttributeNextHop(r.nextHop)
	} else {
		path.Family = packet.RF_IPv6_UC
		next, err = packet.NewPathAttributeMpReachNLRI(path.Family, []packet.PathNLRI{{NLRI: nlri}}, r.nextHop)
	}
	if err != nil {
		return nil, err
	}
	path.Attrs = append(path.Attrs, next)
	if internal && r.preference >= 0 {
		path.Attrs = append(path.Attrs, packet.NewPathAttributeLocalPref(uint32(r.preference)))
	}
	communities, err := parseCommunities(strings.Fields(r.communities))
	path.Attrs = append(path.Attrs, communities...)
	return path, err
}

// wellKnown has the communities with a name (IANA, "BGP Well-known Communities").
var wellKnown = map[string]uint32{
	"graceful-shutdown": 0xFFFF0000, "blackhole": 0xFFFF029A, "no-export": 0xFFFFFF01, "no-advertise": 0xFFFFFF02,
	"no-export-subconfed": 0xFFFFFF03, "no-peer": 0xFFFFFF04,
}

// parseCommunities returns the attributes of standard and of large communities.
func parseCommunities(texts []string) (attributes []packet.PathAttributeInterface, err error) {
	var standard []uint32
	var large []*packet.LargeCommunity
	for _, text := range texts {
		if value, ok := wellKnown[text]; ok {
			standard = append(standard, value)
			continue
		}
		parts := strings.Split(text, ":")
		bits := 16
		if len(parts) == 3 {
			bits = 32
		}
		var n [3]uint32
		for i, part := range parts {
			value, err := strconv.ParseUint(part, 10, bits)
			if err != nil || len(parts) < 2 || len(parts) > 3 {
				return nil, fmt.Errorf("community %q: it is neither A:B with numbers up to 65535, nor A:B:C with numbers up to 4294967295", text)
			}
			n[i] = uint32(value)
		}
		if len(parts) == 2 {
			standard = append(standard, n[0]<<16|n[1])
		} else {
			large = append(large, &packet.LargeCommunity{ASN: n[0], LocalData1: n[1], LocalData2: n[2]})
		}
	}
	if len(standard) > 0 {
		attributes = append(attributes, packet.NewPathAttributeCommunities(standard))
	}
	if len(large) > 0 {
		attributes = append(attributes, packet.NewPathAttributeLargeCommunities(large))
	}
	return attributes, nil
}
