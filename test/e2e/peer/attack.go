package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/cobra"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// router is a Router Advertisement (RFC 4861 §4.2) of a default route and of claim's network.
func (l lie) router(label string) ([]byte, uint16) {
	const optionPrefix, onLinkAndAutonomous, lifetime = 3, 0xc0, 1800
	message := []byte{byte(ipv6.ICMPTypeRouterAdvertisement), 0, 0, 0, 64, 0}
	message = binary.BigEndian.AppendUint16(message, lifetime)
	message = append(message, make([]byte, 8)...) // reachable time, retransmission timer
	message = append(append(message, optionSourceMAC, 1), l.mac...)
	message = append(message, optionPrefix, 4, 64, onLinkAndAutonomous)
	message = binary.BigEndian.AppendUint32(message, lifetime)
	message = binary.BigEndian.AppendUint32(message, lifetime)
	message = append(message, make([]byte, 4)...)
	message = append(message, netip.PrefixFrom(l.claim, 64).Masked().Addr().AsSlice()...)
	return l.discovery(append(message, nonce(label)...))
}

// redirect advertises claim as the better router to about (RFC 792, RFC 4861 §4.5).
func (l lie) redirect(label string) ([]byte, uint16) {
	if l.src.Is6() {
		message := append([]byte{byte(ipv6.ICMPTypeRedirect), 0, 0, 0, 0, 0, 0, 0}, l.claim.AsSlice()...)
		message = append(append(message, l.about.AsSlice()...), optionTargetMAC, 1)
		return l.discovery(append(append(message, l.mac...), nonce(label)...))
	}
	const redirect, forHost = 5, 1
	message := append([]byte{redirect, forHost, 0, 0}, l.claim.AsSlice()...)
	cause := append(make([]byte, 8), label...) // an echo reply, because the kernel searches no socket for it
	message = append(append(message, icmpHeader(l.dst, l.about, len(cause))...), cause...)
	binary.BigEndian.PutUint16(message[2:], checksum(message))
	return append(icmpHeader(l.src, l.dst, len(message)), message...), unix.ETH_P_IP
}

// icmpHeader is an IPv4 header for ICMP.
func icmpHeader(src, dst netip.Addr, length int) []byte {
	h := headerV4(src, dst, length)
	h[9] = unix.IPPROTO_ICMP
	binary.BigEndian.PutUint16(h[10:], 0)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return h
}

// discovery completes a message of Neighbor Discovery with its checksum and header.
func (l lie) discovery(message []byte) ([]byte, uint16) {
	binary.BigEndian.PutUint16(message[2:], pseudoChecksum(l.src, l.dst, unix.IPPROTO_ICMPV6, message))
	return append(headerV6(l.src, l.dst, unix.IPPROTO_ICMPV6, len(message)), message...), unix.ETH_P_IPV6
}

// nonce is an option that carries a label.
func nonce(label string) []byte {
	option := append([]byte{optionNonce, 0}, label...)
	option = append(option, make([]byte, -len(option)&7)...)
	option[1] = byte(len(option) / 8)
	return option
}

// lease is a DHCP server's answer: an offer of claim with src as router (RFC 2131), or an advertisement (RFC 8415).
func (l lie) lease(label string) ([]byte, uint16) {
	if l.src.Is6() {
		const advertise, optionStatus = 2, 13
		message := []byte{advertise, 1, 2, 3, 0, optionStatus}
		message = binary.BigEndian.AppendUint16(message, uint16(2+len(label)))
		udp := datagramBetween(netip.AddrPortFrom(l.src, 547), netip.AddrPortFrom(l.dst, 546), string(append(message, 0, 0))+label)
		return append(headerV6(l.src, l.dst, unix.IPPROTO_UDP, len(udp)), udp...), unix.ETH_P_IPV6
	}
	const reply, ethernet, nameAt, size = 2, 1, 44, 236
	message := make([]byte, size)
	copy(message, []byte{reply, ethernet, 6, 0, 1, 2, 3, 4})
	copy(message[16:], l.claim.AsSlice())
	copy(message[20:], l.src.AsSlice())
	copy(message[28:], l.dstMAC)
	copy(message[nameAt:], label)
	message = append(message, 99, 130, 83, 99, 53, 1, 2, 54, 4)
	message = append(append(message, l.src.AsSlice()...), 3, 4)
	message = append(append(message, l.src.AsSlice()...), 255)
	udp := datagramBetween(netip.AddrPortFrom(l.src, 67), netip.AddrPortFrom(l.dst, 68), string(message))
	return append(headerV4(l.src, l.dst, len(udp)), udp...), unix.ETH_P_IP
}

// tunnel is a frame in Geneve (RFC 8926) in the format of OVN's chassis.
type tunnel struct {
	to                   string
	vni, ingress, egress uint32
	inner                frame
}

func newTunnel() *cobra.Command {
	t := tunnel{inner: frame{kind: "udp"}}
	cmd := &cobra.Command{
		Use:   "tunnel",
		Short: "Send a datagram in Geneve, in OVN's format, to an address and port through a plain socket",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return t.send() },
	}
	cmd.Flags().StringVar(&t.to, "to", "", "ADDRESS:PORT of the tunnel's other end")
	cmd.Flags().Uint32Var(&t.vni, "vni", 0, "key of the logical switch")
	cmd.Flags().Uint32Var(&t.ingress, "ingress", 0, "key of the logical port that sends it")
	cmd.Flags().Uint32Var(&t.egress, "egress", 0, "key of the logical port that receives it")
	cmd.Flags().StringVar(&t.inner.srcMAC, "src-mac", "", "source MAC of the frame inside")
	cmd.Flags().StringVar(&t.inner.dstMAC, "dst-mac", "", "destination MAC of the frame inside")
	cmd.Flags().StringVar(&t.inner.src, "src", "", "source address inside")
	cmd.Flags().StringVar(&t.inner.dst, "dst", "", "destination address inside")
	cmd.Flags().StringVar(&t.inner.label, "label", "", "label that a listener prints")
	return cmd
}

func (t tunnel) send() error {
	inner, err := t.inner.bytes(nil)
	if err != nil {
		return err
	}
	const options, critical, ethernet, class, kind = 2, 0x40, 0x6558, 0x0102, 0x80
	header := binary.BigEndian.AppendUint16([]byte{options, critical}, ethernet)
	header = binary.BigEndian.AppendUint32(header, t.vni<<8)
	header = append(binary.BigEndian.AppendUint16(header, class), kind, 1)
	header = binary.BigEndian.AppendUint32(header, t.ingress<<16|t.egress)
	conn, err := net.Dial("udp", t.to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = conn.Write(append(header, inner...)); err != nil {
		return fmt.Errorf("to %s: %w", t.to, err)
	}
	return nil
}
