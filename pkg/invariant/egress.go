package invariant

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// egressInvariants returns the invariants of EgressIPs.
func egressInvariants() []Invariant {
	return []Invariant{
		{"EgressWhereCarried", "An egress IP is translated exactly where its status says.", egressWhereCarried},
		{"EgressOfSelected", "An EgressIP's set has exactly the addresses of its pods.", egressOfSelected},
	}
}

// elsewhere stands for the nodes of other zones.
const elsewhere = "(elsewhere)"

// egressWhereCarried compares the routers' rows with the status, for nodes that have a router.
func egressWhereCarried(v *view) (found []Violation) {
	nats, policies := byUUID(rowsIn[nbdb.NAT](v.Northbound, nbdb.NATTable)),
		byUUID(rowsIn[nbdb.LogicalRouterPolicy](v.Northbound, nbdb.LogicalRouterPolicyTable))
	nodes := map[string]string{} // join address -> node
	for name, nn := range v.networks {
		for _, join := range nn.Spec.JoinAddresses {
			if prefix, err := join.Prefix(); err == nil {
				nodes[prefix.Addr().String()] = name
			}
		}
	}
	routers := map[string]bool{}
	translates, sends := map[string]bool{}, map[string]bool{} // "egressip/a 192.0.2.7 n1", "egressip/a IPv4 n1"
	for _, router := range v.routers {
		node, gateway := strings.CutPrefix(router.Name, names.GatewayRouter(""))
		if !gateway {
			node, gateway = strings.CutPrefix(router.Name, names.EgressRouter(""))
		}
		routers[node] = gateway
		for _, id := range router.Nat {
			if nat := nats[id]; nat != nil && ownerOf(nat).Kind() == topology.KindEgressIP &&
				!strings.Contains(nat.Match, names.Inside("")) {
				translates[fmt.Sprint(ownerOf(nat), " ", nat.ExternalIP, " ", node)] = true
			}
		}
		for _, id := range router.Policies {
			if policy := policies[id]; policy != nil && ownerOf(policy).Kind() == topology.KindEgressIP {
				for _, hop := range policy.Nexthops {
					to := nodes[hop]
					if to == "" && len(v.NodesElsewhere) > 0 {
						to = elsewhere
					}
					sends[fmt.Sprint(ownerOf(policy), " ", to, " ", strings.Contains(hop, ":"))] = true
				}
			}
		}
	}
	wantTranslates, wantSends := map[string]bool{}, map[string]bool{}
	for key, e := range v.egress {
		for _, item := range e.Status.Items {
			if v.NodesElsewhere[item.Node] && !v.withoutZones() {
				wantSends[fmt.Sprint(key, " ", elsewhere, " ", strings.Contains(string(item.EgressIP), ":"))] = true
			}
			if routers[item.Node] {
				wantTranslates[fmt.Sprint(key, " ", item.EgressIP, " ", item.Node)] = true
				wantSends[fmt.Sprint(key, " ", item.Node, " ", strings.Contains(string(item.EgressIP), ":"))] = true
			}
		}
	}
	found = append(found, differing("translation", wantTranslates, translates)...)
	return append(found, differing("way (EgressIP, node, IPv6)", wantSends, sends)...)
}

// differing returns a violation for each element that is missing or superfluous.
func differing(what string, want, have map[string]bool) (found []Violation) {
	for _, text := range slices.Sorted(maps.Keys(want)) {
		if !have[text] {
			found = append(found, Violation{Message: fmt.Sprintf("the %s %s is missing", what, text)})
		}
	}
	for _, text := range slices.Sorted(maps.Keys(have)) {
		if !want[text] {
			found = append(found, Violation{Message: fmt.Sprintf("the %s %s should not be there", what, text)})
		}
	}
	return found
}

// egressOfSelected compares the sets with the ports of the selected pods.
func egressOfSelected(v *view) (found []Violation) {
	want := map[string]bool{} // "egressip/a 10.244.0.5"
	for key, pod := range v.pods {
		name := facts.SelectEgressIP(v.EgressIPs, v.Namespaces[pod.Namespace], pod.Labels)
		if name == "" || len(v.owned[key]) != 1 || len(v.owned[key][0].Addresses) != 1 {
			continue
		}
		address, err := ovnexpr.ParsePortAddress(v.owned[key][0].Addresses[0])
		if err != nil {
			continue
		}
		translated, _ := ovnexpr.ParseAddresses(v.owned[key][0].ExternalIDs, ovnexpr.TranslatedKey)
		for _, a := range address.Addresses {
			replaced := slices.ContainsFunc(translated, func(t netip.Addr) bool { return t.Is4() == a.Is4() })
			if !replaced && hasFamily(v.egress[topology.EgressIPKey(name)], a.Is4()) {
				want[fmt.Sprint(topology.EgressIPKey(name), " ", a)] = true
			}
		}
	}
	for _, pod := range v.away {
		name := facts.SelectEgressIP(v.EgressIPs, v.Namespaces[pod.Namespace], pod.Labels)
		for _, a := range statusAddresses(pod) {
			if name != "" && hasFamily(v.egress[topology.EgressIPKey(name)], a.Is4()) {
				want[fmt.Sprint(topology.EgressIPKey(name), " ", a)] = true
			}
		}
	}
	have := map[string]bool{}
	for _, set := range rowsIn[nbdb.AddressSet](v.Northbound, nbdb.AddressSetTable) {
		if owner := ownerOf(set); owner.Kind() == topology.KindEgressIP && v.egress[owner] != nil {
			for _, a := range set.Addresses {
				have[fmt.Sprint(owner, " ", a)] = true
			}
		}
	}
	return differing("address in the set (EgressIP, address)", want, have)
}

func hasFamily(e *networkv1alpha1.EgressIP, is4 bool) bool {
	return slices.ContainsFunc(facts.EgressAddressesInUse(e), func(a netip.Addr) bool { return a.Is4() == is4 })
}
