package desired

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// LeavingPods names the pods of an EgressIP, or of a Service (facts.EgressNameOf), of one family ("IPv4", "IPv6").
type LeavingPods struct{ EgressIP, Family string }

// Leaving are the addresses of the pods whose packets leave with the addresses of EgressIPs and Services. A map that is the same as before
// has not changed.
type Leaving map[LeavingPods]map[netip.Addr]bool

// has reports whether a pod leaves with the addresses of an EgressIP.
func (l Leaving) has(egressIP string, pod netip.Addr) bool {
	return l[LeavingPods{egressIP, names.Family(pod)}][pod]
}

// Changed reports whether a pod leaves with other addresses than before, without pods that are new: former pods of an EgressIP, and
// new ones if they were local before.
func (l Leaving) Changed(before Leaving, local map[netip.Addr]bool) bool {
	same := func(key LeavingPods) bool {
		return reflect.ValueOf(l[key]).Pointer() == reflect.ValueOf(before[key]).Pointer()
	}
	for key, pods := range before {
		if same(key) {
			continue
		}
		for pod := range pods {
			if !l[key][pod] {
				return true
			}
		}
	}
	for key, pods := range l {
		if same(key) {
			continue
		}
		for pod := range pods {
			if local[pod] && !before[key][pod] {
				return true
			}
		}
	}
	return false
}

// PodAddresses returns the addresses of ports.
func PodAddresses(bindings []*sbdb.PortBinding) map[netip.Addr]bool {
	found := map[netip.Addr]bool{}
	for _, b := range bindings {
		for _, text := range b.MAC {
			port, _ := ovnexpr.ParsePortAddress(text) // the operator writes it
			for _, address := range port.Addresses {
				found[address] = true
			}
		}
	}
	return found
}

// Sources says with which addresses packets of pods may leave through the node's gateway router.
type Sources struct {
	// Pods are the networks of all pods.
	Pods []netip.Prefix
	// Owners are the addresses of EgressIPs and of load balancers on any node, with the names of EgressIPs or Services as in Leaving.
	Owners map[netip.Addr][]string
	// Leaving has the pods of the EgressIPs and Services whose addresses are here.
	Leaving Leaving
	// Here are the addresses to which this node's gateway router translates, Own the node's.
	Here, Own []netip.Addr
	// Inside are the destinations to which packets leave with the node's address in any case, Links the networks of the host's links.
	Inside, Links []netip.Prefix
}

// Refuses reports whether an entry of the gateway router's conntrack gives packets of a pod, of any node, a source that they must not
// have: an address that is another's or not here, or the node's although the pod has an egress IP here.
func (s *Sources) Refuses(e Entry) bool {
	pod, source := e.Orig.Src, e.Reply.Dst
	contains := func(a netip.Addr) func(netip.Prefix) bool { return func(p netip.Prefix) bool { return p.Contains(a) } }
	if !slices.ContainsFunc(s.Pods, contains(pod)) || source == pod {
		return false
	}
	has := func(egressIP string) bool { return s.Leaving.has(egressIP, pod) }
	here := slices.Contains(s.Here, source)
	switch owners := s.Owners[source]; {
	case slices.Contains(s.Own, source):
		carried := func(a netip.Addr) bool { return a.Is4() == pod.Is4() && slices.ContainsFunc(s.Owners[a], has) }
		return slices.ContainsFunc(s.Here, carried) && !slices.ContainsFunc(s.Inside, contains(e.Orig.Dst))
	case len(owners) > 0:
		return !here || !slices.ContainsFunc(owners, has)
	default: // a floating address, a NAT pool's, or a former egress IP
		return !here && slices.ContainsFunc(s.Links, contains(source))
	}
}

// Carried returns the owners of the addresses that are here, and have some among names.
func (s *Sources) Carried(names map[string]bool) map[netip.Addr][]string {
	found := map[netip.Addr][]string{}
	for _, a := range s.Here {
		if owners := s.Owners[a]; slices.ContainsFunc(owners, func(name string) bool { return names[name] }) {
			found[a] = owners
		}
	}
	return found
}
