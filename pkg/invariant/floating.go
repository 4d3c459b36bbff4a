package invariant

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// floatingInvariants returns the invariants of floating addresses.
func floatingInvariants() []Invariant {
	return []Invariant{
		{"FloatingHeldByOne", "No floating address is on two ports, translations or FloatingIPs.", floatingHeldByOne},
		{"FloatingWhereHeld", "A floating address is routed or translated exactly where its pod is.", floatingWhereHeld},
	}
}

// heldBy returns the floating addresses of a pod in pools of a location, from the FloatingIPs.
func (v *view) heldBy(pod *corev1.Pod, location networkv1alpha1.IPPoolLocation) (held []netip.Addr) {
	for _, ip := range v.floating[string(pod.UID)] {
		if address, err := netip.ParseAddr(string(ip.Spec.Address)); err == nil && v.pools[ip.Spec.Pool] == location &&
			ip.Spec.Holder.Namespace == pod.Namespace && ip.Spec.Holder.Pod == pod.Name {
			held = append(held, address)
		}
	}
	return held
}

// awaitsFloating reports whether a pod requests floating addresses and holds none yet.
func (v *view) awaitsFloating(pod *corev1.Pod) bool {
	_, requests, err := networkv1alpha1.ParseFloatingRequest(pod.Annotations)
	return err != nil || requests && len(v.floating[string(pod.UID)]) == 0
}

// floatingHeldByOne compares the marks of ports, the translations and the FloatingIPs, each kind by itself, and the
// addresses of a pool with all ports.
func floatingHeldByOne(v *view) (found []Violation) {
	holders := map[netip.Addr][]any{}
	for _, port := range v.ports {
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
	return differing("way to a floating address (owner, address, place)", want, have)
}

// floatingRows lists the routes and translations that belong to pods, on the routers that have them.
func (v *view) floatingRows() map[string]bool {
	have := map[string]bool{}
	routes := byUUID(rowsIn[nbdb.LogicalRouterStaticRoute](v.Northbound, nbdb.LogicalRouterStaticRouteTable))
	nats := byUUID(rowsIn[nbdb.NAT](v.Northbound, nbdb.NATTable))
	for _, router := range v.routers {
		for _, id := range router.StaticRoutes {
			if route := routes[id]; route != nil && ownerOf(route).Kind() == topology.KindPod && route.OutputPort != nil {
				address, _, _ := strings.Cut(route.IPPrefix, "/")
				have[fmt.Sprint(ownerOf(route), " ", address, " ", *route.OutputPort)] = true
			}
		}
		for _, id := range router.Nat {
			if nat := nats[id]; nat != nil && ownerOf(nat).Kind() == topology.KindPod {
				have[fmt.Sprint(ownerOf(nat), " ", nat.ExternalIP, " ", router.Name)] = true
			}
		}
	}
	return have
}
