// Package pcaptext writes packets as lines of text.
package pcaptext

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Print reads a pcap file, and writes each packet as a line as soon as it is read. A file that ends within a packet is
// no error: the program that wrote it was interrupted.
func Print(pcap io.Reader, out io.Writer) error {
	reader, err := pcapgo.NewReader(pcap)
	if errors.Is(err, io.EOF) {
		return nil // nothing was recorded; the program that should have written it says why
	}
	if err != nil {
		return fmt.Errorf("the answer is no pcap file: %w", err)
	}
	for {
		packet, info, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s  %s\n", info.Timestamp.Format("15:04:05.000000"), Describe(packet, info.Length)); err != nil {
			return err
		}
	}
}

// Describe returns a packet's ends, protocol and length on the wire: "10.244.0.3:41000 > 10.244.1.4:80 TCP SYN, 74 bytes".
func Describe(frame []byte, length int) string {
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	source, destination := endsOf(packet)
	return fmt.Sprintf("%s > %s %s, %d bytes", source, destination, whatIs(packet), length)
}

// endsOf returns the addresses of the network layer, or of Ethernet, with the ports.
func endsOf(packet gopacket.Packet) (source, destination string) {
	if network := packet.NetworkLayer(); network != nil {
		source, destination = network.NetworkFlow().Src().String(), network.NetworkFlow().Dst().String()
	} else if link := packet.LinkLayer(); link != nil {
		source, destination = link.LinkFlow().Src().String(), link.LinkFlow().Dst().String()
	}
	if transport := packet.TransportLayer(); transport != nil {
		source = net.JoinHostPort(source, transport.TransportFlow().Src().String())
		destination = net.JoinHostPort(destination, transport.TransportFlow().Dst().String())
	}
	return source, destination
}

// whatIs names the innermost protocol that decides about a packet, with its flags or its type.
func whatIs(packet gopacket.Packet) string {
	for _, layer := range packet.Layers() {
		switch l := layer.(type) {
		case *layers.ARP:
			return arp(l)
		case *layers.ICMPv4:
			return "ICMP " + l.TypeCode.String()
		case *layers.ICMPv6:
			return "ICMPv6 " + l.TypeCode.String()
		case *layers.TCP:
			return "TCP" + flags(l)
		case *layers.UDP:
			return "UDP"
		case *layers.SCTP:
			return "SCTP"
		case *layers.IPv4:
			if l.FragOffset > 0 {
				return fmt.Sprintf("%s fragment at %d", l.Protocol, int(l.FragOffset)*8) // in units of 8 bytes (RFC 791)
			}
		}
	}
	if all := packet.Layers(); len(all) > 0 {
		return all[len(all)-1].LayerType().String()
	}
	return "unknown"
}

func arp(a *layers.ARP) string {
	sender, _ := netip.AddrFromSlice(a.SourceProtAddress)
	target, _ := netip.AddrFromSlice(a.DstProtAddress)
	if a.Operation == layers.ARPReply {
		return fmt.Sprintf("ARP %s is at %x", sender, a.SourceHwAddress)
	}
	return fmt.Sprintf("ARP who has %s, from %s", target, sender)
}

func flags(t *layers.TCP) string {
	var text strings.Builder
	for _, flag := range []struct {
		name string
		set  bool
	}{{"SYN", t.SYN}, {"FIN", t.FIN}, {"RST", t.RST}, {"PSH", t.PSH}, {"ACK", t.ACK}} {
		if flag.set {
			text.WriteString(" " + flag.name)
		}
	}
	return text.String()
}
