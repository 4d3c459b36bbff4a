package desired

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// StripSlice returns a copy of an EndpointSlice with only the endpoints that may serve and are on this node or on no
// named node. If one of them is on this node, it keeps endpoints elsewhere too, because the host chooses among all if
// one of them is its own. StripSlice returns its own result unchanged, because a cache strips objects again when it
// lists them again.
func StripSlice(s *discoveryv1.EndpointSlice, node string) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{AddressType: s.AddressType}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = s.Namespace, s.Name, s.UID, s.ResourceVersion
	kept.Labels = map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName]}
	serves := func(e discoveryv1.Endpoint) bool { return isReady(&e) || isServing(&e) }
	all := slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
		return serves(e) && e.NodeName != nil && *e.NodeName == node
	})
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.NodeName != nil && *e.NodeName != node && !all || !serves(*e) {
			continue
		}
		ready := isReady(e)
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{
			NodeName: e.NodeName, TargetRef: nameOf(e), Addresses: e.Addresses[:min(1, len(e.Addresses))],
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: e.Conditions.Serving},
		})
	}
	if len(kept.Endpoints) > 0 {
		kept.Ports = s.Ports
	}
	return kept
}

// nameOf returns an endpoint's reference with only the name, which identifies a pod with endpoints in the slices of both
// families.
func nameOf(e *discoveryv1.Endpoint) *corev1.ObjectReference {
	if e.TargetRef == nil {
		return nil
	}
	return &corev1.ObjectReference{Kind: e.TargetRef.Kind, Namespace: e.TargetRef.Namespace, Name: e.TargetRef.Name}
}

// isReady reports whether an endpoint is ready. An endpoint without the condition counts as ready (discovery/v1).
func isReady(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func isServing(e *discoveryv1.Endpoint) bool {
	return e.Conditions.Serving != nil && *e.Conditions.Serving
}

// LocalEndpoints are the endpoints of a service on this node, and what the node needs of the others.
type LocalEndpoints struct {
	// Ready is the number of ready endpoints. It counts pods, not addresses.
	Ready int
	// Usable reports whether an endpoint may serve: a ready one or, if there are no ready ones, a terminating one with the
	// condition Serving.
	Usable bool
	slices []discoveryv1.EndpointSlice
	place  Place
}

// Place identifies a node, by its name and its addresses.
type Place struct {
	// Node is the node's name.
	Node string
	// Own are the node's addresses. Pods are the networks of all pods.
	Own  []netip.Addr
	Pods []netip.Prefix
}

// Equal reports whether both places are the same.
func (p Place) Equal(other Place) bool {
	return p.Node == other.Node && slices.Equal(p.Own, other.Own) && slices.Equal(p.Pods, other.Pods)
}

// FindLocal reads a service's slices, as stripped by StripSlice. An endpoint without a node name is on this node if it
// has an address of the node.
func FindLocal(slices []discoveryv1.EndpointSlice, place Place) LocalEndpoints {
	ready := map[string]bool{} // by pod, or by address for an endpoint without a pod
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

// own returns an endpoint of a service's port that has an address of the node.
func (l LocalEndpoints) own(port *corev1.ServicePort, is4 bool) netip.AddrPort {
	found := l.choose(port, is4, func(_ *discoveryv1.Endpoint, a netip.Addr) bool { return slices.Contains(l.place.Own, a) })
	if len(found) == 0 {
		return netip.AddrPort{}
	}
	return found[0]
}

// beyond returns an endpoint of a service's port that is neither on this node nor a pod. If there are several, nodes choose
// different ones.
func (l LocalEndpoints) beyond(port *corev1.ServicePort, is4 bool) netip.AddrPort {
	isPod := func(a netip.Addr) bool {
		return slices.ContainsFunc(l.place.Pods, func(network netip.Prefix) bool { return network.Contains(a) })
	}
	found := l.choose(port, is4, func(e *discoveryv1.Endpoint, a netip.Addr) bool {
		return e.NodeName == nil && !slices.Contains(l.place.Own, a) && !isPod(a)
	})
	if len(found) == 0 {
		return netip.AddrPort{}
	}
	return found[l.place.number(len(found))]
}

// most is the maximum number of endpoints among which the host chooses. If there are more, nodes omit different ones.
const most = 16

// all returns the endpoints of a service's port on all nodes, if one is the host's own and there are others. Otherwise
// it returns nil.
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

// number returns a number below limit that differs between nodes.
func (p Place) number(limit int) int {
	h := fnv.New32a()
	fmt.Fprint(h, p.Own)
	return int(h.Sum32() % uint32(limit))
}

// choose lists the wanted endpoints of a port, sorted. It returns the terminating ones only if none is ready.
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

// portOf returns the number of a service's port in a slice, or 0 if the slice does not have the port.
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
