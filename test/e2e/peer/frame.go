package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/spf13/cobra"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// kinds are the payloads that a frame may carry. Each contains the label, so that a listener can distinguish frames.
var kinds = map[string]func(lie, string) ([]byte, uint16){
	"udp":           lie.udp,
	"fragment":      lie.fragment,
	"arp-reply":     arp(arpReply),
	"arp-request":   arp(arpRequest),
	"advertisement": neighbor(ipv6.ICMPTypeNeighborAdvertisement),
	"solicitation":  neighbor(ipv6.ICMPTypeNeighborSolicitation),
	"router":        lie.router,
	"redirect":      lie.redirect,
	"lease":         lie.lease,
}

// frame is an Ethernet frame, of which every field may be false.
type frame struct {
	kind           string
	link           string
	srcMAC, dstMAC string
	src, dst       string
	claim, mac     string
	about          string
	label          string
}

// lie is a frame with parsed fields.
type lie struct {
	srcMAC, dstMAC net.HardwareAddr
	src, dst       netip.Addr
	claim          netip.Addr       // the address whose MAC is announced or requested
	mac            net.HardwareAddr // announced for claim
	about          netip.Addr       // destination of a redirect
}

func newFrame() *cobra.Command {
	var f frame
	cmd := &cobra.Command{
		Use:   "frame",
		Short: "Send one frame from any MAC and IP address: a UDP datagram, or a message that announces or resolves an address",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return f.send() },
	}
	cmd.Flags().StringVar(&f.kind, "kind", "udp",
		"udp, fragment, arp-reply, arp-request, advertisement, solicitation, router, redirect or lease")
	cmd.Flags().StringVar(&f.link, "link", "eth0", "the link to send on")
	cmd.Flags().StringVar(&f.srcMAC, "src-mac", "", "source MAC of the frame (default: the link's)")
	cmd.Flags().StringVar(&f.dstMAC, "dst-mac", "", "destination MAC of the frame")
	cmd.Flags().StringVar(&f.src, "src", "", "source address; of ARP, the sender's")
	cmd.Flags().StringVar(&f.dst, "dst", "", "destination address; of ARP, the target's")
	cmd.Flags().StringVar(&f.claim, "claim", "",
		"target of an advertisement or solicitation; the network, router or address that a router, redirect or lease announces")
	cmd.Flags().StringVar(&f.about, "about", "", "destination that a redirect concerns")
	cmd.Flags().StringVar(&f.mac, "mac", "", "MAC of ARP's sender or ND's option (default: the link's)")
	cmd.Flags().StringVar(&f.label, "label", "", "label that a listener prints")
	return cmd
}

func (f frame) send() error {
	link, err := net.InterfaceByName(f.link)
	if err != nil {
		return err
	}
	bytes, err := f.bytes(link.HardwareAddr)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, bytes, 0, &unix.SockaddrLinklayer{Ifindex: link.Index})
}

func (f frame) bytes(own net.HardwareAddr) ([]byte, error) {
	make, ok := kinds[f.kind]
	if !ok {
		return nil, fmt.Errorf("--kind: unknown kind %q", f.kind)
	}
	l, err := f.read(own)
	if err != nil {
		return nil, err
	}
	payload, etherType := make(l, labelMark+f.label)
	out := append(append([]byte{}, l.dstMAC...), l.srcMAC...)
	return append(binary.BigEndian.AppendUint16(out, etherType), payload...), nil
}

// read parses the flags. The default for a MAC is the link's own.
func (f frame) read(own net.HardwareAddr) (lie, error) {
	l := lie{srcMAC: own, mac: own}
	var errs [5]error
	if f.srcMAC != "" {
		l.srcMAC, errs[0] = net.ParseMAC(f.srcMAC)
	}
	if f.mac != "" {
		l.mac, errs[1] = net.ParseMAC(f.mac)
	}
	l.dstMAC, errs[2] = net.ParseMAC(f.dstMAC)
	if f.claim != "" {
		l.claim, errs[3] = netip.ParseAddr(f.claim)
	}
	if f.about != "" {
		l.about, errs[4] = netip.ParseAddr(f.about)
	}
	src, srcErr := netip.ParseAddr(f.src)
	dst, dstErr := netip.ParseAddr(f.dst)
	if err := errors.Join(append(errs[:], srcErr, dstErr)...); err != nil {
		return l, err
	}
	if src.Is4() != dst.Is4() {
		return l, fmt.Errorf("%s and %s belong to different families", src, dst)
	}
	l.src, l.dst = src, dst
	return l, nil
}

func (l lie) udp(label string) ([]byte, uint16) {
	udp := datagram(l.src, l.dst, label)
	if l.src.Is4() {
		return append(headerV4(l.src, l.dst, len(udp)), udp...), unix.ETH_P_IP
	}
	return append(headerV6(l.src, l.dst, unix.IPPROTO_UDP, len(udp)), udp...), unix.ETH_P_IPV6
}

// fragment is the first fragment of a datagram that never becomes complete. It has the minimum size that Open
// vSwitch accepts.
func (l lie) fragment(label string) ([]byte, uint16) {
	const least, more = 1200, 0x2000 // bytes; the flag of RFC 791 §3.1
	udp := datagram(l.src, l.dst, label+string(make([]byte, least)))
	h := headerV4(l.src, l.dst, len(udp)&^7)
	binary.BigEndian.PutUint16(h[4:], uint16(rand.IntN(1<<16))) // fragments must not match each other
	binary.BigEndian.PutUint16(h[6:], more)
	binary.BigEndian.PutUint16(h[10:], 0)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, udp[:len(udp)&^7]...), unix.ETH_P_IP
}

// datagram is a UDP header (RFC 768) and payload, with the checksum over the pseudo header.
func datagram(src, dst netip.Addr, payload string) []byte {
	return datagramBetween(netip.AddrPortFrom(src, 40000), netip.AddrPortFrom(dst, echoPort), payload)
}

func datagramBetween(src, dst netip.AddrPort, payload string) []byte {
	length := 8 + len(payload)
	udp := make([]byte, 8, length)
	binary.BigEndian.PutUint16(udp[0:], src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(length))
	udp = append(udp, payload...)
	binary.BigEndian.PutUint16(udp[6:], pseudoChecksum(src.Addr(), dst.Addr(), unix.IPPROTO_UDP, udp))
	return udp
}

// pseudoChecksum also covers the pseudo header (RFC 8200 §8.1; IPv4's gives the same sum).
func pseudoChecksum(src, dst netip.Addr, protocol uint32, message []byte) uint16 {
	pseudo := append(append([]byte{}, src.AsSlice()...), dst.AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(message)))
	pseudo = binary.BigEndian.AppendUint32(pseudo, protocol)
	return checksum(append(pseudo, message...))
}

func headerV4(src, dst netip.Addr, length int) []byte {
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+length))
	copy(h[12:], src.AsSlice())
	copy(h[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return h
}

// headerV6 has the hop limit 255, which Neighbor Discovery requires (RFC 4861 §7.1).
func headerV6(src, dst netip.Addr, protocol byte, length int) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, protocol, 255
	binary.BigEndian.PutUint16(h[4:], uint16(length))
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	return h
}

// checksum is the Internet checksum (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i, octet := range b {
		if i%2 == 0 {
			sum += uint32(octet) << 8
		} else {
			sum += uint32(octet)
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
