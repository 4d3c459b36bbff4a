package acl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Packet is the first packet of a connection, or a later one.
type Packet struct {
	Src, Dst netip.Addr
	// Protocol is "tcp", "udp", "sctp", "icmp4" or "icmp6".
	Protocol         string
	SrcPort, DstPort uint16
	// Blocked is true for an open connection that an ACL has denied since (ct_mark.blocked).
	Blocked         bool
	inport, outport string
}

// value is a constant to which a field is compared.
type value struct {
	number, mask uint16
	network      netip.Prefix
	names        map[string]bool // names of ports
	set          *addresses
}

// addresses are the elements of an address set.
type addresses struct {
	single   map[netip.Addr]bool
	networks []netip.Prefix
}

func (a *addresses) add(text string) error {
	network, err := prefix(text)
	if err != nil {
		return err
	}
	if network.IsSingleIP() {
		a.single[network.Addr()] = true
	} else {
		a.networks = append(a.networks, network)
	}
	return nil
}

func (a *addresses) contains(address netip.Addr) bool {
	if a.single[address] {
		return true
	}
	for _, n := range a.networks {
		if n.Contains(address) {
			return true
		}
	}
	return false
}

// prefix parses an address or a network. OVN ignores the bits outside the mask.
func prefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

type class int

const (
	address class = iota
	number
	port
)

// field is a field that can be compared.
type field struct {
	class   class
	is4     bool
	has     func(p *Packet) bool
	address func(p *Packet) netip.Addr
	number  func(p *Packet) uint16
	port    func(p *Packet) string
}

func (f field) compare(p *Packet, op string, v value) bool {
	switch f.class {
	case address:
		if v.set != nil {
			return v.set.contains(f.address(p))
		}
		return v.network.Contains(f.address(p))
	case port:
		return v.names[f.port(p)]
	}
	n := f.number(p)
	switch op {
	case "==":
		return n&v.mask == v.number&v.mask
	case "<":
		return n < v.number
	case "<=":
		return n <= v.number
	case ">":
		return n > v.number
	default:
		return n >= v.number
	}
}

// fieldOf finds a field by its name.
func fieldOf(name string) (field, bool) {
	owner, which, _ := strings.Cut(name, ".")
	switch {
	case name == "inport":
		return field{class: port, has: always, port: func(p *Packet) string { return p.inport }}, true
	case name == "outport":
		return field{class: port, has: always, port: func(p *Packet) string { return p.outport }}, true
	case name == "ip.proto":
		return field{class: number, has: always, number: protocolNumber}, true
	case (owner == "ip4" || owner == "ip6") && (which == "src" || which == "dst"):
		f := field{class: address, is4: owner == "ip4", has: predicates[owner], address: func(p *Packet) netip.Addr { return p.Src }}
		if which == "dst" {
			f.address = func(p *Packet) netip.Addr { return p.Dst }
		}
		return f, true
	case (owner == "tcp" || owner == "udp" || owner == "sctp") && (which == "src" || which == "dst"):
		f := field{class: number, has: predicates[owner], number: func(p *Packet) uint16 { return p.SrcPort }}
		if which == "dst" {
			f.number = func(p *Packet) uint16 { return p.DstPort }
		}
		return f, true
	}
	return field{}, false
}

func always(*Packet) bool { return true }

func never(*Packet) bool { return false }

func protocolNumber(p *Packet) uint16 {
	return map[string]uint16{"icmp4": 1, "tcp": 6, "udp": 17, "icmp6": 58, "sctp": 132}[p.Protocol]
}

// predicates assume a packet that begins a connection and is not ARP or Neighbor Discovery.
var predicates = map[string]func(p *Packet) bool{
	"ip": always, "ip4": func(p *Packet) bool { return p.Dst.Is4() }, "ip6": func(p *Packet) bool { return p.Dst.Is6() },
	"tcp": protocolIs("tcp"), "udp": protocolIs("udp"), "sctp": protocolIs("sctp"), "icmp4": protocolIs("icmp4"),
	"icmp6": protocolIs("icmp6"),
	"icmp":  func(p *Packet) bool { return strings.HasPrefix(p.Protocol, "icmp") },
	"arp":   never, "nd": never, "nd_ns": never, "nd_na": never, "nd_rs": never, "nd_ra": never, "rarp": never,
	"ip4.mcast": func(p *Packet) bool { return p.Dst.Is4() && p.Dst.IsMulticast() },
	"ip6.mcast": func(p *Packet) bool { return p.Dst.Is6() && p.Dst.IsMulticast() },
	"ct.new":    always, "ct.trk": always, "ct.est": never, "ct.rel": never, "ct.rpl": never, "ct.inv": never,
}

func protocolIs(name string) func(p *Packet) bool {
	return func(p *Packet) bool { return p.Protocol == name }
}

// valueOf parses a constant for a field.
func (f field) valueOf(t token, db *Database) (value, error) {
	switch {
	case f.class == port && t.kind == str:
		return value{names: map[string]bool{t.text: true}}, nil
	case f.class == port && t.kind == group:
		g := db.groups[t.text]
		if g == nil {
			return value{}, fmt.Errorf("port group %s does not exist", t.text)
		}
		return value{names: g.ports}, nil
	case f.class == address && t.kind == set:
		s := db.sets[t.text]
		if s == nil {
			return value{}, fmt.Errorf("address set %s does not exist", t.text)
		}
		return value{set: s}, nil
	case f.class == address && t.kind == word:
		n, err := prefix(t.text)
		if err == nil && n.Addr().Is4() != f.is4 {
			err = fmt.Errorf("%s does not have the field's family", t.text)
		}
		return value{network: n}, err
	case f.class == number && t.kind == word:
		text, mask, masked := strings.Cut(t.text, "/")
		v := value{mask: 0xffff}
		n, err := strconv.ParseUint(text, 0, 16)
		if v.number = uint16(n); err == nil && masked {
			n, err = strconv.ParseUint(mask, 0, 16)
			v.mask = uint16(n)
		}
		return v, err
	}
	return value{}, fmt.Errorf("%v does not fit the field", t)
}
