package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	api "github.com/osrg/gobgp/v3/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

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

var (
	family4 = &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}
	family6 = &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}
)

func familyOf(a netip.Addr) *api.Family {
	if a.Is4() {
		return family4
	}
	return family6
}

// path returns a route as the server takes it. internal means that the peer is in the nodes' own AS.
func (r route) path(prefix netip.Prefix, internal bool) (*api.Path, error) {
	nlri, err := anypb.New(&api.IPAddressPrefix{Prefix: prefix.Addr().String(), PrefixLen: uint32(prefix.Bits())})
	if err != nil {
		return nil, err
	}
	var next proto.Message = &api.NextHopAttribute{NextHop: r.nextHop.String()}
	if prefix.Addr().Is6() {
		next = &api.MpReachNLRIAttribute{Family: family6, NextHops: []string{r.nextHop.String()}, Nlris: []*anypb.Any{nlri}}
	}
	attributes := []proto.Message{&api.OriginAttribute{}, next}
	if internal && r.preference >= 0 {
		attributes = append(attributes, &api.LocalPrefAttribute{LocalPref: uint32(r.preference)})
	}
	communities, err := parseCommunities(strings.Fields(r.communities))
	if err != nil {
		return nil, err
	}
	path := &api.Path{Family: familyOf(prefix.Addr()), Nlri: nlri}
	for _, attribute := range append(attributes, communities...) {
		packed, err := anypb.New(attribute)
		if err != nil {
			return nil, err
		}
		path.Pattrs = append(path.Pattrs, packed)
	}
	return path, nil
}

// wellKnown has the communities with a name (IANA, "BGP Well-known Communities").
var wellKnown = map[string]uint32{
	"graceful-shutdown": 0xFFFF0000, "blackhole": 0xFFFF029A, "no-export": 0xFFFFFF01, "no-advertise": 0xFFFFFF02,
	"no-export-subconfed": 0xFFFFFF03, "no-peer": 0xFFFFFF04,
}

// parseCommunities returns the attributes of standard and of large communities.
func parseCommunities(texts []string) (attributes []proto.Message, err error) {
	standard, large := &api.CommunitiesAttribute{}, &api.LargeCommunitiesAttribute{}
	for _, text := range texts {
		if value, ok := wellKnown[text]; ok {
			standard.Communities = append(standard.Communities, value)
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
			standard.Communities = append(standard.Communities, n[0]<<16|n[1])
		} else {
			large.Communities = append(large.Communities, &api.LargeCommunity{GlobalAdmin: n[0], LocalData1: n[1], LocalData2: n[2]})
		}
	}
	if len(standard.Communities) > 0 {
		attributes = append(attributes, standard)
	}
	if len(large.Communities) > 0 {
		attributes = append(attributes, large)
	}
	return attributes, nil
}
