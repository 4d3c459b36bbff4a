package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ports"
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

func (c *NftChain) add(format string, args ...any) {
	c.Rules = append(c.Rules, fmt.Sprintf(format, args...))
}

// NftSet is a set, or a map if Value has the type of its values.
type NftSet struct {
	Name     string
	Key      string // "ipv4_addr . inet_proto . inet_service"
	Value    string
	Interval bool
	Elements map[string]string // "192.0.2.1 . tcp . 80" -> value; empty in a set
}

// HostRules are the facts from which the host's nftables table is computed.
type HostRules struct {
	Mode networkv1alpha1.GatewayMode
	SNAT networkv1alpha1.SNATPolicy
	// Addresses are the node's.
	Addresses Addresses
	// Pods are the networks of all pods, Services the service networks.
	Pods, Services []netip.Prefix
	// Subnets are the node's own pod subnets.
	Subnets []netip.Prefix
	// Router is the MAC of the cluster's router on the node's switch.
	Router string
	// Egress reports whether the node's gateway router leads to the host, in Local mode.
	Egress bool
	// Forwards reports whether the host forwards packets of clients in Shared mode.
	Forwards bool
	// Reserved are destinations that are never translated, regardless of Frontends.
	Reserved  reserved.Table
	Frontends []Frontend
}

// nftFamily has the keywords of nft for one IP family.
type nftFamily struct {
	suffix, ip, address string
	is4                 bool
	localBackend        netip.Addr
}

func nftFamilies() []nftFamily {
	backends := ipam.LocalNodePorts()
	return []nftFamily{{"4", "ip", "ipv4_addr", true, backends[0]}, {"6", "ip6", "ipv6_addr", false, backends[1]}}
}

// Table computes the host's table. In both modes the host's own connections to a service's outside address go to the
// cluster IP, through the management port. If the host itself has an endpoint of the service, it chooses among all
// endpoints. In Local mode the host also does for clients outside what the gateway router does in Shared mode:
//
//	outside ─▶ prerouting: DNAT to the cluster IP ─▶ ovn-k8s-mp0 with its address: replies come back
//	           or, for externalTrafficPolicy Local, to ipam.LocalNodePorts with the client's address
//	pods ─▶ ovn-k8s-mp0 ─▶ any other link, with its address, except with SNAT None
//
// In Shared mode the host does only the first step, for clients that reach it and not the gateway router: at the node's other
// addresses, and over other links. It hides these clients, because pods reply through the router. So it serves no frontend
// with policy Local, unless the endpoint is its own.
func (h HostRules) Table() NftTable {
	isLocal := h.Mode == networkv1alpha1.GatewayLocal
	output := NftChain{Name: "output", Type: "nat", Hook: "output", Priority: "dstnat"}
	filter := NftChain{Name: "filter", Type: "filter", Hook: "prerouting", Priority: "dstnat-10"}
	prerouting := NftChain{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: "dstnat"}
	postrouting := NftChain{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: "srcnat"}
	filter.add("iifname %q accept", names.ManagementInterface) // pods are clients inside the cluster
	var table NftTable
	// Replies cannot reach a loopback source.
	postrouting.Rules = []string{fmt.Sprintf("oifname %q ip saddr %s masquerade", names.ManagementInterface, loopback)}
	table.Sets = append(table.Sets, h.reservedPorts())
	spared := spare()
	output.Rules, prerouting.Rules = append(output.Rules, spared...), append(prerouting.Rules, spared...)
	for _, f := range nftFamilies() {
		table.Sets = append(table.Sets, h.sets(f, isLocal)...)
		table.Sets = append(table.Sets, h.reservedSets(f)...)
		inside, outside := h.spread(f)
		output.Rules = append(append(output.Rules, inside...), f.translate("cluster"))
		// Pods connect to their node's own addresses as clients inside the cluster.
		for _, rule := range append(inside, f.translate("cluster")) {
			prerouting.add("iifname %q %s", names.ManagementInterface, rule)
		}
		prerouting.Rules = append(prerouting.Rules, outside...)
		judged := h.judged(f)
		postrouting.Rules = append(postrouting.Rules, h.hide(f, isLocal, judged)...)
		prerouting.Rules = append(prerouting.Rules, f.translate("outside"))
		filter.Rules = append(filter.Rules, f.filter()...)
		postrouting.add("oifname %q ct status dnat fib saddr type != local %s @pods%s accept",
			names.ManagementInterface, f.destination(), f.suffix)
		if isLocal { // in Shared mode, hide has them
			postrouting.Rules = append(postrouting.Rules, judged...)
		}
		postrouting.add("oifname %q %s daddr != %s ct status dnat masquerade", names.ManagementInterface, f.ip, f.localBackend)
		// Replies of an endpoint elsewhere must come back through this host.
		postrouting.add("oifname != %q ct status dnat %s @beyond%s masquerade",
			names.ManagementInterface, f.destination(), f.suffix)
		if isLocal && h.SNAT != networkv1alpha1.SNATNone {
			postrouting.Rules = append(postrouting.Rules, h.masquerade(f)...)
		}
	}
	table.Chains = []NftChain{guard(), h.forward(), output, prerouting, postrouting, filter}
	return table
}

// judged returns the rules of one family that hide clients from the node's own pods behind an address of the node. The management port's
// address would pass the pods' policies, as the host's own connections do.
func (h HostRules) judged(f nftFamily) (rules []string) {
	address, ok := h.Addresses.seen(f.is4)
	for _, subnet := range h.Subnets {
		if ok && subnet.Addr().Is4() == f.is4 {
			rules = append(rules, fmt.Sprintf("oifname %q %s daddr %s ct status dnat fib saddr type != local snat %[2]s to %[4]s",
				names.ManagementInterface, f.ip, subnet, address))
		}
	}
	return rules
}

// hide returns the rules of one family that hide clients from pods that would not reply through the host: in Shared mode all
// clients but the host itself, in Local mode the node's other pods.
func (h HostRules) hide(f nftFamily, isLocal bool, judged []string) []string {
	to := fmt.Sprintf("oifname %q %s daddr != %s ct status dnat", names.ManagementInterface, f.ip, f.localBackend)
	if !isLocal {
		return append(slices.Clone(judged), to+" fib saddr type != local masquerade")
	}
	var rules []string
	for _, network := range h.Pods {
		if network.Addr().Is4() != f.is4 {
			continue
		}
		from := fmt.Sprintf("%s saddr %s", f.ip, network)
		for _, rule := range judged {
			rules = append(rules, from+" "+rule)
		}
		rules = append(rules, to+" "+from+" masquerade")
	}
	return rules
}

// spread returns the rules of one family for frontends with several endpoints among which the host chooses: for the host's own
// connections, and for connections from outside. They come before the maps, which have the first endpoint.
func (h HostRules) spread(f nftFamily) (inside, outside []string) {
	taken := map[string]bool{}
	for _, frontend := range h.Frontends {
		if frontend.ClusterIP.Is4() != f.is4 {
			continue
		}
		for _, address := range frontend.At(h.Addresses.Ports) {
			match := fmt.Sprintf("%s daddr %s %s dport %d", f.ip, address, strings.ToLower(string(frontend.Protocol)), frontend.Port)
			if taken[match] {
				continue
			}
			taken[match] = true
			if len(frontend.Inside) > 1 {
				inside = append(inside, f.choose(match, frontend.Inside)...)
			}
			if len(frontend.Outside) > 1 {
				outside = append(outside, f.choose(match, frontend.Outside)...)
			}
		}
	}
	return inside, outside
}

// choose returns a rule for each endpoint. Each takes its share of what the rules before it leave. A map in one rule would be shorter, but
// nft up to 1.0.6 crashes on such a map of nft 1.1: a host's own nft must be able to read the table.
func (f nftFamily) choose(match string, endpoints []netip.AddrPort) (rules []string) {
	for i, e := range endpoints {
		share := ""
		if left := len(endpoints) - i; left > 1 {
			share = fmt.Sprintf("numgen random mod %d 0 ", left)
		}
		rules = append(rules, fmt.Sprintf("%s %sdnat %s to %s", match, share, f.ip, e))
	}
	return rules
}

// spare returns the rules that exempt reserved destinations from translation. They come before all others. A reserved
// port is reserved at every address of this host, including its loopback addresses.
func spare() []string {
	rules := []string{"fib daddr type local meta l4proto . th dport @reservedports accept"}
	for _, f := range nftFamilies() {
		rules = append(rules, fmt.Sprintf("%s daddr @nodes%s meta l4proto . th dport @reservedports accept", f.ip, f.suffix),
			fmt.Sprintf("%s @reserved%s accept", f.destination(), f.suffix))
	}
	return rules
}

// reservedPorts returns the set of ports that are reserved on every node.
func (h HostRules) reservedPorts() NftSet {
	set := NftSet{Name: "reservedports", Key: "inet_proto . inet_service", Elements: map[string]string{}}
	for _, p := range h.Reserved.Ports {
		set.Elements[fmt.Sprintf("%s . %d", p.Protocol, p.Number)] = ""
	}
	return set
}

// reservedSets returns two sets of one family: the addresses at which ports are reserved, and the reserved destinations.
func (h HostRules) reservedSets(f nftFamily) []NftSet {
	nodes := NftSet{Name: "nodes" + f.suffix, Key: f.address, Elements: map[string]string{}}
	for address := range h.Reserved.Nodes {
		if address.Is4() == f.is4 {
			nodes.Elements[address.String()] = ""
		}
	}
	key := f.address + " . inet_proto . inet_service"
	destinations := NftSet{Name: "reserved" + f.suffix, Key: key, Elements: map[string]string{}}
	for _, d := range h.Reserved.Destinations {
		if d.Address.Is4() == f.is4 {
			nodes.Elements[d.Address.String()], destinations.Elements[endpoint(d)] = "", ""
		}
	}
	return []NftSet{nodes, destinations}
}

// ForwardsOutside reports whether connections from outside may go through the host to endpoints elsewhere, which requires
// hostnet.Forward. own are the node's addresses.
func (f Frontend) ForwardsOutside(own []netip.Addr) bool {
	return f.ByHost && slices.ContainsFunc(f.Outside, func(e netip.AddrPort) bool { return !slices.Contains(own, e.Addr()) })
}

// loopback are the addresses that the kernel keeps within the host, unless hostnet.RouteLoopback sets route_localnet for
// a link.
const loopback = "127.0.0.0/8"

// guard drops packets of the cluster from or to loopback addresses, which the kernel would accept with route_localnet.
func guard() NftChain {
	chain := NftChain{Name: "guard", Type: "filter", Hook: "prerouting", Priority: "raw"}
	for _, side := range []string{"saddr", "daddr"} {
		chain.Rules = append(chain.Rules, fmt.Sprintf("iifname %q ip %s %s drop", names.ManagementInterface, side, loopback))
	}
	return chain
}

// forward drops packets that must not pass through the host. These are datagrams to tunnels, from pods or to endpoints
// elsewhere that this table chose: with the host's address, other nodes would accept them as this node's own. These are
// also redirects to pods, which only routers on the receiver's own link may send (RFC 792, RFC 4861 §8), and packets to cluster IPs that
// no service has, which the host's route would send back to OVN. Another proxy on the host may have translated them before. Pods leave
// through the router only.
func (h HostRules) forward() NftChain {
	chain := NftChain{Name: "forward", Type: "filter", Hook: "forward", Priority: "filter", Rules: []string{
		fmt.Sprintf("iifname %q udp dport %d drop", names.ManagementInterface, ports.Geneve),
		fmt.Sprintf("oifname %q icmp type redirect drop", names.ManagementInterface),
		fmt.Sprintf("oifname %q icmpv6 type nd-redirect drop", names.ManagementInterface),
	}}
	for _, network := range h.Services {
		family := nftFamilies()[0]
		if !network.Addr().Is4() {
			family = nftFamilies()[1]
		}
		chain.add("iifname %q %[2]s daddr %[3]s ct original %[2]s daddr %[3]s drop", names.ManagementInterface, family.ip, network)
	}
	if h.Egress {
		// Unsolicited packets to an egress IP would go back and forth between the host and the router.
		chain.add("iifname %q oifname %q drop", names.EgressInterface, names.EgressInterface)
		chain.add("iifname %q udp dport %d drop", names.EgressInterface, ports.Geneve)
	}
	for _, f := range nftFamilies() {
		chain.add("ct status dnat udp dport %d %s @beyond%s drop", ports.Geneve, f.destination(), f.suffix)
	}
	if h.Router != "" {
		// A pod that sends to the management port's MAC would leave past the router, with its egress IPs, and past limits and marks.
		chain.add("iifname %q ct direction reply accept", names.ManagementInterface)
		chain.add("iifname %q ether saddr != %s drop", names.ManagementInterface, h.Router)
	}
	return chain
}

// RouterMAC returns the MAC of the cluster's router on the node's switch, or "" while the node has no subnet.
func RouterMAC(spec networkv1alpha1.NodeNetworkSpec) string {
	if len(spec.PodSubnets) == 0 || spec.GatewayMACAddress != "" {
		return string(spec.GatewayMACAddress)
	}
	return ipam.MAC(facts.Gateways(Prefixes(spec.PodSubnets))).String()
}

// TunnelGuard returns the table that drops tunnels' packets which IPsec does not protect. The kernel's policies do so, too, until
// another program deletes them, and before the IKE daemon has installed them.
func TunnelGuard() NftTable {
	chain := func(name, hook, unprotected string) NftChain {
		return NftChain{Name: name, Type: "filter", Hook: hook, Priority: "filter",
			Rules: []string{fmt.Sprintf("udp dport %d %s missing drop", ports.Geneve, unprotected)}}
	}
	return NftTable{Chains: []NftChain{chain("out", "output", "rt ipsec"), chain("in", "input", "meta ipsec")}}
}

// Loopback reports whether a frontend has an address of 127.0.0.0/8, which requires hostnet.RouteLoopback.
func (h HostRules) Loopback() bool {
	return slices.ContainsFunc(h.Frontends, func(f Frontend) bool { return f.Address.IsLoopback() })
}

// UDPTarget is where the host sends datagrams to a destination. Text changes whenever that does. To are the destinations after
// the translation. Host reports whether the host serves clients outside, and not the gateway router.
type UDPTarget struct {
	Text string
	To   []netip.AddrPort
	Host bool
}

// UDP returns the targets of the node's UDP frontends.
func (h HostRules) UDP() map[netip.AddrPort]UDPTarget {
	targets := map[netip.AddrPort]UDPTarget{}
	for _, f := range h.Frontends {
		if f.Protocol != corev1.ProtocolUDP {
			continue
		}
		for _, address := range f.At(h.Addresses.Ports) {
			at := netip.AddrPortFrom(address, f.Port)
			if _, taken := targets[at]; taken {
				continue
			}
			target := UDPTarget{To: slices.Concat(f.Inside, f.Outside), Host: f.ByHost,
				Text: fmt.Sprint(h.Mode, f.ClusterIP, f.ClusterPort, f.Local, f.Dropped, f.Inside, f.Outside)}
			if f.Inside == nil || f.Outside == nil && !f.IsClusterIP {
				target.To = append(target.To, netip.AddrPortFrom(f.ClusterIP, f.ClusterPort))
				for _, local := range ipam.LocalNodePorts() {
					target.To = append(target.To, netip.AddrPortFrom(local, f.NodePort))
				}
			}
			targets[at] = target
		}
	}
	return targets
}

// Changed lists the destinations that are in only one of the maps or have different targets, sorted.
func Changed(former, present map[netip.AddrPort]UDPTarget) []netip.AddrPort {
	var changed []netip.AddrPort
	for at, target := range former {
		if now, ok := present[at]; !ok || now.Text != target.Text {
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

// destination matches a packet's destination in maps and sets of frontends.
func (f nftFamily) destination() string { return f.ip + " daddr . meta l4proto . th dport" }

func (f nftFamily) translate(set string) string {
	return fmt.Sprintf("dnat %s to %s map @%s%s", f.ip, f.destination(), set, f.suffix)
}

// filter drops connections of clients that are not allowed, and connections for which this node has no endpoint.
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

// serves reports whether the host handles connections from outside to a frontend. In Shared mode it cannot preserve a
// client's address, which policy Local requires.
func (h HostRules) serves(f Frontend) bool {
	return h.Mode == networkv1alpha1.GatewayLocal || f.ByHost || !f.Local
}

// ServedByHostAt reports whether the host serves the frontend at one of its addresses in Shared mode.
func (f Frontend) ServedByHostAt(address netip.Addr) bool {
	return !f.IsClusterIP && (f.ByHost || !f.Local) && slices.Contains(f.At([]netip.Addr{address}), address)
}

// sets returns the sets of one family.
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
		protocol := strings.ToLower(string(frontend.Protocol))
		for _, address := range frontend.At(h.Addresses.Ports) {
			at := fmt.Sprintf("%s . %s . %d", address, protocol, frontend.Port)
			if _, taken := cluster.Elements[at]; taken {
				continue // of two with the same address and port, the first one gets it
			}
			cluster.Elements[at] = frontend.inside()
			for _, target := range slices.Concat(frontend.Inside, frontend.Outside) {
				if !slices.Contains(h.Addresses.Own, target.Addr()) {
					beyond.Elements[nftDestination(target, protocol)] = ""
				}
			}
			if frontend.Pod {
				pods.Elements[nftDestination(netip.AddrPortFrom(frontend.ClusterIP, frontend.ClusterPort), protocol)] = ""
			}
			if frontend.IsClusterIP || address.IsLoopback() {
				continue
			}
			if h.serves(frontend) {
				outside.Elements[at] = frontend.outside(f)
			}
			if isLocal && frontend.Local { // clients keep their address
				for _, target := range frontend.Outside {
					pods.Elements[nftDestination(target, protocol)] = ""
				}
			}
			if frontend.Dropped {
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

// inside returns where the host sends its own connections, and outside where it sends those from outside. A service without
// a node port has no address that stands for the endpoints of this node.
func (f Frontend) inside() string {
	if len(f.Inside) > 0 {
		return nftTarget(f.Inside[0])
	}
	return nftTarget(netip.AddrPortFrom(f.ClusterIP, f.ClusterPort))
}

func (f Frontend) outside(family nftFamily) string {
	switch {
	case len(f.Outside) > 0:
		return nftTarget(f.Outside[0])
	case f.Local && f.NodePort != 0:
		return nftTarget(netip.AddrPortFrom(family.localBackend, f.NodePort))
	}
	return nftTarget(netip.AddrPortFrom(f.ClusterIP, f.ClusterPort))
}

func nftTarget(a netip.AddrPort) string { return fmt.Sprintf("%s . %d", a.Addr(), a.Port()) }

func nftDestination(a netip.AddrPort, protocol string) string {
	return fmt.Sprintf("%s . %s . %d", a.Addr(), protocol, a.Port())
}

// nftPrefix formats a prefix as nft does.
func nftPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
