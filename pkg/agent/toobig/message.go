package toobig

import (
	"encoding/binary"
	"net/netip"
)

// Protocol numbers and ICMPv6 types (IANA).
const (
	protocolUDP      = 17
	protocolFragment = 44
	protocolICMP     = 58
	typeTooBig       = 2
	typeEchoRequest  = 128
	typeEchoReply    = 129
)

// Lengths of headers and offsets in them, in bytes.
const (
	ethernetLength = 14
	ipLength       = 40
	upperLength    = 8 // of the UDP, ICMPv6 and fragment headers
	ipNext         = 6
	ipSource       = 8
	ipDestination  = 24
	hopLimit       = 64
	idLength       = 8 // of a probe's number
)

// message is a Packet Too Big (RFC 4443, section 3.2) about a datagram or an echo request.
type message struct {
	router netip.Addr
	mtu    uint32
	// quoted is the beginning of the packet that was too big: at least its IPv6 and upper-layer headers, without a
	// fragment header.
	quoted []byte
}

// end is an address with a port. For an echo request the port is its identifier.
type end struct {
	address netip.Addr
	port    uint16
}

// readMessage decodes a frame. ok is false for any other frame, and for a message that Open vSwitch translates correctly
// itself, which quotes neither a fragment nor a datagram.
func readMessage(frame []byte) (m message, ok bool) {
	ip, icmp, ok := upper(frame, protocolICMP)
	if !ok || icmp[0] != typeTooBig || checksum(ip, icmp) != 0 || len(icmp) < upperLength+ipLength+upperLength {
		return m, false
	}
	quoted := append([]byte(nil), icmp[upperLength:]...)
	if [16]byte(quoted[ipSource:]) != [16]byte(ip[ipDestination:]) {
		return m, false // the packet was not sent by the message's receiver
	}
	isFragment := quoted[ipNext] == protocolFragment
	if isFragment {
		if quoted, ok = withoutFragment(quoted); !ok {
			return m, false
		}
	}
	isEcho := quoted[ipNext] == protocolICMP && quoted[ipLength] == typeEchoRequest
	m = message{router: address(ip[ipSource:]), mtu: binary.BigEndian.Uint32(icmp[4:]), quoted: quoted}
	return m, quoted[ipNext] == protocolUDP || isEcho && isFragment
}

// withoutFragment removes the fragment header after a packet's IPv6 header. ok is false for fragments other than the
// first, because they have no ports.
func withoutFragment(packet []byte) (whole []byte, ok bool) {
	header := packet[ipLength : ipLength+upperLength]
	if len(packet) < ipLength+2*upperLength || binary.BigEndian.Uint16(header[2:])>>3 != 0 {
		return nil, false
	}
	packet[ipNext] = header[0]
	binary.BigEndian.PutUint16(packet[4:], binary.BigEndian.Uint16(packet[4:])-upperLength)
	return append(packet[:ipLength], packet[ipLength+upperLength:]...), true
}

// sender returns the source of the packet that was too big.
func (m message) sender() end {
	place := 0
	if m.quoted[ipNext] == protocolICMP {
		place = 4
	}
	return end{address(m.quoted[ipSource:]), binary.BigEndian.Uint16(m.quoted[ipLength+place:])}
}

// probe returns a frame that looks like a reply to the packet that was too big. Conntrack translates it to the address that
// the message must be sent to. The frame carries a number, by which readReply identifies it.
func (m message) probe(number uint64) []byte {
	sent := m.quoted[ipLength:]
	var body []byte
	if m.quoted[ipNext] == protocolUDP {
		body = append(body, sent[2], sent[3], sent[0], sent[1], 0, upperLength+idLength, 0, 0) // ports, length
		body = seal(m.quoted[ipDestination:], m.quoted[ipSource:], protocolUDP, binary.BigEndian.AppendUint64(body, number), 6)
	} else {
		body = append(body, typeEchoReply, 0, 0, 0, sent[4], sent[5], sent[6], sent[7]) // identifier, sequence number
		body = seal(m.quoted[ipDestination:], m.quoted[ipSource:], protocolICMP, binary.BigEndian.AppendUint64(body, number), 2)
	}
	return frame(make([]byte, 6), m.quoted[ipDestination:], m.quoted[ipSource:], m.quoted[ipNext], body)
}

// readReply decodes a probe that conntrack has translated. to is the address that the message must be sent to.
func readReply(frame []byte) (number uint64, to end, ok bool) {
	for protocol, place := range map[byte]int{protocolUDP: 2, protocolICMP: 4} { // offset of the port or identifier
		if ip, body, ok := upper(frame, protocol); ok && len(body) == upperLength+idLength {
			to = end{address(ip[ipDestination:]), binary.BigEndian.Uint16(body[place:])}
			return binary.BigEndian.Uint64(body[upperLength:]), to, true
		}
	}
	return 0, end{}, false
}

// translated returns a frame for a MAC with the message translated for the original sender of the packet that was too
// big.
func (m message) translated(to end, mac []byte) []byte {
	quoted := append([]byte(nil), m.quoted...)
	pod, router := to.address.As16(), m.router.As16()
	port, sum := quoted[ipLength:ipLength+2], quoted[ipLength+6:ipLength+8]
	if quoted[ipNext] == protocolICMP {
		port, sum = quoted[ipLength+4:ipLength+6], quoted[ipLength+2:ipLength+4]
	}
	replace(sum, quoted[ipSource:ipDestination], pod[:])
	replace(sum, port, binary.BigEndian.AppendUint16(nil, to.port))
	body := binary.BigEndian.AppendUint32([]byte{typeTooBig, 0, 0, 0}, m.mtu)
	return frame(mac, router[:], pod[:], protocolICMP, seal(router[:], pod[:], protocolICMP, append(body, quoted...), 2))
}

// upper returns a frame's IPv6 header and the upper-layer packet after it. ok is false if the packet is not of the
// protocol.
func upper(frame []byte, protocol byte) (ip, body []byte, ok bool) {
	const etherType = 0x86dd
	if len(frame) < ethernetLength+ipLength+upperLength || binary.BigEndian.Uint16(frame[12:]) != etherType {
		return nil, nil, false
	}
	ip, body = frame[ethernetLength:ethernetLength+ipLength], frame[ethernetLength+ipLength:]
	length := int(binary.BigEndian.Uint16(ip[4:]))
	if ip[ipNext] != protocol || length < upperLength || length > len(body) {
		return nil, nil, false
	}
	return ip, body[:length], true
}

// frame returns an Ethernet frame with an IPv6 packet. No switch learns its source MAC.
func frame(mac, source, destination []byte, protocol byte, body []byte) []byte {
	text := append(append([]byte(nil), mac[:6]...), 0x02, 0, 0, 0, 0, 0, 0x86, 0xdd, 0x60, 0, 0, 0)
	text = binary.BigEndian.AppendUint16(text, uint16(len(body)))
	text = append(text, protocol, hopLimit)
	return append(append(append(text, source[:16]...), destination[:16]...), body...)
}

// seal writes the checksum of an upper-layer packet at an offset.
func seal(source, destination []byte, protocol byte, body []byte, place int) []byte {
	ip := make([]byte, ipLength)
	ip[ipNext] = protocol
	copy(ip[ipSource:], source[:16])
	copy(ip[ipDestination:], destination[:16])
	sum := checksum(ip, body)
	if sum == 0 {
		sum = 0xffff // in UDP zero means "no checksum" (RFC 8200, section 8.1)
	}
	binary.BigEndian.PutUint16(body[place:], sum)
	return body
}

// replace replaces a part of the data that a checksum covers, and updates the checksum (RFC 1624).
func replace(sum, part, with []byte) {
	correct := uint32(^binary.BigEndian.Uint16(sum))
	for i := 0; i < len(part); i += 2 {
		correct += uint32(^binary.BigEndian.Uint16(part[i:])) + uint32(binary.BigEndian.Uint16(with[i:]))
	}
	binary.BigEndian.PutUint16(sum, ^fold(correct))
	copy(part, with)
}

// fold adds the carries of a sum of 16-bit numbers to it.
func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// checksum computes the checksum of an upper-layer packet after an IPv6 header (RFC 8200, section 8.1). If the packet
// contains its correct checksum, the result is zero.
func checksum(ip, body []byte) uint16 {
	sum := uint32(len(body)) + uint32(ip[ipNext])
	for _, text := range [][]byte{ip[ipSource:ipLength], body} {
		for i := 0; i+1 < len(text); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(text[i:]))
		}
		if len(text)%2 == 1 {
			sum += uint32(text[len(text)-1]) << 8
		}
	}
	return ^fold(sum)
}

func address(text []byte) netip.Addr { return netip.AddrFrom16([16]byte(text)) }
