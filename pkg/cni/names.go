package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
)

const (
	hostPrefix     = "weft"
	hostDigits     = 10 // 40 bits: with 500 pods on a node, one collision in 10^7 nodes
	aliasPrefix    = "weft:"
	ethernetLength = 6
)

// HostName returns the name of the host's end of a container's interface: "weft" and ten hexadecimal digits, one
// character below the kernel's limit of 15.
func HostName(containerID, ifName string) string {
	digest := digestOf(containerID, ifName)
	return hostPrefix + hex.EncodeToString(digest[:])[:hostDigits]
}

// hostMAC returns the MAC of the host's end. It is set explicitly, because systemd-udevd replaces the kernel's random
// addresses. No frame ever carries it.
func hostMAC(containerID, ifName string) net.HardwareAddr {
	digest := digestOf(containerID, ifName)
	mac := net.HardwareAddr(digest[len(digest)-ethernetLength:])
	mac[0] = mac[0]&^0x01 | 0x02 // unicast, locally administered
	return mac
}

func digestOf(containerID, ifName string) [sha256.Size]byte {
	return sha256.Sum256([]byte(containerID + "/" + ifName))
}

// aliasOf returns the link's alias, which identifies Weft's links and their owners.
func aliasOf(containerID, ifName string) string {
	return aliasPrefix + containerID + "/" + ifName
}

// ownerOf parses an alias.
func ownerOf(alias string) (containerID, ifName string, ok bool) {
	owner, ours := strings.CutPrefix(alias, aliasPrefix)
	if !ours {
		return "", "", false
	}
	return strings.Cut(owner, "/")
}

// isHostName reports whether HostName could have returned name.
func isHostName(name string) bool {
	digits, ours := strings.CutPrefix(name, hostPrefix)
	if !ours || len(digits) != hostDigits {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}

// linkLocal returns the address that the kernel would derive from the MAC (RFC 4291, appendix A: EUI-64 with the
// universal bit inverted).
func linkLocal(mac net.HardwareAddr) netip.Prefix {
	address := netip.AddrFrom16([16]byte{
		0xfe, 0x80, 0, 0, 0, 0, 0, 0,
		mac[0] ^ 0x02, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5],
	})
	return netip.PrefixFrom(address, 64)
}
