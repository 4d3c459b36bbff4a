package desired

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Flow is one of the external bridge's, in the words of ovs-ofctl(8).
type Flow struct {
	Table, Priority int
	Match           string // "in_port=1,ip"; empty: every packet
	Actions         string
}

// ExternalBridge is what is known of a bridge that the host shares with its gateway router: both have the same MAC and addresses there, and
// flows tell whose a packet from outside is.
//
//	wire ── Physical ─┬─ LOCAL ── the host
//	                  └─ Patch ── the gateway router
type ExternalBridge struct {
	// Alone says that the link is OVN's alone: the host has nothing there.
	Alone bool
	// Physical and Patch are OpenFlow port numbers; 0: there is no such port yet.
	Physical, Patch int
	MAC             string
	Addresses       []netip.Addr
	// Hidden are networks whose addresses must not leave: those of pods, where they are translated.
	Hidden    []netip.Prefix
	Frontends []Frontend
}

const (
	// zone is the conntrack zone of the external bridge; ovn-controller gives its own from 1 upwards.
	zone = 64000
	// Whose a connection is, as ct_mark.
	markOVN, markHost = 1, 2
	// tableTracked has the packets from outside, once conntrack knows them.
	tableTracked = 1
	// tableNoted has what goes outside, once conntrack has noted whose it is.
	tableNoted = 2
	// genevePort is the UDP port of tunnels (RFC 8926 §3.3).
	genevePort = 6081
	multicast  = "01:00:00:00:00:00/01:00:00:00:00:00"
	local      = "LOCAL"
	normal     = "NORMAL"
	drop       = "drop"
)

// ipFamily has the words of ovs-ofctl for one family.
type ipFamily struct{ ip, udp, source, trackedSource, trackedDestination string }

var (
	ipv4 = ipFamily{"ip", "udp", "nw_src", "ct_nw_src", "ct_nw_dst"}
	ipv6 = ipFamily{"ipv6", "udp6", "ipv6_src", "ct_ipv6_src", "ct_ipv6_dst"}
)

func familyOf(address netip.Addr) ipFamily {
	if address.Is4() {
		return ipv4
	}
	return ipv6
}

// Flows computes those of the bridge. What concerns neither the router nor one of its connections goes as on any switch, so that the host has
// what it had before. While there is no port of the router, only its MAC is kept from being learnt elsewhere than at the host.
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
	flows = append(flows, b.tracked()...)
	flows = append(flows, b.noted()...)
	for _, f := range b.Frontends {
		flows = append(flows, b.frontend(f)...)
	}
	return distinct(flows)
}

// distinct keeps the first of those that match the same: two services may ask for one address and port.
func distinct(flows []Flow) []Flow {
	seen := map[Flow]bool{}
	return slices.DeleteFunc(flows, func(f Flow) bool {
		f.Actions = ""
		double := seen[f]
		seen[f] = true
		return double
	})
}

// alone is a plain switch which lets out what the router sends from its own MAC, and of that nothing that was not translated.
func (b ExternalBridge) alone() []Flow {
	flows := []Flow{{0, 1, "", normal}}
	if b.Physical == 0 || b.Patch == 0 {
		return flows
	}
	in := from(b.Patch)
	flows = append(flows, Flow{0, 100, in + ",dl_src=" + b.MAC, output(b.Physical)}, Flow{0, 90, in, drop},
		Flow{0, 50, from(b.Physical) + ",dl_dst=" + b.MAC, output(b.Patch)})
	return append(flows, b.hide(in)...)
}

// hide drops what was not translated.
func (b ExternalBridge) hide(in string) (flows []Flow) {
	for _, network := range b.Hidden {
		f := familyOf(network.Addr())
		flows = append(flows, Flow{0, 105, fmt.Sprintf("%s,%s,%s=%s", in, f.ip, f.source, network), drop})
	}
	return flows
}

// foundation is a switch that learns our MAC at the host alone: learnt at the router's port, it would cut the host off.
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

// note is commit for what goes outside. Open vSwitch's own conntrack lets fragments that it has given up go on with the next packet that it
// looks at, from wherever they came: a look at the MAC afterwards keeps those of others from going back outside.
func note(mark int) string {
	return fmt.Sprintf("ct(commit,table=%d,zone=%d,exec(set_field:%#x->ct_mark))", tableNoted, zone, mark)
}

// noted lets out what conntrack has looked at, and nothing that came from elsewhere meanwhile.
func (b ExternalBridge) noted() []Flow {
	return []Flow{
		{tableNoted, 100, from(b.Patch) + ",dl_src=" + b.MAC, output(b.Physical)},
		{tableNoted, 100, "in_port=LOCAL,dl_src=" + b.MAC, normal},
		{tableNoted, 0, "", drop},
	}
}

// fromRouter lets out what the gateway router sends, and notes the connections as its own.
func (b ExternalBridge) fromRouter() []Flow {
	in, out := from(b.Patch), output(b.Physical)
	flows := []Flow{
		{0, 90, in, drop}, // no MAC but the router's comes from there
		// The router answers the host's own detection of double addresses; the answer has no way to the host, and need not go out.
		{0, 106, in + ",dl_dst=" + b.MAC, drop},
		{0, 101, in + ",arp,dl_src=" + b.MAC, out},
		{0, 101, in + ",icmp6,dl_src=" + b.MAC + ",icmp_type=135", out},
		{0, 101, in + ",icmp6,dl_src=" + b.MAC + ",icmp_type=136", out},
	}
	flows = append(flows, b.hide(in)...)
	for _, f := range []ipFamily{ipv4, ipv6} {
		flows = append(flows, Flow{0, 100, fmt.Sprintf("%s,%s,dl_src=%s", in, f.ip, b.MAC), note(markOVN)})
	}
	return flows
}

// fromHost notes the host's connections as its own. An address and port that the router used shortly before is the host's from here on.
func (b ExternalBridge) fromHost() []Flow {
	flows := []Flow{
		{0, 101, "in_port=LOCAL,dl_dst=" + multicast, normal},
		{0, 101, "in_port=LOCAL,icmp6,icmp_type=135", normal},
		{0, 101, "in_port=LOCAL,icmp6,icmp_type=136", normal},
	}
	for _, f := range []ipFamily{ipv4, ipv6} {
		flows = append(flows,
			Flow{0, 205, fmt.Sprintf("in_port=LOCAL,%s,tp_dst=%d", f.udp, genevePort), normal},
			Flow{0, 100, fmt.Sprintf("in_port=LOCAL,%s,dl_src=%s", f.ip, b.MAC), note(markHost)})
	}
	return flows
}

// fromOutside has conntrack look at what comes to our MAC. Conntrack also reassembles, so that table 1 sees the ports of every fragment.
func (b ExternalBridge) fromOutside() []Flow {
	in := from(b.Physical)
	both := output(b.Patch) + "," + local
	flows := []Flow{
		{0, 60, in + ",arp,dl_dst=" + b.MAC, both}, // replies: either may have asked
		{0, 60, in + ",icmp6,dl_dst=" + b.MAC + ",icmp_type=135", both},
		{0, 60, in + ",icmp6,dl_dst=" + b.MAC + ",icmp_type=136", both},
		{0, 60, in + ",icmp6,dl_dst=" + b.MAC + ",icmp_type=134", local}, // router advertisements; conntrack would call them invalid
	}
	for _, f := range []ipFamily{ipv4, ipv6} {
		flows = append(flows,
			// A tunnel's end is the host's address: the packet is taken out when it is sent to the host.
			Flow{0, 205, fmt.Sprintf("%s,%s,dl_dst=%s,tp_dst=%d", in, f.udp, b.MAC, genevePort), local},
			Flow{0, 50, fmt.Sprintf("%s,%s,dl_dst=%s", in, f.ip, b.MAC), fmt.Sprintf("ct(table=%d,zone=%d)", tableTracked, zone)})
	}
	return flows
}

// tracked sends packets, and the ICMP errors about them, to whose connection they belong. What is nobody's is the host's.
func (b ExternalBridge) tracked() []Flow {
	flows := []Flow{{tableTracked, 0, "", local}}
	for _, f := range []ipFamily{ipv4, ipv6} {
		for _, state := range []string{"+est+trk", "+rel+trk"} {
			flows = append(flows, Flow{tableTracked, 100, fmt.Sprintf("ct_state=%s,ct_mark=%#x,%s", state, markOVN, f.ip), output(b.Patch)})
		}
	}
	return flows
}

// protocolNumber is IANA's.
var protocolNumber = map[corev1.Protocol]int{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17, corev1.ProtocolSCTP: 132}

// frontend lets new connections to a service in, to the host where that has an endpoint itself. They are matched by what conntrack knows of them, which the later fragments of a datagram have too.
func (b ExternalBridge) frontend(f Frontend) []Flow {
	if f.Inside || f.Address.IsLoopback() {
		return nil
	}
	accept := commit(markOVN) + "," + output(b.Patch)
	if f.Own.IsValid() {
		accept = local
	}
	var flows []Flow
	for _, address := range f.At(b.Addresses) {
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
				flows = append(flows, Flow{tableTracked, 60, fmt.Sprintf("%s,%s=%s", match, family.trackedSource, source), accept})
			}
		}
	}
	return flows
}

// At returns the addresses at which the frontend is on a node that has these: its own, or those of its family.
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
