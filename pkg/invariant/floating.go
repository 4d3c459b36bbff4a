package invariant

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// floatingInvariants returns the invariants of floating addresses.
func floatingInvariants() []Invariant {
	return []Invariant{
		{"FloatingHeldByOne", "No floating address is on two ports, translations or FloatingIPs.", floatingHeldByOne},
		{"FloatingWhereHeld", "A floating address is at its pod, and routed or translated exactly there.", floatingWhereHeld},
	}
}

// heldBy returns the floating addresses of a pod in pools of a location, from the FloatingIPs. A pod keeps an Overlay
// address when its pool is deleted, or recreated elsewhere; its port's mark says so then.
func (v *view) heldBy(pod *corev1.Pod, location networkv1alpha1.IPPoolLocation) (held []netip.Addr) {
	for _, ip := range v.floating[string(pod.UID)] {
		address, err := netip.ParseAddr(string(ip.Spec.Address))
		if err != nil || ip.Spec.Holder.Namespace != pod.Namespace || ip.Spec.Holder.Pod != pod.Name {
			continue
		}
		if v.locationOf(pod, v.pools[ip.Spec.Pool], address) == location {
			held = append(held, address)
		}
	}
	return held
}

// locationOf returns where a pod has a floating address; empty: nowhere.
func (v *view) locationOf(pod *corev1.Pod, pool floating.Pool, address netip.Addr) networkv1alpha1.IPPoolLocation {
	_, inside := pool.SegmentOf(address)
	switch {
	case v.hasMark(pod, address):
		return networkv1alpha1.LocationOverlay
	case pool.Location == networkv1alpha1.LocationOverlay && !inside:
		return ""
	}
	return pool.Location
}

// hasMark reports whether the pod's port has an address as a floating address.
func (v *view) hasMark(pod *corev1.Pod, address netip.Addr) bool {
	for _, port := range v.owned[topology.PodKey(pod.Namespace, pod.Name)] {
		marked, _ := ovnexpr.ParseAddresses(port.ExternalIDs, ovnexpr.FloatingKey)
		if slices.Contains(marked, address) {
			return true
		}
	}
	return false
}

// awaitsFloating reports whether a pod requests floating addresses that it does not all hold on its node yet, or whose pool was deleted. A
// pod that holds addresses of another pool than it requests keeps them.
func (v *view) awaitsFloating(pod *corev1.Pod) bool {
	request, requests, err := networkv1alpha1.FloatingRequestOf(pod)
	if err != nil || !requests {
		return err != nil
	}
	held, ofPool := map[bool]int{}, 0 // is IPv4 -> addresses
	for _, ip := range v.floating[string(pod.UID)] {
		if _, known := v.pools[ip.Spec.Pool]; !known || ip.Spec.Holder.Node != pod.Spec.NodeName {
			return true
		}
		if address, err := netip.ParseAddr(string(ip.Spec.Address)); err == nil && ip.Spec.Pool == request.Pool {
			held[address.Is4()]++
			ofPool++
		}
	}
	pool := v.pools[request.Pool]
	if ofPool == 0 {
		return len(v.floating[string(pod.UID)]) == 0
	}
	return slices.ContainsFunc(pool.Families(), func(is4 bool) bool { return held[is4] < request.Count })
}

// floatingHeldByOne compares the marks of ports, the translations and the FloatingIPs, each kind by itself, and the
// addresses of a pool with all ports.
func floatingHeldByOne(v *view) (found []Violation) {
	holders := map[netip.Addr][]any{}
	for _, port := range v.ports {
		if v.networkAt(port) != "" { // UniqueAddress compares the ports of a Network
			continue
		}
		for _, key := range []string{ovnexpr.FloatingKey, ovnexpr.TranslatedKey} {
			addresses, _ := ovnexpr.ParseAddresses(port.ExternalIDs, key)
			for _, address := range addresses {
				holders[address] = append(holders[address], port)
			}
		}
	}
	for _, port := range v.ports { // another pod's ordinary address
		for _, element := range addressesOf(port) {
			for _, address := range element.Addresses {
				if rows := holders[address]; len(rows) > 0 && v.networkAt(port) == "" && !slices.Contains(rows, any(port)) {
					holders[address] = append(rows, port)
				}
			}
		}
	}
	for address, rows := range holders {
		if len(rows) > 1 {
			found = append(found, v.about(rows, "floating address %s is on %d ports: %v", address, len(rows), v.namesOf(rows)))
		}
	}
	found = append(found, v.translatedTwice()...)
	objects := map[networkv1alpha1.EgressAddress]string{} // address -> FloatingIP
	for i := range v.FloatingIPs {
		ip := &v.FloatingIPs[i]
		if other, double := objects[ip.Spec.Address]; double {
			found = append(found, Violation{Message: fmt.Sprintf("address %s has the FloatingIPs %s and %s", ip.Spec.Address, other, ip.Name)}.
				of("FloatingIP "+other, "FloatingIP "+ip.Name))
		}
		objects[ip.Spec.Address] = ip.Name
	}
	return found
}

// translatedTwice finds external addresses with two translations of pods, on any routers.
func (v *view) translatedTwice() (found []Violation) {
	nats := map[string][]any{} // external address -> rows
	for _, nat := range rowsIn[nbdb.NAT](v.Northbound, nbdb.NATTable) {
		if nat.Type == nbdb.NATTypeDNATAndSNAT {
			nats[nat.ExternalIP] = append(nats[nat.ExternalIP], nat)
		}
	}
	for address, rows := range nats {
		if len(rows) > 1 && slices.ContainsFunc(rows, func(row any) bool { return ownerOf(row).Kind() == topology.KindPod }) {
			found = append(found, v.about(rows, "floating address %s has %d translations", address, len(rows)))
		}
	}
	return found
}

// floatingWhereHeld compares routes and translations with the FloatingIPs of pods with a port.
func floatingWhereHeld(v *view) []Violation {
	want, have := map[string]bool{}, v.floatingRows() // "pod/demo/web-0 192.0.2.7 rtos-n1", "pod/demo/web-0 192.0.2.8 GR_n1"
	routers := map[string]bool{}
	for _, router := range v.routers {
		routers[router.Name] = true
	}
	for key, pod := range v.pods {
		if len(v.owned[key]) != 1 {
			continue
		}
		for _, address := range v.heldBy(pod, networkv1alpha1.LocationOverlay) {
			want[fmt.Sprint(key, " ", address, " ", names.RouterToSwitch(pod.Spec.NodeName))] = true
		}
		router := names.GatewayRouter(pod.Spec.NodeName)
		for _, address := range v.heldBy(pod, networkv1alpha1.LocationNAT) {
			same := func(element ovnexpr.PortAddress) bool {
				return slices.ContainsFunc(element.Addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() })
			}
			if routers[router] && slices.ContainsFunc(addressesOf(v.owned[key][0]), same) {
				want[fmt.Sprint(key, " ", address, " ", router)] = true
			}
		}
	}
	return append(differing("way to a floating address (owner, address, place)", want, have), v.underlayWithoutPort()...)
}

// underlayWithoutPort finds held addresses of Underlay pools that none of the pod's ports on the pool's Network has.
func (v *view) underlayWithoutPort() (found []Violation) {
	for _, pod := range v.pods {
		for _, ip := range v.floating[string(pod.UID)] {
			pool := v.pools[ip.Spec.Pool]
			ports := slices.DeleteFunc(slices.Clone(v.owned[topology.PodPortsKey(pod.Namespace, pod.Name)]),
				func(port *nbdb.LogicalSwitchPort) bool { return networkOf(port) != pool.Network })
			has := func(port *nbdb.LogicalSwitchPort) bool { return hasAddress(port, ip) }
			if pool.Location != networkv1alpha1.LocationUnderlay || len(ports) == 0 || slices.ContainsFunc(ports, has) {
				continue
			}
			found = append(found, v.about(rowsAny(ports), "no port of pod %s/%s on Network %s has its floating address %s",
				pod.Namespace, pod.Name, pool.Network, ip.Spec.Address).of(nameOf(pod), "FloatingIP "+ip.Name))
		}
	}
	return found
}

// hasAddress reports whether a port has the address of a FloatingIP.
func hasAddress(port *nbdb.LogicalSwitchPort, ip *networkv1alpha1.FloatingIP) bool {
	address, err := netip.ParseAddr(string(ip.Spec.Address))
	return err == nil && slices.ContainsFunc(addressesOf(port), func(e ovnexpr.PortAddress) bool {
		return slices.Contains(e.Addresses, address)
	})
}

// floatingRows lists the routes and translations that belong to pods, on the routers that have them.
func (v *view) floatingRows() map[string]bool {
	have := map[string]bool{}
	routes := byUUID(rowsIn[nbdb.LogicalRouterStaticRoute](v.Northbound, nbdb.LogicalRouterStaticRouteTable))
	nats := byUUID(rowsIn[nbdb.NAT](v.Northbound, nbdb.NATTable))
	for _, router := range v.routers {
		for _, id := range router.StaticRoutes {
			if route := routes[id]; route != nil && ownerOf(route).Kind() == topology.KindPod && route.OutputPort != nil &&
				!topology.IsExternal(route) {
				address, _, _ := strings.Cut(route.IPPrefix, "/")
				have[fmt.Sprint(ownerOf(route), " ", address, " ", *route.OutputPort)] = true
			}
		}
		for _, id := range router.Nat {
			if nat := nats[id]; nat != nil && nat.Type == nbdb.NATTypeDNATAndSNAT && ownerOf(nat).Kind() == topology.KindPod {
				have[fmt.Sprint(ownerOf(nat), " ", nat.ExternalIP, " ", router.Name)] = true
			}
		}
	}
	return have
}
