package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// frame is an Ethernet frame with a UDP datagram, every field of which may be a lie.
type frame struct {
	link           string
	srcMAC, dstMAC string
	src, dst       string
	payload        string
}

func newFrame() *cobra.Command {
	var f frame
	cmd := &cobra.Command{
		Use:   "frame",
		Short: "Send one UDP datagram from any MAC and IP address",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return f.send() },
	}
	cmd.Flags().StringVar(&f.link, "link", "eth0", "the link to send on")
	cmd.Flags().StringVar(&f.srcMAC, "src-mac", "", "source MAC (default: the link's)")
	cmd.Flags().StringVar(&f.dstMAC, "dst-mac", "", "destination MAC")
	cmd.Flags().StringVar(&f.src, "src", "", "source address")
	cmd.Flags().StringVar(&f.dst, "dst", "", "destination address")
	cmd.Flags().StringVar(&f.payload, "payload", "", "what the datagram says")
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
	srcMAC, dstMAC := own, net.HardwareAddr(nil)
	var err error
	if f.srcMAC != "" {
		if srcMAC, err = net.ParseMAC(f.srcMAC); err != nil {
			return nil, err
		}
	}
	if dstMAC, err = net.ParseMAC(f.dstMAC); err != nil {
		return nil, err
	}
	src, err := netip.ParseAddr(f.src)
	if err != nil {
		return nil, err
	}
	dst, err := netip.ParseAddr(f.dst)
	if err != nil {
		return nil, err
	}
	if src.Is4() != dst.Is4() {
		return nil, fmt.Errorf("%s and %s are of two families", src, dst)
	}
	udp := datagram(src, dst, f.payload)
	header, etherType := headerV6(src, dst, len(udp)), uint16(unix.ETH_P_IPV6)
	if src.Is4() {
		header, etherType = headerV4(src, dst, len(udp)), uint16(unix.ETH_P_IP)
	}
	out := append(append([]byte{}, dstMAC...), srcMAC...)
	out = binary.BigEndian.AppendUint16(out, etherType)
	return append(append(out, header...), udp...), nil
}

// datagram is a UDP header (RFC 768) and payload, with the checksum over the pseudo header.
func datagram(src, dst netip.Addr, payload string) []byte {
	length := 8 + len(payload)
	udp := make([]byte, 8, length)
	binary.BigEndian.PutUint16(udp[0:], 40000)
	binary.BigEndian.PutUint16(udp[2:], echoPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(length))
	udp = append(udp, payload...)
	pseudo := append(append([]byte{}, src.AsSlice()...), dst.AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(length))
	pseudo = binary.BigEndian.AppendUint32(pseudo, unix.IPPROTO_UDP)
	binary.BigEndian.PutUint16(udp[6:], checksum(append(pseudo, udp...)))
	return udp
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

func headerV6(src, dst netip.Addr, length int) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, unix.IPPROTO_UDP, 64
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
