package cni

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestIPv6IsUsableAtOnce: C11. The kernel's duplicate address detection would hold the addresses back for a second or two: who binds to one
// gets EADDRNOTAVAIL. OVN gave the address to one port, so nothing is to be detected.
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
		if len(entries) != 2 { // the pod's and the link-local one
			t.Errorf("IPv6 addresses are %v", entries)
		}
		return err
	})
	// The least that detection takes is the retransmission timer of one second (RFC 4862 §5.4).
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Errorf("usable after %s: as late as with detection", took)
	}
}
