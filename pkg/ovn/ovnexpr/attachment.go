package ovnexpr

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Keys of the external_ids of a pod's ports. northd copies them to the southbound database, where the pod's node reads them.
const (
	// NetworksKey, on the pod's port of the cluster network, changes with the networks that the pod requests; absent if it requests none.
	NetworksKey = "weft.dev/networks"
	// NetworkKey, on a port of a Network, is the Network's name, and RequestKey the hash of the request that the port was made for.
	NetworkKey = "weft.dev/network"
	RequestKey = "weft.dev/request"

	prefixesKey = "weft.dev/prefixes" // of the addresses, in their order, with commas between
	gatewaysKey = "weft.dev/gateways" // of default routes
	routesKey   = "weft.dev/routes"   // "10.1.0.0/16 10.1.3.1", with commas between
	mtuKey      = "weft.dev/mtu"
	segmentKey  = "weft.dev/segment" // "dc 100": the physical network, and the VLAN if there is one
)

// Attachment is what a node must know of a pod's interface on a Network, besides the port's address.
type Attachment struct {
	Network string
	Request string
	// Prefixes are the addresses with the length of their subnet.
	Prefixes []netip.Prefix
	// Gateways are the next hops of default routes, at most one per family.
	Gateways []netip.Addr
	Routes   []NetworkRoute
	// MTU in bytes; 0: that of the pods' interfaces on the cluster network.
	MTU int
	// PhysicalNetwork and VLAN are the segment of the data centre that the addresses are on; empty: none. VLAN 0 means no tag.
	PhysicalNetwork string
	VLAN            int
	// Floating are the addresses of an IPPool on the segment.
	Floating []netip.Addr
}

// NetworkRoute is a route of a pod through a Network's router.
type NetworkRoute struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// String renders the route as in external_ids.
func (r NetworkRoute) String() string { return r.Destination.String() + " " + r.Gateway.String() }

// AddTo writes the attachment into a port's external_ids.
func (a Attachment) AddTo(ids map[string]string) {
	ids[NetworkKey], ids[RequestKey] = a.Network, a.Request
	for key, value := range map[string]string{prefixesKey: joined(a.Prefixes), gatewaysKey: joined(a.Gateways), routesKey: joined(a.Routes)} {
		if value != "" {
			ids[key] = value
		}
	}
	if a.MTU != 0 {
		ids[mtuKey] = strconv.Itoa(a.MTU)
	}
	if len(a.Floating) > 0 {
		ids[FloatingKey] = joined(a.Floating)
	}
	if a.PhysicalNetwork != "" {
		ids[segmentKey] = a.PhysicalNetwork
		if a.VLAN != 0 {
			ids[segmentKey] += " " + strconv.Itoa(a.VLAN)
		}
	}
}

func joined[T fmt.Stringer](values []T) string {
	texts := make([]string, 0, len(values))
	for _, v := range values {
		texts = append(texts, v.String())
	}
	return strings.Join(texts, ",")
}

// ParseAttachment reads an attachment from a port's external_ids; ok is false for a port of no Network.
func ParseAttachment(ids map[string]string) (a Attachment, ok bool, err error) {
	if ids[NetworkKey] == "" {
		return a, false, nil
	}
	a.Network, a.Request = ids[NetworkKey], ids[RequestKey]
	if a.Prefixes, err = split(ids, prefixesKey, netip.ParsePrefix); err != nil {
		return a, true, err
	}
	if a.Gateways, err = split(ids, gatewaysKey, netip.ParseAddr); err != nil {
		return a, true, err
	}
	if a.Routes, err = split(ids, routesKey, parseRoute); err != nil {
		return a, true, err
	}
	if text := ids[mtuKey]; text != "" {
		if a.MTU, err = strconv.Atoi(text); err != nil || a.MTU < 0 {
			return a, true, fmt.Errorf("external_ids %s %q is not a number of bytes", mtuKey, text)
		}
	}
	return a, true, a.parseSegment(ids)
}

func (a *Attachment) parseSegment(ids map[string]string) (err error) {
	if a.Floating, err = ParseAddresses(ids, FloatingKey); err != nil {
		return err
	}
	name, vlan, tagged := strings.Cut(ids[segmentKey], " ")
	if a.PhysicalNetwork = name; tagged {
		if a.VLAN, err = strconv.Atoi(vlan); err != nil {
			return fmt.Errorf("external_ids %s %q has no number of a VLAN", segmentKey, ids[segmentKey])
		}
	}
	return nil
}

func parseRoute(text string) (r NetworkRoute, err error) {
	destination, gateway, _ := strings.Cut(text, " ")
	if r.Destination, err = netip.ParsePrefix(destination); err != nil {
		return r, err
	}
	r.Gateway, err = netip.ParseAddr(gateway)
	return r, err
}

func split[T any](ids map[string]string, key string, parse func(string) (T, error)) (values []T, err error) {
	if ids[key] == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(ids[key], ",") {
		value, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("external_ids %s: %w", key, err)
		}
		values = append(values, value)
	}
	return values, nil
}
