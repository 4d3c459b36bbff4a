package desired

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StripSlice keeps of an EndpointSlice the endpoints on this node, and those of which the node is not said, that may serve, and of those
// whether they are ready. Where one is on this node those elsewhere stay too: if it is the host's own, the host chooses among all. What it
// returned before it returns again: a cache strips what it lists twice.
func StripSlice(s *discoveryv1.EndpointSlice, node string) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName]}}, AddressType: s.AddressType}
	serves := func(e discoveryv1.Endpoint) bool { return isReady(&e) || isServing(&e) }
	all := slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return serves(e) && e.NodeName != nil && *e.NodeName == node })
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.NodeName != nil && *e.NodeName != node && !all || !serves(*e) {
			continue
		}
		ready := isReady(e)
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{NodeName: e.NodeName, TargetRef: nameOf(e), Addresses: e.Addresses[:min(1, len(e.Addresses))],
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: e.Conditions.Serving}})
	}
	if len(kept.Endpoints) > 0 {
		kept.Ports = s.Ports
	}
	return kept
}

// nameOf keeps of what an endpoint refers to the name: a pod has an endpoint in the slice of each family.
func nameOf(e *discoveryv1.Endpoint) *corev1.ObjectReference {
	if e.TargetRef == nil {
		return nil
	}
	return &corev1.ObjectReference{Kind: e.TargetRef.Kind, Namespace: e.TargetRef.Namespace, Name: e.TargetRef.Name}
}

// An endpoint of which nothing is said is ready (discovery/v1).
func isReady(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func isServing(e *discoveryv1.Endpoint) bool {
	return e.Conditions.Serving != nil && *e.Conditions.Serving
}

// LocalEndpoints are a service's on this node, and what of others matters to it.
type LocalEndpoints struct {
	// Ready counts those that are ready: pods, however many families they have.
	Ready int
	// Usable says that one may serve: where none is ready, one that still serves while it ends.
	Usable bool
	slices []discoveryv1.EndpointSlice
	place  Place
}

// Place is where a node is.
type Place struct {
	// Node is its name.
	Node string
	// Own are the node's addresses, Pods the networks of all pods.
	Own  []netip.Addr
	Pods []netip.Prefix
}

// Equal compares.
func (p Place) Equal(other Place) bool {
	return p.Node == other.Node && slices.Equal(p.Own, other.Own) && slices.Equal(p.Pods, other.Pods)
}

// FindLocal reads what StripSlice kept of a service's slices. An endpoint whose node is not said is on this one if it has an address of it.
func FindLocal(slices []discoveryv1.EndpointSlice, place Place) LocalEndpoints {
	ready := map[string]bool{} // pod, or address where there is none
	local := LocalEndpoints{slices: slices, place: place}
	for i := range slices {
		for j := range slices[i].Endpoints {
			e := &slices[i].Endpoints[j]
			if !place.has(e) {
				continue
			}
			local.Usable = true
			if isReady(e) {
				ready[identityOf(e)] = true
			}
		}
	}
	local.Ready = len(ready)
	return local
}

// has reports whether the endpoint is on the node.
func (p Place) has(e *discoveryv1.Endpoint) bool {
	if e.NodeName != nil {
		return *e.NodeName == p.Node
	}
	return slices.ContainsFunc(addressesOf(e.Addresses), func(a netip.Addr) bool { return slices.Contains(p.Own, a) })
}

// own is an endpoint of a service's port that has an address of the node.
func (l LocalEndpoints) own(port *corev1.ServicePort, is4 bool) netip.AddrPort {
	found := l.choose(port, is4, func(_ *discoveryv1.Endpoint, a netip.Addr) bool { return slices.Contains(l.place.Own, a) })
	if len(found) == 0 {
		return netip.AddrPort{}
	}
	return found[0]
}

// beyond is an endpoint of a service's port that is neither on this node nor a pod: of several, not the same on every node.
func (l LocalEndpoints) beyond(port *corev1.ServicePort, is4 bool) netip.AddrPort {
	found := l.choose(port, is4, func(e *discoveryv1.Endpoint, a netip.Addr) bool {
		return e.NodeName == nil && !slices.Contains(l.place.Own, a) && !slices.ContainsFunc(l.place.Pods, func(network netip.Prefix) bool { return network.Contains(a) })
	})
	if len(found) == 0 {
		return netip.AddrPort{}
	}
	return found[l.place.number(len(found))]
}

// most is of how many endpoints the host chooses one; of more it leaves others out than other nodes do.
const most = 16

// all are the endpoints of a service's port, wherever they are, if one that the host has itself is among several; else nil.
func (l LocalEndpoints) all(port *corev1.ServicePort, is4 bool) []netip.AddrPort {
	found := slices.Compact(l.choose(port, is4, func(*discoveryv1.Endpoint, netip.Addr) bool { return true }))
	if own := l.own(port, is4); !own.IsValid() || len(found) == 0 || len(found) == 1 && found[0] == own {
		return nil
	}
	if len(found) > most {
		at := l.place.number(len(found))
		found = slices.Concat(found[at:], found[:at])[:most]
		slices.SortFunc(found, netip.AddrPort.Compare)
	}
	return found
}

// number is below limit, and not the same on every node.
func (p Place) number(limit int) int {
	h := fnv.New32a()
	fmt.Fprint(h, p.Own)
	return int(h.Sum32() % uint32(limit))
}

// choose lists the endpoints of a port with an address that is wanted, in order: those that are ready, or where none is, those that end.
func (l LocalEndpoints) choose(port *corev1.ServicePort, is4 bool, wanted func(*discoveryv1.Endpoint, netip.Addr) bool) []netip.AddrPort {
	var ready, ending []netip.AddrPort
	for i := range l.slices {
		number := portOf(&l.slices[i], port)
		for j := range l.slices[i].Endpoints {
			e := &l.slices[i].Endpoints[j]
			for _, a := range addressesOf(e.Addresses) {
				switch {
				case number == 0 || a.Is4() != is4 || !wanted(e, a):
				case isReady(e):
					ready = append(ready, netip.AddrPortFrom(a, number))
				default:
					ending = append(ending, netip.AddrPortFrom(a, number))
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return ready
}

// portOf is the number that a service's port has in a slice; 0: it is not there.
func portOf(slice *discoveryv1.EndpointSlice, port *corev1.ServicePort) uint16 {
	for _, p := range slice.Ports {
		name, protocol := "", corev1.ProtocolTCP
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if name == port.Name && protocol == port.Protocol && p.Port != nil {
			return uint16(*p.Port)
		}
	}
	return 0
}

func identityOf(e *discoveryv1.Endpoint) string {
	if e.TargetRef != nil {
		return e.TargetRef.Kind + " " + e.TargetRef.Namespace + "/" + e.TargetRef.Name
	}
	if len(e.Addresses) > 0 {
		return e.Addresses[0]
	}
	return ""
}
