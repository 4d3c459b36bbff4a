package ovnexpr

import "net/netip"

// family is the prefix of an address's fields.
func family(address netip.Addr) string {
	if address.Is4() {
		return "ip4"
	}
	return "ip6"
}

// ToSet matches what is sent to the addresses of a set; like is an address of their family.
func ToSet(set string, like netip.Addr) string { return family(like) + ".dst == $" + set }

// FromSet matches what the addresses of a set send; like is an address of their family.
func FromSet(set string, like netip.Addr) string { return family(like) + ".src == $" + set }

// SetToSet matches what the addresses of a set send to those of another; like is an address of their family.
func SetToSet(from, to string, like netip.Addr) string {
	return FromSet(from, like) + " && " + ToSet(to, like)
}

// RepliesTo matches, of Replies, those to the addresses of a set; like is an address of their family.
func RepliesTo(group, set string, like netip.Addr) string {
	return Replies(group) + " && " + ToSet(set, like)
}

// Replies matches what the ports of a group answer to connections that others opened.
func Replies(group string) string { return "inport == @" + group + " && ct.trk && ct.rpl" }

// PortReplies matches what one port answers to connections that others opened.
func PortReplies(port string) string { return FromPort(port) + " && ct.trk && ct.rpl" }

// ToGroup matches IP packets that the ports of a group receive.
func ToGroup(group string) string { return "outport == @" + group + " && ip" }

// Marked matches packets that have a mark.
func Marked(mark string) string { return "pkt.mark == " + mark }
