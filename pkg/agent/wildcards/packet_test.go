package wildcards

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// form is what a test packet differs in from a usual one.
type form struct {
	options  int  // bytes of IPv4 options
	fragment bool // IPv4
	tcp      bool
	parts    bool // the message continues in another segment
	other    byte // protocol, if not UDP or TCP
}

// build returns an IP packet with a payload.
func build(from, to string, message []byte, f form) []byte {
	source, destination := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	ports := binary.BigEndian.AppendUint16(nil, source.Port())
	ports = binary.BigEndian.AppendUint16(ports, destination.Port())
	protocol, upper := byte(udp), append(slices.Clone(ports), 0, byte(8+len(message)), 0, 0)
	if f.tcp {
		protocol, upper = tcp, append(slices.Clone(ports), make([]byte, 20)...) // with 4 bytes of options
		upper[offsetTCP] = 6 << 4
		length := len(message)
		if f.parts {
			length++
		}
		upper = binary.BigEndian.AppendUint16(upper, uint16(length))
	}
	if f.other != 0 {
		protocol = f.other
	}
	upper = append(upper, message...)
	if source.Addr().Is6() {
		header := make([]byte, lengthIPv6)
		header[0], header[nextAt] = 6<<4, protocol
		binary.BigEndian.PutUint16(header[4:], uint16(len(upper)))
		copy(header[8:], source.Addr().AsSlice())
		copy(header[24:], destination.Addr().AsSlice())
		return append(header, upper...)
	}
	header := make([]byte, minIPv4+f.options)
	header[0], header[protocolAt] = 4<<4|byte(len(header)/4), protocol
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(upper)))
	if f.fragment {
		header[6] = 0x20
	}
	copy(header[12:], source.Addr().AsSlice())
	copy(header[16:], destination.Addr().AsSlice())
	return append(header, upper...)
}

// TestPackets passes packets through the filter and the reader.
func TestPackets(t *testing.T) {
	const pod, server, pod6, server6 = "10.244.0.5:40000", "10.96.0.10:53", "[fd01::5]:40000", "[fd02::a]:53"
	message := []byte("a message")
	for name, c := range map[string]struct {
		packet    []byte
		ethertype uint32
		passes    bool
		read      bool
	}{
		"a query":                     {build(pod, server, message, form{}), unix.ETH_P_IP, true, true},
		"an answer":                   {build(server, pod, message, form{}), unix.ETH_P_IP, true, true},
		"an IPv6 query":               {build(pod6, server6, message, form{}), unix.ETH_P_IPV6, true, true},
		"an IPv6 answer":              {build(server6, pod6, message, form{}), unix.ETH_P_IPV6, true, true},
		"options":                     {build(server, pod, message, form{options: 8}), unix.ETH_P_IP, true, true},
		"TCP":                         {build(server, pod, message, form{tcp: true}), unix.ETH_P_IP, true, true},
		"TCP over IPv6":               {build(pod6, server6, message, form{tcp: true}), unix.ETH_P_IPV6, true, true},
		"padding behind the packet":   {append(build(server, pod, message, form{}), 0, 0, 0), unix.ETH_P_IP, true, true},
		"a message of two segments":   {build(server, pod, message, form{tcp: true, parts: true}), unix.ETH_P_IP, true, false},
		"a segment without a message": {build(server, pod, nil, form{tcp: true})[:44], unix.ETH_P_IP, true, false},
		"a short packet":              {build(server, pod, message, form{})[:30], unix.ETH_P_IP, true, false},
		"a fragment":                  {build(server, pod, message, form{fragment: true}), unix.ETH_P_IP, false, true},
		"another port":                {build("10.96.0.10:5353", pod, message, form{}), unix.ETH_P_IP, false, true},
		"another protocol":            {build(server, pod, message, form{other: 132}), unix.ETH_P_IP, false, false},
		"another IPv6 protocol":       {build(server6, pod6, message, form{other: 58}), unix.ETH_P_IPV6, false, false},
		"ARP":                         {make([]byte, 28), unix.ETH_P_ARP, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := filtered(t, c.packet, c.ethertype); got != c.passes {
				t.Errorf("the filter passes it: %v, want %v", got, c.passes)
			}
			p, ok := read(7, c.packet)
			if ok != c.read {
				t.Fatalf("it is read: %v, want %v", ok, c.read)
			}
			if ok && (string(p.message) != string(message) || p.link != 7) {
				t.Errorf("read %+v", p)
			}
		})
	}
	p, _ := read(1, build(server6, pod6, message, form{}))
	if p.source.String() != server6 || p.destination.String() != pod6 {
		t.Errorf("the way is %s to %s", p.source, p.destination)
	}
}

// filtered runs the filter. The virtual machine has no protocol of the frame, so its test is replaced by a constant.
func filtered(t *testing.T, packet []byte, ethertype uint32) bool {
	t.Helper()
	program := filter()
	program[0] = bpf.LoadConstant{Dst: bpf.RegA, Val: ethertype}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(packet)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func FuzzRead(f *testing.F) {
	for _, form := range []form{{}, {options: 8}, {tcp: true}} {
		f.Add(build("10.96.0.10:53", "10.244.0.5:4000", []byte("a message"), form))
		f.Add(build("[fd02::a]:53", "[fd01::5]:4000", []byte("a message"), form))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if p, ok := read(1, packet); ok && (!p.source.IsValid() || !p.destination.IsValid()) {
			t.Errorf("a packet without a way: %+v", p)
		}
	})
}
