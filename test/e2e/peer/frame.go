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

// kinds are what a frame may carry: each has the label, so that a listener tells one from another.
var kinds = map[string]func(lie, string) ([]byte, uint16){
	"udp":           lie.udp,
	"fragment":      lie.fragment,
	"arp-reply":     arp(arpReply),
	"arp-request":   arp(arpRequest),
	"advertisement": neighbor(ipv6.ICMPTypeNeighborAdvertisement),
	"solicitation":  neighbor(ipv6.ICMPTypeNeighborSolicitation),
}

// frame is an Ethernet frame, every field of which may be a lie.
type frame struct {
	kind           string
	link           string
	srcMAC, dstMAC string
	src, dst       string
	claim, mac     string
	label          string
}

// lie is a frame whose fields are read.
type lie struct {
	srcMAC, dstMAC net.HardwareAddr
	src, dst       netip.Addr
	claim          netip.Addr       // whose MAC is announced or asked for
	mac            net.HardwareAddr // that claim is said to have
}

func newFrame() *cobra.Command {
	var f frame
	cmd := &cobra.Command{
		Use:   "frame",
		Short: "Send one frame from any MAC and IP address: a UDP datagram, or what announces an address or asks for it",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return f.send() },
	}
	cmd.Flags().StringVar(&f.kind, "kind", "udp", "udp, fragment, arp-reply, arp-request, advertisement or solicitation")
	cmd.Flags().StringVar(&f.link, "link", "eth0", "the link to send on")
	cmd.Flags().StringVar(&f.srcMAC, "src-mac", "", "source MAC of the frame (default: the link's)")
	cmd.Flags().StringVar(&f.dstMAC, "dst-mac", "", "destination MAC of the frame")
	cmd.Flags().StringVar(&f.src, "src", "", "source address; of ARP, the sender's")
	cmd.Flags().StringVar(&f.dst, "dst", "", "destination address; of ARP, the target's")
	cmd.Flags().StringVar(&f.claim, "claim", "", "target of an advertisement or solicitation")
	cmd.Flags().StringVar(&f.mac, "mac", "", "MAC that ARP's sender or ND's option tells (default: the link's)")
	cmd.Flags().StringVar(&f.label, "label", "", "what a listener tells of it")
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
		return nil, fmt.Errorf("--kind: %q is not known", f.kind)
	}
	l, err := f.read(own)
	if err != nil {
		return nil, err
	}
	payload, etherType := make(l, labelMark+f.label)
	out := append(append([]byte{}, l.dstMAC...), l.srcMAC...)
	return append(binary.BigEndian.AppendUint16(out, etherType), payload...), nil
}

// read parses the flags; a MAC that is not given is the link's own.
func (f frame) read(own net.HardwareAddr) (lie, error) {
	l := lie{srcMAC: own, mac: own}
	var errs [4]error
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
	src, srcErr := netip.ParseAddr(f.src)
	dst, dstErr := netip.ParseAddr(f.dst)
	if err := errors.Join(append(errs[:], srcErr, dstErr)...); err != nil {
		return l, err
	}
	if src.Is4() != dst.Is4() {
		return l, fmt.Errorf("%s and %s are of two families", src, dst)
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

// fragment is the first one of a datagram that never comes whole, with as many bytes as Open vSwitch takes for a fragment.
func (l lie) fragment(label string) ([]byte, uint16) {
	const least, more = 1200, 0x2000 // bytes; the flag of RFC 791 §3.1
	udp := datagram(l.src, l.dst, label+string(make([]byte, least)))
	h := headerV4(l.src, l.dst, len(udp)&^7)
	binary.BigEndian.PutUint16(h[4:], uint16(rand.IntN(1<<16))) // none goes with another
	binary.BigEndian.PutUint16(h[6:], more)
	binary.BigEndian.PutUint16(h[10:], 0)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, udp[:len(udp)&^7]...), unix.ETH_P_IP
}

// datagram is a UDP header (RFC 768) and payload, with the checksum over the pseudo header.
func datagram(src, dst netip.Addr, payload string) []byte {
	length := 8 + len(payload)
	udp := make([]byte, 8, length)
	binary.BigEndian.PutUint16(udp[0:], 40000)
	binary.BigEndian.PutUint16(udp[2:], echoPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(length))
	udp = append(udp, payload...)
	binary.BigEndian.PutUint16(udp[6:], pseudoChecksum(src, dst, unix.IPPROTO_UDP, udp))
	return udp
}

// pseudoChecksum is over what the network adds to a message too (RFC 8200 §8.1; of the same sum for IPv4).
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

// headerV6 has the hop limit 255, which Neighbor Discovery wants (RFC 4861 §7.1).
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
