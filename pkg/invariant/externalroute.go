package invariant

import (
	"fmt"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// routeInvariants returns the invariants of ExternalRoutes.
func routeInvariants() []Invariant {
	return []Invariant{
		{"RoutesOfSelected", "Exactly the pods that an ExternalRoute selects have routes to its routers on the segment of their nodes.",
			routesOfSelected},
		{"RoutedNotTranslated", "The translation of a node leaves out exactly its pods with routers of their own.", routedNotTranslated},
	}
}

// routed lists the addresses of pods that have routers of their own, on nodes with a gateway router: "pod/demo/web-0 10.244.0.5 192.0.2.9
// GR_n1", and the set for each: "routed_n1_0f_IPv4 10.244.0.5".
func (v *view) routed() (routes, inSets map[string]bool) {
	routes, inSets = map[string]bool{}, map[string]bool{}
	for key, pod := range v.pods {
		router, labels := names.GatewayRouter(pod.Spec.NodeName), v.Namespaces[pod.Namespace]
		source := facts.SelectEgress(v.EgressIPs, v.Services, pod.Namespace, labels, pod.Labels)
		if len(v.owned[key]) != 1 || !v.hasRouter(router) || source != "" {
			continue
		}
		hops := facts.NextHopsOf(v.ExternalRoutes, labels, pod.Labels)
		if nn := v.networks[pod.Spec.NodeName]; nn != nil {
			hops = facts.Reachable(hops, nn)
		}
		for _, element := range addressesOf(v.owned[key][0]) {
			for _, address := range element.Addresses {
				for _, hop := range hops {
					if hop.Address.Is4() == address.Is4() {
						routes[fmt.Sprint(key, " ", address, " ", hop.Address, " ", router)] = true
						inSets[names.Routed(pod.Spec.NodeName, names.Family(address))+" "+address.String()] = true
					}
				}
			}
		}
	}
	return routes, inSets
}

func (v *view) hasRouter(name string) bool {
	for _, router := range v.routers {
		if router.Name == name {
			return true
		}
	}
	return false
}

// routesOfSelected compares the routes of pods on the routers that have them.
func routesOfSelected(v *view) []Violation {
	have := map[string]bool{}
	routes := byUUID(rowsIn[nbdb.LogicalRouterStaticRoute](v.Northbound, nbdb.LogicalRouterStaticRouteTable))
	for _, router := range v.routers {
		for _, id := range router.StaticRoutes {
			if route := routes[id]; route != nil && ownerOf(route).Kind() == topology.KindPod && topology.IsExternal(route) {
				address, _, _ := strings.Cut(route.IPPrefix, "/")
				have[fmt.Sprint(ownerOf(route), " ", address, " ", route.Nexthop, " ", router.Name)] = true
			}
		}
	}
	want, _ := v.routed()
	return differing("route to a router (pod, address, next hop, on)", want, have)
}

// routedNotTranslated compares the sets that translations leave out. A node whose gateway is not known yet may lack its sets.
func routedNotTranslated(v *view) []Violation {
	have := map[string]bool{}
	sets := map[string]bool{}
	for _, set := range rowsIn[nbdb.AddressSet](v.Northbound, nbdb.AddressSetTable) {
		if ownerOf(set).Kind() == topology.KindGateway && strings.HasPrefix(set.Name, names.AllRouted("")) {
			sets[set.Name] = true
			for _, address := range set.Addresses {
				have[set.Name+" "+address] = true
			}
		}
	}
	_, want := v.routed()
	for text := range want {
		if set, _, _ := strings.Cut(text, " "); !sets[set] {
			delete(want, text)
		}
	}
	return differing("address in the set (set, address)", want, have)
}
