package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/names"
)

// NftTable is a table of nftables(8) of family inet.
type NftTable struct {
	Chains []NftChain
	Sets   []NftSet
}

// NftChain is a base chain.
type NftChain struct {
	Name, Type, Hook string
	Priority         string // "dstnat-10"
	Rules            []string
}

// NftSet is a set, or a map where Value says of what type its values are.
type NftSet struct {
	Name     string
	Key      string // "ipv4_addr . inet_proto . inet_service"
	Value    string
	Interval bool
	Elements map[string]string // "192.0.2.1 . tcp . 80" -> value; empty in a set
}

// HostRules are the facts of what the host translates.
type HostRules struct {
	Mode networkv1alpha1.GatewayMode
	SNAT networkv1alpha1.SNATPolicy
	// Apart says that the host's addresses are not the gateway router's, which has a link of its own: nobody else serves clients there.
	Apart bool
	// Addresses are the node's, at which node ports are.
	Addresses []netip.Addr
	// Pods are the networks of all pods.
	Pods      []netip.Prefix
	Frontends []Frontend
}

// nftFamily has the words of nft for one family.
type nftFamily struct {
	suffix, ip, address string
	is4                 bool
	localBackend        netip.Addr
}

func nftFamilies() []nftFamily {
	backends := ipam.LocalNodePorts()
	return []nftFamily{{"4", "ip", "ipv4_addr", true, backends[0]}, {"6", "ip6", "ipv6_addr", false, backends[1]}}
}

// Table computes the host's table. What the host itself sends to a service's address outside goes to the cluster IP in both modes, by the
// management port. For a service of which the host has an endpoint itself, the host chooses among all. In Local mode the host does for others what in
// Shared mode the gateway router does:
//
//	outside ─▶ prerouting: DNAT to the cluster IP ─▶ ovn-k8s-mp0 with its address: answers come back
//	           or, for externalTrafficPolicy Local, to ipam.LocalNodePorts with the client's address
//	pods ─▶ ovn-k8s-mp0 ─▶ any other link, with its address unless SNAT is None
//
// Apart from the gateway router it does the first of these, and hides all clients: pods answer by the router.
func (h HostRules) Table() NftTable {
	isLocal := h.Mode == networkv1alpha1.GatewayLocal
	output := NftChain{Name: "output", Type: "nat", Hook: "output", Priority: "dstnat"}
	filter := NftChain{Name: "filter", Type: "filter", Hook: "prerouting", Priority: "dstnat-10"}
	prerouting := NftChain{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: "dstnat"}
	postrouting := NftChain{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: "srcnat"}
	var table NftTable
	// Answers cannot come to a source of the host's own.
	postrouting.Rules = []string{fmt.Sprintf("oifname %q ip saddr %s masquerade", names.ManagementInterface, loopback)}
	for _, f := range nftFamilies() {
		table.Sets = append(table.Sets, h.sets(f, isLocal)...)
		inside, outside := h.spread(f)
		output.Rules = append(append(output.Rules, inside...), f.translate("cluster"))
		prerouting.Rules = append(prerouting.Rules, outside...)
		if h.Apart {
			// Pods call their node's own addresses as from inside the cluster.
			prerouting.Rules = append(prerouting.Rules, fmt.Sprintf("iifname %q %s", names.ManagementInterface, f.translate("cluster")))
			postrouting.Rules = append(postrouting.Rules, fmt.Sprintf("oifname %q %s daddr != %s ct status dnat fib saddr type != local masquerade", names.ManagementInterface, f.ip, f.localBackend))
		}
		prerouting.Rules = append(prerouting.Rules, f.translate("outside"))
		filter.Rules = append(filter.Rules, f.filter()...)
		postrouting.Rules = append(postrouting.Rules, fmt.Sprintf("oifname %q ct status dnat %s @pods%s accept", names.ManagementInterface, f.destination(), f.suffix))
		postrouting.Rules = append(postrouting.Rules, fmt.Sprintf("oifname %q %s daddr != %s ct status dnat masquerade", names.ManagementInterface, f.ip, f.localBackend))
		// Answers of an endpoint elsewhere must come back through this host.
		postrouting.Rules = append(postrouting.Rules, fmt.Sprintf("oifname != %q ct status dnat %s @beyond%s masquerade", names.ManagementInterface, f.destination(), f.suffix))
		if isLocal && h.SNAT != networkv1alpha1.SNATNone {
			postrouting.Rules = append(postrouting.Rules, h.masquerade(f)...)
		}
	}
	table.Chains = []NftChain{guard(), output, prerouting, postrouting}
	if isLocal || h.Apart {
		table.Chains = append(table.Chains, filter)
	}
	return table
}

// spread are the rules of one family for frontends of which the host chooses the endpoint: for what it sends itself, and for what comes from
// outside. They come before the maps, which know Own.
func (h HostRules) spread(f nftFamily) (inside, outside []string) {
	taken := map[string]bool{}
	for _, frontend := range h.Frontends {
		if frontend.ClusterIP.Is4() != f.is4 {
			continue
		}
		for _, address := range frontend.At(h.Addresses) {
			match := fmt.Sprintf("%s daddr %s %s dport %d", f.ip, address, strings.ToLower(string(frontend.Protocol)), frontend.Port)
			first := !taken[match]
			taken[match] = true
			if !first || len(frontend.Spread) == 0 {
				continue
			}
			rule := fmt.Sprintf("%s dnat %s to numgen random mod %d map { %s }", match, f.ip, len(frontend.Spread), numbered(frontend.Spread))
			inside = append(inside, rule)
			if frontend.SpreadsOutside() {
				outside = append(outside, rule)
			}
		}
	}
	return inside, outside
}

// numbered lists endpoints as the elements of a map: "0 : 192.0.2.1 . 80, 1 : 192.0.2.2 . 80".
func numbered(endpoints []netip.AddrPort) string {
	var elements []string
	for i, e := range endpoints {
		elements = append(elements, fmt.Sprintf("%d : %s", i, nftTarget(e)))
	}
	return strings.Join(elements, ", ")
}

// SpreadsOutside reports whether what comes from outside may go to endpoints elsewhere by way of the host, which takes hostnet.Forward.
func (f Frontend) SpreadsOutside() bool {
	return len(f.Spread) > 0 && !f.Local && !f.Inside && !f.Address.IsLoopback()
}

// loopback are the addresses that the kernel keeps within the host unless route_localnet is set for a link, as hostnet.RouteLoopback does.
const loopback = "127.0.0.0/8"

// guard drops what comes from the cluster as if from within the host, or for it: with route_localnet the kernel would take it.
func guard() NftChain {
	chain := NftChain{Name: "guard", Type: "filter", Hook: "prerouting", Priority: "raw"}
	for _, side := range []string{"saddr", "daddr"} {
		chain.Rules = append(chain.Rules, fmt.Sprintf("iifname %q ip %s %s drop", names.ManagementInterface, side, loopback))
	}
	return chain
}

// Loopback says that something is reached at an address of 127.0.0.0/8, which takes hostnet.RouteLoopback.
func (h HostRules) Loopback() bool {
	return slices.ContainsFunc(h.Frontends, func(f Frontend) bool { return f.Address.IsLoopback() })
}

// UDP says where datagrams to an address and port of the node's go, in words that differ when that differs.
func (h HostRules) UDP() map[netip.AddrPort]string {
	targets := map[netip.AddrPort]string{}
	for _, f := range h.Frontends {
		if f.Protocol != corev1.ProtocolUDP || f.Inside {
			continue
		}
		for _, address := range f.At(h.Addresses) {
			at := netip.AddrPortFrom(address, f.Port)
			if _, taken := targets[at]; !taken {
				targets[at] = fmt.Sprint(h.Mode, h.Apart, f.clusterBackend(h.Mode == networkv1alpha1.GatewayLocal), f.Local, f.HasLocal, f.Spread)
			}
		}
	}
	return targets
}

// Changed lists what is in one alone of two maps, or differs.
func Changed(former, present map[netip.AddrPort]string) []netip.AddrPort {
	var changed []netip.AddrPort
	for at, target := range former {
		if present[at] != target {
			changed = append(changed, at)
		}
	}
	for at := range present {
		if _, ok := former[at]; !ok {
			changed = append(changed, at)
		}
	}
	slices.SortFunc(changed, netip.AddrPort.Compare)
	return changed
}

// destination matches a packet's, in maps and sets of frontends.
func (f nftFamily) destination() string { return f.ip + " daddr . meta l4proto . th dport" }

func (f nftFamily) translate(set string) string {
	return fmt.Sprintf("dnat %s to %s map @%s%s", f.ip, f.destination(), set, f.suffix)
}

// filter drops connections of clients that may not come, and those for which this node has no endpoint.
func (f nftFamily) filter() []string {
	return []string{
		fmt.Sprintf("ct state new %s @refused%s drop", f.destination(), f.suffix),
		fmt.Sprintf("ct state new %s saddr . %s @allowed%s accept", f.ip, f.destination(), f.suffix),
		fmt.Sprintf("ct state new %s @limited%s drop", f.destination(), f.suffix),
	}
}

func (h HostRules) masquerade(f nftFamily) []string {
	var rules []string
	for _, network := range h.Pods {
		if network.Addr().Is4() == f.is4 {
			rules = append(rules, fmt.Sprintf("%s saddr %s oifname != %q masquerade", f.ip, network, names.ManagementInterface))
		}
	}
	return rules
}

// serves reports whether the host has something to do with what comes from outside for a frontend. Apart from the router it cannot keep a
// client's address, as policy Local wants.
func (h HostRules) serves(f Frontend) bool {
	return h.Mode == networkv1alpha1.GatewayLocal || f.Own.IsValid() || h.Apart && !f.Local
}

// sets are those of one family; outside of Local mode only the host's own connections are translated, and those to its own endpoints.
func (h HostRules) sets(f nftFamily, isLocal bool) []NftSet {
	key, value := f.address+" . inet_proto . inet_service", f.address+" . inet_service"
	cluster := NftSet{Name: "cluster" + f.suffix, Key: key, Value: value, Elements: map[string]string{}}
	outside := NftSet{Name: "outside" + f.suffix, Key: key, Value: value, Elements: map[string]string{}}
	refused := NftSet{Name: "refused" + f.suffix, Key: key, Elements: map[string]string{}}
	limited := NftSet{Name: "limited" + f.suffix, Key: key, Elements: map[string]string{}}
	pods := NftSet{Name: "pods" + f.suffix, Key: key, Elements: map[string]string{}}
	beyond := NftSet{Name: "beyond" + f.suffix, Key: key, Elements: map[string]string{}}
	allowed := NftSet{Name: "allowed" + f.suffix, Key: f.address + " . " + key, Interval: true, Elements: map[string]string{}}
	for _, frontend := range h.Frontends {
		if frontend.ClusterIP.Is4() != f.is4 {
			continue
		}
		for _, address := range frontend.At(h.Addresses) {
			at := fmt.Sprintf("%s . %s . %d", address, strings.ToLower(string(frontend.Protocol)), frontend.Port)
			if _, taken := cluster.Elements[at]; taken {
				continue // of two services that ask for one address and port, the first has it
			}
			target := frontend.direct(isLocal)
			if frontend.Inside && !target.IsValid() {
				continue
			}
			cluster.Elements[at] = frontend.clusterBackend(isLocal)
			for _, target := range append([]netip.AddrPort{target}, frontend.Spread...) {
				if target.IsValid() && target != frontend.Own {
					beyond.Elements[fmt.Sprintf("%s . %s . %d", target.Addr(), strings.ToLower(string(frontend.Protocol)), target.Port())] = ""
				}
			}
			if frontend.Pod {
				pods.Elements[fmt.Sprintf("%s . %s . %d", frontend.ClusterIP, strings.ToLower(string(frontend.Protocol)), frontend.ClusterPort)] = ""
			}
			if frontend.Inside || address.IsLoopback() || !h.serves(frontend) {
				continue
			}
			outside.Elements[at] = frontend.backend(f, isLocal)
			if !isLocal && !h.Apart {
				continue
			}
			if frontend.Local && !frontend.HasLocal {
				refused.Elements[at] = ""
			}
			if frontend.Sources == nil {
				continue
			}
			limited.Elements[at] = ""
			for _, source := range frontend.Sources {
				if source.Addr().Is4() == f.is4 {
					allowed.Elements[nftPrefix(source)+" . "+at] = ""
				}
			}
		}
	}
	return []NftSet{cluster, outside, refused, limited, allowed, pods, beyond}
}

// backend is where the host sends what comes from outside. A service without a node port has no address for the endpoints of one node.
func (f Frontend) backend(family nftFamily, isLocal bool) string {
	if f.Local && f.NodePort != 0 && !f.direct(isLocal).IsValid() {
		return nftTarget(netip.AddrPortFrom(family.localBackend, f.NodePort))
	}
	return f.clusterBackend(isLocal)
}

// clusterBackend is where the host sends what it may send to any endpoint.
func (f Frontend) clusterBackend(isLocal bool) string {
	if target := f.direct(isLocal); target.IsValid() {
		return nftTarget(target)
	}
	return nftTarget(netip.AddrPortFrom(f.ClusterIP, f.ClusterPort))
}

// direct is an endpoint that the host sends to past OVN; the zero AddrPort: there is none.
func (f Frontend) direct(isLocal bool) netip.AddrPort {
	if f.Own.IsValid() || !isLocal {
		return f.Own
	}
	return f.Beyond
}

func nftTarget(a netip.AddrPort) string { return fmt.Sprintf("%s . %d", a.Addr(), a.Port()) }

// nftPrefix writes a prefix as nft prints it.
func nftPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
