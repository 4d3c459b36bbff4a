// Package neighbour implements ARP and Neighbour Discovery on a segment: it announces who has an address, and probes
// whether a host has it.
package neighbour

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Lengths of headers and frames in bytes, and values of fields (RFC 826, RFC 4861 §4).
const (
	ethernetLength = 14
	ipv6Length     = 40
	targetLength   = 24 // of the ICMPv6 header and the target of a solicitation or an advertisement
	linkLength     = 8  // of an option with a link-layer address
	arpLength      = 28

	arpRequest       = 1
	hopLimit         = 255
	optionTargetLink = 2
)

// Sender says what sends an advertisement: its flags (RFC 4861 §4.4), of which O makes others replace a MAC that they know.
type Sender byte

// The senders of advertisements.
const (
	Host   Sender = 0x20
	Router Sender = 0xa0
)

// Gaps are the times between one announcement of an address and the next. A segment may lose the first ones, or OVN's
// flows to it may be incomplete. ovn-controller repeats gratuitous ARP alike.
var Gaps = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// Announcement returns a frame to all hosts of a segment with the MAC of an address: a gratuitous ARP or an unsolicited
// neighbour advertisement.
func Announcement(address netip.Addr, mac net.HardwareAddr, sender Sender) ([]byte, error) {
	if address.Is4() {
		return arpFrame(address, mac, address), nil
	}
	return Advertisement(address, mac, sender)
}

// Advertisement returns a frame with an unsolicited neighbour advertisement to all nodes (RFC 4861 §7.2.6).
func Advertisement(address netip.Addr, mac net.HardwareAddr, sender Sender) ([]byte, error) {
	everyone := netip.IPv6LinkLocalAllNodes()
	body := append([]byte{byte(sender), 0, 0, 0}, address.AsSlice()...)
	body = append(append(body, optionTargetLink, 1), mac...)
	return icmpFrame(ipv6.ICMPTypeNeighborAdvertisement, address, everyone, mac, body)
}

// solicitation returns a frame that probes an IPv6 address, from a sender without an address (RFC 4862 §5.4.2).
// The answer goes to all nodes.
func solicitation(address netip.Addr, mac net.HardwareAddr) ([]byte, error) {
	body := append(make([]byte, 4), address.AsSlice()...)
	return icmpFrame(ipv6.ICMPTypeNeighborSolicitation, netip.IPv6Unspecified(), solicitedNode(address), mac, body)
}

// solicitedNode returns the multicast address of the nodes that may have an address (RFC 4291 §2.7.1).
func solicitedNode(address netip.Addr) netip.Addr {
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	own := address.As16()
	copy(group[13:], own[13:])
	return netip.AddrFrom16(group)
}

// icmpFrame returns a frame with an ICMPv6 message to a multicast address.
func icmpFrame(kind ipv6.ICMPType, from, to netip.Addr, mac net.HardwareAddr, body []byte) ([]byte, error) {
	message := icmp.Message{Type: kind, Body: &icmp.RawBody{Data: body}}
	payload, err := message.Marshal(icmp.IPv6PseudoHeader(from.AsSlice(), to.AsSlice()))
	if err != nil {
		return nil, err
	}
	group := to.As16()
	frame := ethernet(append([]byte{0x33, 0x33}, group[12:]...), mac, unix.ETH_P_IPV6)
	frame = append(frame, 0x60, 0, 0, 0)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(payload)))
	frame = append(frame, unix.IPPROTO_ICMPV6, hopLimit)
	frame = append(append(frame, from.AsSlice()...), to.AsSlice()...)
	return append(frame, payload...), nil
}

func ethernet(to, from net.HardwareAddr, kind uint16) []byte {
	return binary.BigEndian.AppendUint16(append(bytes.Clone(to), from...), kind)
}

// arpProbe returns a frame that probes an IPv4 address, from a sender without an address (RFC 5227 §2.1.1).
func arpProbe(address netip.Addr, mac net.HardwareAddr) []byte {
	return arpFrame(netip.IPv4Unspecified(), mac, address)
}

// arpFrame returns an ARP request from a sender to all hosts. With the sender's own address as the target it is an
// announcement (RFC 5227 §3).
func arpFrame(sender netip.Addr, mac net.HardwareAddr, target netip.Addr) []byte {
	everyone := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	frame := ethernet(everyone, mac, unix.ETH_P_ARP)
	frame = append(frame, 0, 1, 0x08, 0x00, 6, 4, 0, arpRequest) // of IPv4 on Ethernet
	frame = append(append(frame, mac...), sender.AsSlice()...)
	return append(append(frame, make([]byte, 6)...), target.AsSlice()...)
}

// tagged returns a frame with a VLAN's tag; 0: none.
func tagged(frame []byte, vlan int) []byte {
	if vlan == 0 {
		return frame
	}
	tag := binary.BigEndian.AppendUint16([]byte{0x81, 0x00}, uint16(vlan))
	return append(append(bytes.Clone(frame[:12]), tag...), frame[12:]...)
}

// probeFor returns the frame that probes an address.
func probeFor(address netip.Addr, mac net.HardwareAddr) ([]byte, error) {
	if address.Is4() {
		return arpProbe(address, mac), nil
	}
	return solicitation(address, mac)
}

// Claim returns the address that the sender of a frame says it has, and its MAC. ok is false for a frame that says no
// such thing: it is neither ARP with a sender's address nor a neighbour advertisement.
func Claim(frame []byte) (address netip.Addr, mac net.HardwareAddr, ok bool) {
	if len(frame) < ethernetLength {
		return address, nil, false
	}
	body := frame[ethernetLength:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_ARP:
		if len(body) < arpLength || !bytes.Equal(body[:6], []byte{0, 1, 0x08, 0x00, 6, 4}) {
			return address, nil, false
		}
		address = netip.AddrFrom4([4]byte(body[14:18]))
		return address, bytes.Clone(body[8:14]), !address.IsUnspecified()
	case unix.ETH_P_IPV6:
		if len(body) < ipv6Length+targetLength || body[6] != unix.IPPROTO_ICMPV6 || body[7] != hopLimit ||
			body[ipv6Length] != byte(ipv6.ICMPTypeNeighborAdvertisement) {
			return address, nil, false
		}
		target := body[ipv6Length+8 : ipv6Length+targetLength]
		return netip.AddrFrom16([16]byte(target)), linkOf(frame, body[ipv6Length+targetLength:]), true
	}
	return address, nil, false
}

// linkOf returns the MAC of an advertisement: that of its option, else the frame's sender.
func linkOf(frame, options []byte) net.HardwareAddr {
	if len(options) >= linkLength && options[0] == optionTargetLink && options[1] == 1 {
		return bytes.Clone(options[2:linkLength])
	}
	return bytes.Clone(frame[6:12])
}
