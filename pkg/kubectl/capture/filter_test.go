package capture

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"
)

// frame builds an Ethernet frame of these layers.
func frame(t *testing.T, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	all := append(parts, gopacket.Payload("some bytes of payload"))
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true}, all...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func ethernet(of layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: of}
}

func v4(protocol layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: protocol, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
}

func v6(protocol layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
}

// TestFilter runs each filter on each frame, in the same virtual machine as the kernel's.
func TestFilter(t *testing.T) {
	later := v4(layers.IPProtocolUDP)
	later.FragOffset = 100
	options := v4(layers.IPProtocolTCP)
	options.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}
	tcp, udp := &layers.TCP{SrcPort: 4000, DstPort: 80}, &layers.UDP{SrcPort: 53, DstPort: 5000}
	frames := map[string][]byte{
		"tcp4":     frame(t, ethernet(layers.EthernetTypeIPv4), v4(layers.IPProtocolTCP), tcp),
		"tcp4opts": frame(t, ethernet(layers.EthernetTypeIPv4), options, tcp),
		"udp4":     frame(t, ethernet(layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP), udp),
		"later4":   frame(t, ethernet(layers.EthernetTypeIPv4), later, udp),
		"icmp4":    frame(t, ethernet(layers.EthernetTypeIPv4), v4(layers.IPProtocolICMPv4), &layers.ICMPv4{}),
		"tcp6":     frame(t, ethernet(layers.EthernetTypeIPv6), v6(layers.IPProtocolTCP), tcp),
		"udp6":     frame(t, ethernet(layers.EthernetTypeIPv6), v6(layers.IPProtocolUDP), udp),
		"icmp6":    frame(t, ethernet(layers.EthernetTypeIPv6), v6(layers.IPProtocolICMPv6), &layers.ICMPv6{}),
		"arp": frame(t, ethernet(layers.EthernetTypeARP), &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4,
			Operation: layers.ARPRequest, SourceHwAddress: make([]byte, 6), SourceProtAddress: []byte{10, 0, 0, 1},
			DstHwAddress: make([]byte, 6), DstProtAddress: []byte{10, 0, 0, 2}}),
		"short": {1, 2, 3},
	}
	order := strings.Fields("tcp4 tcp4opts udp4 later4 icmp4 tcp6 udp6 icmp6 arp short")
	ip := netip.MustParseAddr
	for name, c := range map[string]struct {
		filter Filter
		want   string
	}{
		"all":               {Filter{}, "tcp4 tcp4opts udp4 later4 icmp4 tcp6 udp6 icmp6 arp short"},
		"tcp":               {Filter{Protocol: "tcp"}, "tcp4 tcp4opts tcp6"},
		"icmp":              {Filter{Protocol: "icmp"}, "icmp4 icmp6"},
		"arp":               {Filter{Protocol: "arp"}, "arp"},
		"sctp":              {Filter{Protocol: "sctp"}, ""},
		"source port":       {Filter{Port: 53}, "udp4 udp6"},
		"destination port":  {Filter{Port: 80}, "tcp4 tcp4opts tcp6"},
		"port of another":   {Filter{Protocol: "udp", Port: 80}, ""},
		"port of it":        {Filter{Protocol: "udp", Port: 5000}, "udp4 udp6"},
		"source, IPv4":      {Filter{Host: ip("10.0.0.1")}, "tcp4 tcp4opts udp4 later4 icmp4"},
		"destination, IPv4": {Filter{Host: ip("10.0.0.2"), Protocol: "udp"}, "udp4 later4"},
		"source, IPv6":      {Filter{Host: ip("fd00::1")}, "tcp6 udp6 icmp6"},
		"destination, IPv6": {Filter{Host: ip("fd00::2"), Port: 80}, "tcp6"},
		"another, IPv4":     {Filter{Host: ip("10.0.0.3")}, ""},
		"another, IPv6":     {Filter{Host: ip("fd00::3")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := c.filter.program()
			if err != nil {
				t.Fatal(err)
			}
			program, _ := bpf.Disassemble(raw)
			vm, err := bpf.NewVM(program)
			if err != nil {
				t.Fatal(err)
			}
			var selected []string
			for _, of := range order {
				n, err := vm.Run(frames[of])
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					selected = append(selected, of)
				}
			}
			if got := strings.Join(selected, " "); got != c.want {
				t.Errorf("selects %q, want %q", got, c.want)
			}
		})
	}
}

func TestFilterThatSelectsNothing(t *testing.T) {
	for text, f := range map[string]Filter{
		`protocol: "http" is not one of [arp icmp sctp tcp udp]`: {Protocol: "http"},
		"port: packets of protocol icmp have no ports":           {Protocol: "icmp", Port: 80},
		"host: packets of protocol arp are selected without it":  {Protocol: "arp", Host: netip.MustParseAddr("10.0.0.1")},
	} {
		if _, err := f.program(); err == nil || err.Error() != text {
			t.Errorf("%+v: %v, want %s", f, err, text)
		}
	}
}
