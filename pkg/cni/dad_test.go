package cni

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestIPv6IsUsableAtOnce covers failure mode C11. The kernel's duplicate address detection would delay the addresses
// by a second or two, and a program that binds to one would get EADDRNOTAVAIL. OVN gives each address to one port, so
// there is nothing to detect.
func TestIPv6IsUsableAtOnce(t *testing.T) {
	want := dualStack(podNS(t))
	start := time.Now()
	mustAttach(t, want)
	inPod(t, want.NetNS, func(pod *netlink.Handle) error {
		for _, address := range want.Addresses {
			listener, err := net.ListenUDP("udp", &net.UDPAddr{IP: address.Addr().AsSlice(), Port: 8080})
			if err != nil {
				return err
			}
			listener.Close()
		}
		link, err := pod.LinkByName(want.IfName)
		if err != nil {
			return err
		}
		entries, err := pod.AddrList(link, netlink.FAMILY_V6)
		for _, entry := range entries {
			if entry.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_OPTIMISTIC|unix.IFA_F_DEPRECATED) != 0 || entry.PreferedLft == 0 {
				t.Errorf("address %s is not preferred: flags %#x", entry.IPNet, entry.Flags)
			}
		}
		if len(entries) != 2 { // the pod's address and the link-local address
			t.Errorf("IPv6 addresses: %v", entries)
		}
		return err
	})
	// Detection takes at least the retransmission timer of one second (RFC 4862 §5.4).
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Errorf("usable after %s, as late as with detection", took)
	}
}
