package cni

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// assertGuards compares devices with all chains of the guard table.
func assertGuards(t *testing.T, devices ...string) {
	t.Helper()
	got, err := guardedDevices()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(devices)
	if !slices.Equal(got, devices) {
		t.Errorf("guarded devices: %v, want %v", got, devices)
	}
}

// The pod sends a datagram to the host's end. With the guard the packet tap sees it and the host's stack does not;
// without the guard the stack does.
func TestGuardHidesFramesFromTheStackAndNotFromTaps(t *testing.T) {
	want := web(podNS(t))
	want.IngressGuard = true
	made := mustAttach(t, want)
	listener := hostListener(t, made)
	tap := packetTap(t, made.HostIndex)

	sendToHost(t, want.NetNS, made, "guarded")
	awaitFrame(t, tap, "guarded")
	if err := unguard(made.HostName); err != nil {
		t.Fatal(err)
	}
	sendToHost(t, want.NetNS, made, "open")

	if err := listener.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64)
	n, err := listener.Read(buffer)
	if err != nil || string(buffer[:n]) != "open" {
		t.Errorf("the stack received %q first, error %v", buffer[:n], err)
	}
}

// hostListener gives the host's end an address in the pod's subnet and listens on it.
func hostListener(t *testing.T, made Attachment) *net.UDPConn {
	t.Helper()
	link, err := netlink.LinkByIndex(made.HostIndex)
	if err != nil {
		t.Fatal(err)
	}
	address, err := netlink.ParseAddr("10.244.0.1/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUDP("udp4", &net.UDPAddr{IP: address.IP, Port: 5000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func packetTap(t *testing.T, index int) int {
	t.Helper()
	const allProtocols = uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
	tap, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(allProtocols))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(tap) })
	if err := unix.Bind(tap, &unix.SockaddrLinklayer{Ifindex: index, Protocol: allProtocols}); err != nil {
		t.Fatal(err)
	}
	return tap
}

func awaitFrame(t *testing.T, tap int, payload string) {
	t.Helper()
	if err := unix.SetsockoptTimeval(tap, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(tap, frame, 0)
		if err != nil {
			t.Fatalf("the tap did not see %q: %v", payload, err)
		}
		if tail := frame[max(0, n-len(payload)):n]; string(tail) == payload {
			return
		}
	}
}

// sendToHost sends without resolving the host's MAC, because the guard would hide the ARP request too.
func sendToHost(t *testing.T, netNS string, made Attachment, payload string) {
	t.Helper()
	inPod(t, netNS, func(pod *netlink.Handle) error {
		if err := pod.NeighSet(&netlink.Neigh{LinkIndex: made.PodIndex, State: netlink.NUD_PERMANENT,
			IP: net.IPv4(10, 244, 0, 1), HardwareAddr: made.HostMAC}); err != nil {
			return err
		}
		conn, err := net.Dial("udp4", "10.244.0.1:5000")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte(payload))
		return err
	})
}

func TestGuardIsIdempotent(t *testing.T) {
	needRoot(t)
	made := mustAttach(t, web(podNS(t)))
	for range 2 {
		if err := Guard(made.HostName); err != nil {
			t.Fatal(err)
		}
	}
	assertGuards(t, made.HostName)
}

func TestSweepGuards(t *testing.T) {
	needRoot(t)
	made := mustAttach(t, web(podNS(t)))
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "leaving"
	leaving := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(leaving); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{made.HostName, "leaving"} {
		if err := Guard(device); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.LinkDel(leaving); err != nil {
		t.Fatal(err)
	}
	if err := SweepGuards(); err != nil {
		t.Fatal(err)
	}
	assertGuards(t, made.HostName)
}

func TestGuardOfNoDevice(t *testing.T) {
	needRoot(t)
	t.Cleanup(func() { _ = unguard("absent") })
	// Kernels from 6.16 on accept a guard for a name without a device.
	if err := Guard("absent"); err == nil {
		if err := SweepGuards(); err != nil {
			t.Error(err)
		}
	}
	assertGuards(t)
}
