package desired

import (
	"net/netip"
	"slices"
)

// Sources says with which addresses packets of the node's pods may leave through the node's gateway router.
type Sources struct {
	// Pods are the addresses of the node's pods, with the EgressIP or Service with whose addresses their packets leave, as in
	// ovnexpr.EgressKey; empty: with the node's.
	Pods map[netip.Addr]string
	// Owners are the addresses of EgressIPs and Services on any node, with their names as in Pods.
	Owners map[netip.Addr][]string
	// Here are the addresses to which this node's gateway router translates, Own the node's.
	Here, Own []netip.Addr
	// Inside are the destinations to which packets leave with the node's address in any case, Links the networks of the host's links.
	Inside, Links []netip.Prefix
}

// Refuses reports whether an entry of the gateway router's conntrack gives packets of a pod a source that they must not have: an
// address that is another's or not here, or the node's although the pod has an egress IP here.
func (s *Sources) Refuses(e Entry) bool {
	name, ours := s.Pods[e.Orig.Src]
	source := e.Reply.Dst
	if !ours || source == e.Orig.Src {
		return false
	}
	here, contains := slices.Contains(s.Here, source), func(p netip.Prefix) bool { return p.Contains(e.Orig.Dst) }
	switch owners := s.Owners[source]; {
	case slices.Contains(s.Own, source):
		return name != "" && s.carries(name, source.Is4()) && !slices.ContainsFunc(s.Inside, contains)
	case len(owners) > 0:
		return !here || !slices.Contains(owners, name)
	default: // a floating address, a NAT pool's, or a former egress IP
		return !here && slices.ContainsFunc(s.Links, func(p netip.Prefix) bool { return p.Contains(source) })
	}
}

// carries reports whether the node carries an address of a name.
func (s *Sources) carries(name string, is4 bool) bool {
	return slices.ContainsFunc(s.Here, func(a netip.Addr) bool { return a.Is4() == is4 && slices.Contains(s.Owners[a], name) })
}

// Carried returns the owners of the addresses that are here and that pods of the node leave with.
func (s *Sources) Carried() map[netip.Addr][]string {
	leaving := map[string]bool{}
	for _, name := range s.Pods {
		leaving[name] = true
	}
	found := map[netip.Addr][]string{}
	for _, a := range s.Here {
		if owners := s.Owners[a]; slices.ContainsFunc(owners, func(name string) bool { return leaving[name] }) {
			found[a] = owners
		}
	}
	return found
}
