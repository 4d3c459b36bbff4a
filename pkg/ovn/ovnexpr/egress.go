package ovnexpr

import (
	"net"
	"net/netip"
)

// family returns the prefix of an address's fields.
func family(address netip.Addr) string {
	if address.Is4() {
		return "ip4"
	}
	return "ip6"
}

// ToSet matches packets to the addresses of a set. like is an address of their family.
func ToSet(set string, like netip.Addr) string { return family(like) + ".dst == $" + set }

// FromSet matches packets from the addresses of a set. like is an address of their family.
func FromSet(set string, like netip.Addr) string { return family(like) + ".src == $" + set }

// FromSetTo matches packets from the addresses of a set to an address.
func FromSetTo(set string, to netip.Addr) string {
	return FromSet(set, to) + " && " + family(to) + ".dst == " + to.String()
}

// NotFromSet matches the packets of a family that FromSet does not match.
func NotFromSet(set string, like netip.Addr) string { return family(like) + ".src != $" + set }

// SetToSet matches packets from the addresses of a set to the addresses of another. like is an address of their
// family.
func SetToSet(from, to string, like netip.Addr) string {
	return FromSet(from, like) + " && " + ToSet(to, like)
}

// RepliesTo matches the packets of Replies that go to the addresses of a set. like is an address of their family.
func RepliesTo(group, set string, like netip.Addr) string {
	return Replies(group) + " && " + ToSet(set, like)
}

// Replies matches what the ports of a group send on connections that their peers opened.
func Replies(group string) string { return "inport == @" + group + " && ct.trk && ct.rpl" }

// PortReplies matches what one port sends on connections that its peers opened.
func PortReplies(port string) string { return FromPort(port) + " && ct.trk && ct.rpl" }

// ToGroup matches IP packets that the ports of a group receive.
func ToGroup(group string) string { return "outport == @" + group + " && ip" }

// ToMAC matches IP packets to a MAC.
func ToMAC(mac net.HardwareAddr) string { return "eth.dst == " + mac.String() + " && ip" }

// Marked matches packets that have a mark.
func Marked(mark string) string { return "pkt.mark == " + mark }
