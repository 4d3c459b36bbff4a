package main

import (
	"encoding/binary"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// Operations of ARP (RFC 826).
const (
	arpRequest = 1
	arpReply   = 2
)

// Options of Neighbor Discovery (RFC 4861 §4.6), and the nonce of RFC 3971 §5.3.2, which has room for a label.
const (
	optionSourceMAC = 1
	optionTargetMAC = 2
	optionNonce     = 14
)

// arp announces that src has mac and queries or answers dst. The label follows, in the padding of short frames.
func arp(operation uint16) func(lie, string) ([]byte, uint16) {
	return func(l lie, label string) ([]byte, uint16) {
		b := binary.BigEndian.AppendUint16(nil, 1) // Ethernet
		b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
		b = binary.BigEndian.AppendUint16(append(b, 6, 4), operation)
		b = append(append(b, l.mac...), l.src.AsSlice()...)
		b = append(append(b, l.dstMAC...), l.dst.AsSlice()...)
		return append(b, label...), unix.ETH_P_ARP
	}
}

// neighbor announces that claim has mac, or queries claim and announces that src has mac.
func neighbor(kind ipv6.ICMPType) func(lie, string) ([]byte, uint16) {
	return func(l lie, label string) ([]byte, uint16) {
		message := []byte{byte(kind), 0, 0, 0, 0, 0, 0, 0}
		option := byte(optionSourceMAC)
		if kind == ipv6.ICMPTypeNeighborAdvertisement {
			message[4] = 0x20 // override existing entries
			option = optionTargetMAC
		}
		message = append(message, l.claim.AsSlice()...)
		message = append(append(message, option, 1), l.mac...)
		return l.discovery(append(message, nonce(label)...))
	}
}
