package wildcards

import (
	"encoding/binary"
	"net/netip"
)

const dnsPort = 53

// packet is a DNS message and its way.
type packet struct {
	link                int // index of the link that it crossed
	source, destination netip.AddrPort
	message             []byte
}

// Lengths of headers and offsets in them, in bytes (RFC 791, RFC 8200, RFC 768, RFC 9293).
const (
	minIPv4, lengthIPv6  = 20, 40
	protocolAt, nextAt   = 9, 6
	sourceAt4, sourceAt6 = 12, 8
	lengthUDP, minTCP    = 8, 20
	offsetTCP            = 12
	udp, tcp             = 17, 6
	lengthPrefix         = 2 // of a message over TCP (RFC 1035, 4.2.2)
)

// read returns the DNS message in a packet that begins with its IP header. ok is false for other packets, and for a
// message over TCP that is not exactly one segment. The filter of the tap has excluded fragments.
func read(link int, ip []byte) (p packet, ok bool) {
	var source, destination netip.Addr
	var protocol byte
	var rest []byte
	switch {
	case len(ip) >= minIPv4 && ip[0]>>4 == 4:
		header := int(ip[0]&0xf) * 4
		total := int(binary.BigEndian.Uint16(ip[2:]))
		if header < minIPv4 || total < header || total > len(ip) {
			return packet{}, false
		}
		source, destination = addresses(ip[sourceAt4:], netip.IPv4Unspecified())
		protocol, rest = ip[protocolAt], ip[header:total]
	case len(ip) >= lengthIPv6 && ip[0]>>4 == 6:
		length := int(binary.BigEndian.Uint16(ip[4:]))
		if length > len(ip)-lengthIPv6 {
			return packet{}, false
		}
		source, destination = addresses(ip[sourceAt6:], netip.IPv6Unspecified())
		protocol, rest = ip[nextAt], ip[lengthIPv6:lengthIPv6+length]
	default:
		return packet{}, false
	}
	message, ok := payload(protocol, rest)
	if !ok {
		return packet{}, false
	}
	return packet{link, netip.AddrPortFrom(source, binary.BigEndian.Uint16(rest)),
		netip.AddrPortFrom(destination, binary.BigEndian.Uint16(rest[2:])), message}, true
}

// addresses returns the two addresses that a header has one after the other, in the family of the third.
func addresses(header []byte, family netip.Addr) (source, destination netip.Addr) {
	n := family.BitLen() / 8
	source, _ = netip.AddrFromSlice(header[:n])
	destination, _ = netip.AddrFromSlice(header[n : 2*n])
	return source, destination
}

// payload returns the message behind a header of UDP or TCP, which it checks to be complete.
func payload(protocol byte, rest []byte) (message []byte, ok bool) {
	switch {
	case protocol == udp && len(rest) >= lengthUDP:
		return rest[lengthUDP:], true
	case protocol == tcp && len(rest) >= minTCP:
		header := int(rest[offsetTCP]>>4) * 4
		if header < minTCP || len(rest) < header+lengthPrefix {
			return nil, false
		}
		message = rest[header+lengthPrefix:]
		return message, int(binary.BigEndian.Uint16(rest[header:])) == len(message)
	}
	return nil, false
}
