package capture

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Filter selects packets. The zero Filter selects all. A packet must match all of its fields.
type Filter struct {
	// Protocol is one of Protocols, or empty.
	Protocol string
	// Host is the source or the destination of the packet, or the zero Addr.
	Host netip.Addr
	// Port is the source or the destination port of TCP, UDP or SCTP, or 0. Fragments other than the first have no ports.
	Port uint16
}

// Protocols are the names of protocols in a Filter.
var Protocols = []string{"arp", "icmp", "sctp", "tcp", "udp"}

// Numbers of protocols, by name: over IPv4, and over IPv6 if that differs.
var (
	protocols     = map[string]uint32{"icmp": unix.IPPROTO_ICMP, "sctp": unix.IPPROTO_SCTP, "tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}
	protocolsIPv6 = map[string]uint32{"icmp": unix.IPPROTO_ICMPV6}
	withPorts     = []string{"sctp", "tcp", "udp"}
)

// Check returns an error that names the field, if the filter selects nothing.
func (f Filter) Check() error {
	switch {
	case f.Protocol != "" && !slices.Contains(Protocols, f.Protocol):
		return fmt.Errorf("protocol: %q is not one of %v", f.Protocol, Protocols)
	case f.Port != 0 && f.Protocol != "" && !slices.Contains(withPorts, f.Protocol):
		return fmt.Errorf("port: packets of protocol %s have no ports", f.Protocol)
	case f.Protocol == "arp" && f.Host.IsValid():
		return fmt.Errorf("host: packets of protocol arp are selected without it")
	}
	return nil
}

// Offsets in an Ethernet frame without a VLAN tag, in bytes (RFC 791, RFC 8200).
const (
	etherType    = 12
	headerIPv4   = 14
	fragmentIPv4 = 20
	protocolIPv4 = 23
	sourceIPv4   = 26
	nextHeader   = 20
	sourceIPv6   = 22
	portsIPv6    = 54
	fragmentMask = 0x1fff
	portLength   = 2
)

// program returns the filter for the kernel. It has at least one instruction, because a packet socket takes an empty
// program for a request to remove its program, and fails without one. It does not follow extension headers of IPv6.
func (f Filter) program() ([]bpf.RawInstruction, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	var p assembler
	if f == (Filter{}) {
		return p.assemble()
	}
	p.load(etherType, 2)
	if f.Protocol == "arp" {
		p.require(unix.ETH_P_ARP)
		return p.assemble()
	}
	v4, v6 := !f.Host.IsValid() || f.Host.Is4(), !f.Host.IsValid() || f.Host.Is6()
	if v4 {
		p.unless(unix.ETH_P_IP, "IPv6")
		f.addIPv4(&p)
		p.accept()
	}
	p.mark("IPv6")
	if !v6 {
		p.reject()
		return p.assemble()
	}
	p.load(etherType, 2)
	p.require(unix.ETH_P_IPV6)
	f.addIPv6(&p)
	return p.assemble()
}

func (f Filter) addIPv4(p *assembler) {
	if numbers := f.numbers(false); len(numbers) > 0 {
		p.load(protocolIPv4, 1)
		p.require(numbers...)
	}
	if f.Host.IsValid() {
		p.address(f.Host.AsSlice(), sourceIPv4, "host4")
	}
	if f.Port != 0 {
		p.load(fragmentIPv4, 2)
		p.rejectIf(fragmentMask)
		p.add(bpf.LoadMemShift{Off: headerIPv4})
		p.add(bpf.LoadIndirect{Off: headerIPv4, Size: portLength})
		p.when(uint32(f.Port), "port4")
		p.add(bpf.LoadIndirect{Off: headerIPv4 + portLength, Size: portLength})
		p.require(uint32(f.Port))
		p.mark("port4")
	}
}

func (f Filter) addIPv6(p *assembler) {
	if numbers := f.numbers(true); len(numbers) > 0 {
		p.load(nextHeader, 1)
		p.require(numbers...)
	}
	if f.Host.IsValid() {
		p.address(f.Host.AsSlice(), sourceIPv6, "host6")
	}
	if f.Port != 0 {
		p.load(portsIPv6, portLength)
		p.when(uint32(f.Port), "port6")
		p.load(portsIPv6+portLength, portLength)
		p.require(uint32(f.Port))
		p.mark("port6")
	}
}

// numbers lists the protocol numbers that the filter selects, or nil for all.
func (f Filter) numbers(v6 bool) (numbers []uint32) {
	names := []string{f.Protocol}
	switch {
	case f.Protocol == "" && f.Port == 0:
		return nil
	case f.Protocol == "":
		names = withPorts
	}
	for _, name := range names {
		number := protocols[name]
		if other, differs := protocolsIPv6[name]; differs && v6 {
			number = other
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// whole is how many bytes of a selected packet the kernel passes on: all.
const whole = math.MaxUint32

// assembler builds a program whose jumps have labels. Jumps only go forward.
type assembler struct {
	all    []bpf.Instruction
	jumps  map[int]target // instruction -> where it goes
	labels map[string]int
}

// target is where a jump goes: if its comparison is true, and if it is false. Empty is the next instruction.
type target struct{ yes, no string }

const (
	accepted = "accept"
	rejected = "reject"
)

func (p *assembler) add(i bpf.Instruction) { p.all = append(p.all, i) }

func (p *assembler) load(offset uint32, size int) { p.add(bpf.LoadAbsolute{Off: offset, Size: size}) }

func (p *assembler) jump(test bpf.JumpTest, value uint32, to target) {
	if p.jumps == nil {
		p.jumps = map[int]target{}
	}
	p.jumps[len(p.all)] = to
	p.add(bpf.JumpIf{Cond: test, Val: value})
}

// require rejects the packet unless what was loaded is one of the values.
func (p *assembler) require(values ...uint32) {
	label := fmt.Sprintf("one of %d", len(p.all))
	for _, value := range values[:len(values)-1] {
		p.jump(bpf.JumpEqual, value, target{yes: label})
	}
	p.jump(bpf.JumpEqual, values[len(values)-1], target{no: rejected})
	p.mark(label)
}

// when goes to a label if what was loaded is the value, unless if it is not.
func (p *assembler) when(value uint32, label string) {
	p.jump(bpf.JumpEqual, value, target{yes: label})
}

func (p *assembler) unless(value uint32, label string) {
	p.jump(bpf.JumpEqual, value, target{no: label})
}

// rejectIf rejects the packet if what was loaded has one of the bits.
func (p *assembler) rejectIf(bits uint32) { p.jump(bpf.JumpBitsSet, bits, target{yes: rejected}) }

func (p *assembler) accept() { p.add(bpf.RetConstant{Val: whole}) }

func (p *assembler) reject() { p.add(bpf.RetConstant{}) }

func (p *assembler) mark(label string) {
	if p.labels == nil {
		p.labels = map[string]int{}
	}
	p.labels[label] = len(p.all)
}

// address requires that the source or the destination, which follows it, is an address.
func (p *assembler) address(bytes []byte, source uint32, label string) {
	const word = 4
	for i := 0; i < len(bytes); i += word {
		p.load(source+uint32(i), word) //nolint:gosec // an address has at most 16 bytes
		p.unless(binary.BigEndian.Uint32(bytes[i:]), label+" destination")
	}
	p.when(binary.BigEndian.Uint32(bytes[len(bytes)-word:]), label)
	p.mark(label + " destination")
	for i := 0; i < len(bytes); i += word {
		p.load(source+uint32(len(bytes)+i), word) //nolint:gosec // the same
		p.require(binary.BigEndian.Uint32(bytes[i:]))
	}
	p.mark(label)
}

// assemble accepts what reached the end, and resolves the labels.
func (p *assembler) assemble() ([]bpf.RawInstruction, error) {
	p.mark(accepted)
	p.accept()
	p.mark(rejected)
	p.reject()
	for at, to := range p.jumps {
		jump, _ := p.all[at].(bpf.JumpIf)
		jump.SkipTrue, jump.SkipFalse = p.skip(at, to.yes), p.skip(at, to.no)
		p.all[at] = jump
	}
	return bpf.Assemble(p.all)
}

// skip returns the distance from a jump to a label. A program has fewer than 100 instructions.
func (p *assembler) skip(at int, label string) uint8 {
	if label == "" {
		return 0
	}
	return uint8(p.labels[label] - at - 1) //nolint:gosec // see above
}
