package desired

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ports"
)

// Flow is an OpenFlow flow of the external bridge in the syntax of ovs-ofctl(8).
type Flow struct {
	Table, Priority int
	Match           string // "in_port=1,ip"; empty: every packet
	Actions         string
}

// ExternalBridge describes a bridge that the host shares with its gateway router. Both have the same MAC and addresses
// on it. Flows decide which of them receives a packet from outside.
//
//	wire ── Physical ─┬─ LOCAL ── the host
//	                  └─ Patch ── the gateway router
type ExternalBridge struct {
	// Alone reports whether only OVN uses the link. The host then has no addresses there.
	Alone bool
	// Userspace reports whether the bridge uses the userspace datapath.
	Userspace bool
	// Physical and Patch are OpenFlow port numbers. 0 means that the port does not exist yet.
	Physical, Patch int
	MAC             string
	// Addresses are the router's. Ports are the addresses among them at which node ports and host ports are served.
	Addresses, Ports []netip.Addr
	// Hidden are networks whose addresses must not leave the node: the pods' networks, if they are translated.
	Hidden []netip.Prefix
	// Services are the service networks. Packets to cluster IPs that no service has must not leave the node.
	Services []netip.Prefix
	// Reserved are destinations whose packets go to the host, regardless of conntrack and Frontends.
	Reserved  reserved.Table
	Frontends []Frontend
	// Translated are addresses that the gateway router translates to pods of this node. The host does not have them.
	Translated []netip.Addr
	// Routed are addresses of pods of this node that leave it untranslated, to routers of their own. Watched are the addresses of
	// routers that the gateway router watches by BFD.
	Routed, Watched []netip.Addr
	// Silent are translated addresses whose pods have no interface on this node yet. The router must not claim them on
	// the segment, because the pod's ADD probes first whether another host has them.
	Silent []netip.Addr
}

const (
	// zone is the conntrack zone of the external bridge. ovn-controller assigns its own zones from 1 upwards.
	zone = 64000
	// bfdPort is the UDP port of BFD with a router on the segment (RFC 5881 §4).
	bfdPort = 3784
	// The values of ct_mark: who owns a connection.
	markOVN, markHost = 1, 2
	// tableTracked gets the packets from outside after conntrack.
	tableTracked = 1
	// tableNoted gets the packets to outside after conntrack has recorded the owner of their connection.
	tableNoted = 2
	multicast  = "01:00:00:00:00:00/01:00:00:00:00:00"
	local      = "LOCAL"
	normal     = "NORMAL"
	drop       = "drop"
)

// ipFamily has the keywords of ovs-ofctl for one IP family.
type ipFamily struct{ ip, udp, source, destination, trackedSource, trackedDestination string }

var (
	ipv4 = ipFamily{"ip", "udp", "nw_src", "nw_dst", "ct_nw_src", "ct_nw_dst"}
	ipv6 = ipFamily{"ipv6", "udp6", "ipv6_src", "ipv6_dst", "ct_ipv6_src", "ct_ipv6_dst"}
)

func familyOf(address netip.Addr) ipFamily {
	if address.Is4() {
		return ipv4
	}
	return ipv6
}

// Flows computes the flows of the bridge. Packets that do not belong to the router or its connections are switched
// normally, so that the host's connections work as before. Until the router has a port, the flows only keep the bridge
// from learning its MAC on any port but the host's.
func (b ExternalBridge) Flows() []Flow {
	if b.Alone {
		return b.alone()
	}
	flows := b.foundation()
	if b.Physical == 0 || b.Patch == 0 {
		return flows
	}
	flows = append(flows, b.fromRouter()...)
	flows = append(flows, b.fromHost()...)
	flows = append(flows, b.fromOutside()...)
	flows = append(flows, b.reserved()...)
	flows = append(flows, b.tracked()...)
	flows = append(flows, b.noted()...)
	flows = append(flows, b.tooBig()...)
	for _, f := range b.Frontends {
		flows = append(flows, b.frontend(f)...)
	}
	for _, address := range slices.Concat(b.Translated, b.Routed) {
		flows = append(flows, b.translated(address))
	}
	flows = append(flows, b.watched()...)
	return distinct(flows)
}

// distinct keeps the first flow of each match, because two services may have the same address and port.
func distinct(flows []Flow) []Flow {
	seen := map[Flow]bool{}
	return slices.DeleteFunc(flows, func(f Flow) bool {
		f.Actions = ""
		double := seen[f]
		seen[f] = true
		return double
	})
}

// alone returns the flows of a bridge that only OVN uses. They switch normally, but let out packets of the router only
// with its own MAC and after translation. They drop packets from outside to cluster IPs, and packets from clients outside of
// a service's source ranges.
func (b ExternalBridge) alone() []Flow {
	flows := []Flow{{0, 1, "", normal}}
	if b.Physical == 0 || b.Patch == 0 {
		return flows
	}
	in := from(b.Patch)
	flows = append(flows, Flow{0, 100, in + ",dl_src=" + b.MAC, output(b.Physical)}, Flow{0, 90, in, drop},
		Flow{0, 50, from(b.Physical) + ",dl_dst=" + b.MAC, output(b.Patch)})
	for _, network := range b.Services {
		f := familyOf(network.Addr())
		flows = append(flows, Flow{0, 60, fmt.Sprintf("%s,%s,%s=%s", from(b.Physical), f.ip, f.destination, network), drop})
	}
	for _, f := range b.Frontends {
		flows = append(flows, b.limited(f)...)
	}
	return slices.Concat(flows, b.hide(in, output(b.Physical)), b.silence(in), b.tooBig())
}

// limited drops packets to a service from clients outside of its ranges, without conntrack. Later fragments have no ports and pass, but
// OVN never completes their datagrams.
func (b ExternalBridge) limited(f Frontend) (flows []Flow) {
	if f.Sources == nil || f.IsClusterIP {
		return nil
	}
	for _, address := range f.At(b.Ports) {
		family := familyOf(address)
		match := fmt.Sprintf("%s,%s,%s=%s,nw_proto=%d,tp_dst=%d", from(b.Physical), family.ip, family.destination, address,
			protocolNumber[f.Protocol], f.Port)
		flows = append(flows, Flow{0, 70, match, drop})
		for _, source := range f.Sources {
			if source.Addr().Is4() == address.Is4() {
				flows = append(flows, Flow{0, 80, fmt.Sprintf("%s,dl_dst=%s,%s=%s", match, b.MAC, family.source, source), output(b.Patch)})
			}
		}
	}
	return flows
}

// hide drops packets to service networks and packets with untranslated addresses, and lets out packets with routed addresses.
func (b ExternalBridge) hide(in, out string) (flows []Flow) {
	for _, network := range b.Services {
		f := familyOf(network.Addr())
		flows = append(flows, Flow{0, 109, fmt.Sprintf("%s,%s,%s=%s", in, f.ip, f.destination, network), drop})
	}
	for _, network := range b.Hidden {
		f := familyOf(network.Addr())
		flows = append(flows, Flow{0, 105, fmt.Sprintf("%s,%s,%s=%s", in, f.ip, f.source, network), drop})
	}
	for _, address := range b.Routed {
		f := familyOf(address)
		flows = append(flows, Flow{0, 108, fmt.Sprintf("%s,%s,dl_src=%s,%s=%s", in, f.ip, b.MAC, f.source, address), out})
	}
	return flows
}

// watched sends the packets with which routers answer BFD to the gateway router. To conntrack they are new connections.
func (b ExternalBridge) watched() (flows []Flow) {
	for _, router := range b.Watched {
		f := familyOf(router)
		for _, address := range b.Addresses {
			if address.Is4() == router.Is4() {
				flows = append(flows, Flow{0, 203, fmt.Sprintf("%s,%s,dl_dst=%s,%s=%s,%s=%s,tp_dst=%d",
					from(b.Physical), f.udp, b.MAC, f.source,
					router, f.destination, address, bfdPort), output(b.Patch)})
			}
		}
	}
	return flows
}

// silence drops the router's ARP packets and neighbour advertisements for the Silent addresses. ovn-controller sends the
// first of them a second after it has the translation.
func (b ExternalBridge) silence(in string) (flows []Flow) {
	for _, address := range b.Silent {
		match := fmt.Sprintf("%s,arp,arp_spa=%s", in, address)
		if address.Is6() {
			match = fmt.Sprintf("%s,icmp6,icmp_type=136,icmp_code=0,nd_target=%s", in, address)
		}
		flows = append(flows, Flow{0, 107, match, drop})
	}
	return flows
}

// foundation switches normally, but lets the bridge learn our MAC only on the host's port. On the router's port it would
// disconnect the host.
func (b ExternalBridge) foundation() []Flow {
	flows := []Flow{{0, 1, "", normal}, {0, 20, "in_port=LOCAL", normal}, {0, 10, "dl_src=" + b.MAC, drop}}
	if b.Physical != 0 {
		flows = append(flows, Flow{0, 20, from(b.Physical), normal})
	}
	return flows
}

func from(port int) string { return fmt.Sprintf("in_port=%d", port) }

func commit(mark int) string {
	return fmt.Sprintf("ct(commit,zone=%d,exec(set_field:%#x->ct_mark))", zone, mark)
}

func output(port int) string { return fmt.Sprintf("output:%d", port) }

// note is commit for packets that leave. Open vSwitch's own conntrack releases expired fragments together with the next
// packet that it processes, from any port. tableNoted therefore matches the MAC again, which keeps foreign fragments
// from going back outside.
func note(mark int) string {
	return fmt.Sprintf("ct(commit,table=%d,zone=%d,exec(set_field:%#x->ct_mark))", tableNoted, zone, mark)
}

// noted lets out the packets that conntrack has processed, and drops packets from other ports.
func (b ExternalBridge) noted() []Flow {
	return []Flow{
		{tableNoted, 100, from(b.Patch) + ",dl_src=" + b.MAC, output(b.Physical)},
		{tableNoted, 100, "in_port=LOCAL,dl_src=" + b.MAC, normal},
		{tableNoted, 0, "", drop},
	}
}

// fromRouter lets out the gateway router's packets, except for tunnel packets, and marks its connections.
func (b ExternalBridge) fromRouter() []Flow {
	in, out := from(b.Patch), output(b.Physical)
	flows := []Flow{
		{0, 90, in, drop}, // only the router's MAC is valid on this port
		// The router answers the host's own duplicate address detection. The answer cannot reach the host and must not leave.
		{0, 106, in + ",dl_dst=" + b.MAC, drop},
		{0, 101, in + ",arp,dl_src=" + b.MAC, out},
		{0, 101, in + ",icmp6,dl_src=" + b.MAC + ",icmp_type=135", out},
		{0, 101, in + ",icmp6,dl_src=" + b.MAC + ",icmp_type=136", out},
	}
	flows = slices.Concat(flows, b.hide(in, note(markOVN)), b.silence(in))
	for _, f := range []ipFamily{ipv4, ipv6} {
		flows = append(flows,
			// With the node's address, other nodes would accept a pod's packet as one of this node's tunnel.
			Flow{0, 110, fmt.Sprintf("%s,%s,tp_dst=%d", in, f.udp, ports.Geneve), drop},
			Flow{0, 100, fmt.Sprintf("%s,%s,dl_src=%s", in, f.ip, b.MAC), note(markOVN)})
	}
	return flows
}

// fromHost marks the host's connections. If the router used the same address and port shortly before, they belong to the
// host from now on.
func (b ExternalBridge) fromHost() []Flow {
	flows := []Flow{
		{0, 101, "in_port=LOCAL,dl_dst=" + multicast, normal},
		{0, 101, "in_port=LOCAL,icmp6,icmp_type=135", normal},
		{0, 101, "in_port=LOCAL,icmp6,icmp_type=136", normal},
	}
	for _, f := range []ipFamily{ipv4, ipv6} {
		flows = append(flows,
			Flow{0, 205, fmt.Sprintf("in_port=LOCAL,%s,tp_dst=%d", f.udp, ports.Geneve), normal},
			Flow{0, 100, fmt.Sprintf("in_port=LOCAL,%s,dl_src=%s", f.ip, b.MAC), note(markHost)})
	}
	return flows
}

// fromOutside sends packets to our MAC through conntrack. Conntrack also reassembles fragments, so that table 1 has the
// ports of each fragment.
func (b ExternalBridge) fromOutside() []Flow {
	in := from(b.Physical)
	both := output(b.Patch) + "," + local
	flows := []Flow{
		{0, 60, in + ",arp,dl_dst=" + b.MAC, both}, // replies: both may have sent the request
		{0, 60, in + ",icmp6,dl_dst=" + b.MAC + ",icmp_type=135", both},
		{0, 60, in + ",icmp6,dl_dst=" + b.MAC + ",icmp_type=136", both},
		// Conntrack would mark router advertisements as invalid.
		{0, 60, in + ",icmp6,dl_dst=" + b.MAC + ",icmp_type=134", local},
	}
	for _, f := range []ipFamily{ipv4, ipv6} {
		flows = append(flows,
			// The host's address is the end of the tunnels. Open vSwitch decapsulates the packet when it is sent to
			// LOCAL.
			Flow{0, 205, fmt.Sprintf("%s,%s,dl_dst=%s,tp_dst=%d", in, f.udp, b.MAC, ports.Geneve), local},
			Flow{0, 50, fmt.Sprintf("%s,%s,dl_dst=%s", in, f.ip, b.MAC), fmt.Sprintf("ct(table=%d,zone=%d)", tableTracked, zone)})
	}
	return flows
}

// reserved sends packets to reserved destinations of this node to the host, without conntrack. A pod could have opened a
// connection with such a port as its source, and the packet would look like a reply to it. Later fragments have no ports
// and follow the first one through conntrack.
func (b ExternalBridge) reserved() (flows []Flow) {
	for _, address := range b.Addresses {
		f := familyOf(address)
		for _, p := range b.reservedAt(address) {
			match := fmt.Sprintf("%s,%s,dl_dst=%s,%s=%s,tp_dst=%d",
				from(b.Physical), f.transport(p.Protocol), b.MAC, f.destination, address, p.Number)
			flows = append(flows, Flow{0, 204, match, local})
		}
	}
	return flows
}

// reservedAt returns the ports that are reserved at an address of this node, without duplicates.
func (b ExternalBridge) reservedAt(address netip.Addr) []reserved.Port {
	var here []reserved.Port
	for _, d := range b.Reserved.Destinations {
		if d.Address == address {
			here = append(here, d.Port)
		}
	}
	return b.Reserved.WithPorts(here...).Ports
}

// transport returns the keyword for packets of a protocol in this family.
func (f ipFamily) transport(protocol string) string {
	if f == ipv6 {
		return protocol + "6"
	}
	return protocol
}

// tracked sends packets, and the ICMP errors about them, to the owner of their connection. Packets without an owner go
// to the host.
func (b ExternalBridge) tracked() []Flow {
	flows := []Flow{{tableTracked, 0, "", local}}
	for _, f := range []ipFamily{ipv4, ipv6} {
		for _, state := range []string{"+est+trk", "+rel+trk"} {
			match := fmt.Sprintf("ct_state=%s,ct_mark=%#x,%s", state, markOVN, f.ip)
			flows = append(flows, Flow{tableTracked, 100, match, output(b.Patch)})
		}
	}
	return flows
}

// protocolNumber has the IP protocol numbers (IANA).
var protocolNumber = map[corev1.Protocol]int{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17, corev1.ProtocolSCTP: 132}

// frontend admits new connections to a service, and sends them to the host if the host has an endpoint. It matches
// conntrack's state, which the later fragments of a datagram have as well.
func (b ExternalBridge) frontend(f Frontend) []Flow {
	if f.IsClusterIP || f.Address.IsLoopback() {
		return nil
	}
	accept := commit(markOVN) + "," + output(b.Patch)
	if f.ByHost {
		accept = local
	}
	var flows []Flow
	for _, address := range f.At(b.Ports) {
		family := familyOf(address)
		match := fmt.Sprintf("ct_state=+new+trk,%s,%s=%s,ct_nw_proto=%d,ct_tp_dst=%d",
			family.ip, family.trackedDestination, address, protocolNumber[f.Protocol], f.Port)
		if f.Sources == nil {
			flows = append(flows, Flow{tableTracked, 50, match, accept})
			continue
		}
		flows = append(flows, Flow{tableTracked, 50, match, drop})
		for _, source := range f.Sources {
			if source.Addr().Is4() == address.Is4() {
				match := fmt.Sprintf("%s,%s=%s", match, family.trackedSource, source)
				flows = append(flows, Flow{tableTracked, 60, match, accept})
			}
		}
	}
	return flows
}

// translated admits new connections of every protocol to a translated or routed address, and packets without ports, such as pings.
// A service at the address comes first.
func (b ExternalBridge) translated(address netip.Addr) Flow {
	f := familyOf(address)
	return Flow{tableTracked, 40, fmt.Sprintf("ct_state=+new+trk,%s,%s=%s", f.ip, f.trackedDestination, address),
		commit(markOVN) + "," + output(b.Patch)}
}

// At returns the addresses of the frontend on a node: its own address, or else the node's addresses with ports of its family.
func (f Frontend) At(node []netip.Addr) []netip.Addr {
	if f.Address.IsValid() {
		return []netip.Addr{f.Address}
	}
	var found []netip.Addr
	for _, address := range node {
		if address.Is4() == f.ClusterIP.Is4() {
			found = append(found, address)
		}
	}
	return found
}
