package pcaptext

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// file is a pcap file with one packet for each list of layers.
func file(t *testing.T, packets ...[]gopacket.SerializableLayer) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := pcapgo.NewWriterNanos(&out)
	if err := writer.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, packet := range packets {
		buffer := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true}, packet...); err != nil {
			t.Fatal(err)
		}
		bytes := buffer.Bytes()
		info := gopacket.CaptureInfo{Timestamp: begin, CaptureLength: len(bytes), Length: len(bytes)}
		if err := writer.WritePacket(info, bytes); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestPrint(t *testing.T) {
	mac := func(n byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, n} }
	ethernet := func(of layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: mac(1), DstMAC: mac(2), EthernetType: of}
	}
	v4 := func(protocol layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: protocol, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	}
	v6 := func(protocol layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
	}
	fragment := v4(layers.IPProtocolUDP)
	fragment.FragOffset = 185
	arp := func(operation uint16) *layers.ARP {
		return &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, Operation: operation, HwAddressSize: 6,
			ProtAddressSize: 4, SourceHwAddress: mac(1), SourceProtAddress: []byte{10, 0, 0, 1},
			DstHwAddress: mac(0), DstProtAddress: []byte{10, 0, 0, 2}}
	}
	packets := map[string][]gopacket.SerializableLayer{
		"10.0.0.1:4000 > 10.0.0.2:80 TCP SYN, 60 bytes": {ethernet(layers.EthernetTypeIPv4), v4(layers.IPProtocolTCP),
			&layers.TCP{SrcPort: 4000, DstPort: 80, SYN: true}},
		"[fd00::1]:80 > [fd00::2]:4000 TCP PSH ACK, 74 bytes": {ethernet(layers.EthernetTypeIPv6), v6(layers.IPProtocolTCP),
			&layers.TCP{SrcPort: 80, DstPort: 4000, PSH: true, ACK: true}},
		"10.0.0.1:53 > 10.0.0.2:5000 UDP, 60 bytes": {ethernet(layers.EthernetTypeIPv4), v4(layers.IPProtocolUDP),
			&layers.UDP{SrcPort: 53, DstPort: 5000}, gopacket.Payload("abc")},
		"10.0.0.1 > 10.0.0.2 UDP fragment at 1480, 60 bytes": {ethernet(layers.EthernetTypeIPv4), fragment, gopacket.Payload("abc")},
		"10.0.0.1 > 10.0.0.2 ICMP EchoRequest, 60 bytes": {ethernet(layers.EthernetTypeIPv4), v4(layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0)}},
		"02:00:00:00:00:01 > 02:00:00:00:00:02 ARP who has 10.0.0.2, from 10.0.0.1, 60 bytes": {
			ethernet(layers.EthernetTypeARP), arp(layers.ARPRequest)},
		"02:00:00:00:00:01 > 02:00:00:00:00:02 ARP 10.0.0.1 is at 020000000001, 60 bytes": {
			ethernet(layers.EthernetTypeARP), arp(layers.ARPReply)},
	}
	for want, packet := range packets {
		pcap := file(t, packet, packet)
		for name, c := range map[string]struct {
			pcap  []byte
			lines int
		}{"whole": {pcap, 2}, "cut": {pcap[:len(pcap)-5], 1}, "empty": {nil, 0}} {
			var out strings.Builder
			if err := Print(bytes.NewReader(c.pcap), &out); err != nil {
				t.Errorf("%s, %s: %v", want, name, err)
			}
			line := begin.Format("15:04:05.000000") + "  " + want + "\n"
			if got := out.String(); got != strings.Repeat(line, c.lines) {
				t.Errorf("%s: got\n%swant %d times\n%s", name, got, c.lines, line)
			}
		}
	}
}

func TestPrintOfSomethingElse(t *testing.T) {
	if err := Print(strings.NewReader("this is not a file of packets"), &strings.Builder{}); err == nil {
		t.Error("no error")
	}
}
