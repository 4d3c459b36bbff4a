package wildcards

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/poll"
)

// newLink makes a pod's link with its two ends, and returns functions that send an IP packet from either.
func newLink(t *testing.T) (pod, host func(packet []byte, ethertype uint16)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const current = "/proc/thread-self/ns/net"
	own, err := netns.GetFromPath(current)
	must(err)
	defer own.Close()
	must(unix.Unshare(unix.CLONE_NEWNET))
	there, err := netns.GetFromPath(current)
	must(err)
	t.Cleanup(func() { there.Close() })
	inside, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	must(err)
	defer inside.Close()
	podSocket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(errors.Join(err, netns.Set(own)))
	hostSocket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	t.Cleanup(func() { _, _ = unix.Close(podSocket), unix.Close(hostSocket) })
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(there))}
	must(netlink.LinkAdd(veth))
	t.Cleanup(func() { _ = netlink.LinkDel(veth) })
	must(netlink.LinkSetUp(veth))
	link, err := inside.LinkByName("eth0")
	must(err)
	must(inside.LinkSetUp(link))
	outside, err := net.InterfaceByName("pod0")
	must(err)
	sender := func(socket, index int, to net.HardwareAddr) func([]byte, uint16) {
		return func(packet []byte, ethertype uint16) {
			t.Helper()
			address := &unix.SockaddrLinklayer{Ifindex: index, Halen: 6,
				Protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, ethertype))}
			copy(address.Addr[:], to)
			must(unix.Sendto(socket, packet, 0, address))
		}
	}
	return sender(podSocket, link.Attrs().Index, outside.HardwareAddr), sender(hostSocket, outside.Index, link.Attrs().HardwareAddr)
}

// packetSockets counts the process' packet sockets.
func packetSockets(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/thread-self/net/packet")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		target, _ := os.Readlink(filepath.Join("/proc/self/fd", f.Name()))
		if inode, ok := cutSocket(target); ok && contains(string(table), inode) {
			n++
		}
	}
	return n
}

// TestWatch observes a pod's link: packets of a query and its answer, over both families, and TCP.
func TestWatch(t *testing.T) {
	pod, host := newLink(t)
	before := packetSockets(t)
	changed := make(chan struct{}, 100)
	waits := make(chan time.Duration, 100)
	w := New(logr.Discard(), func() { changed <- struct{}{} }, func(wait time.Duration) { waits <- wait })
	ctx, cancel := context.WithCancel(t.Context())
	want := &networkv1alpha1.NodeWildcards{Names: []string{"*.example.com"}, Nameservers: []networkv1alpha1.IP{"10.96.0.10", "fd02::a"}}
	for range 2 { // the second call changes nothing
		if err := w.Apply(ctx, want, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := packetSockets(t) - before; n != 1 {
		t.Errorf("%d packet sockets", n)
	}
	await := func(addresses ...networkv1alpha1.IP) {
		t.Helper()
		<-changed
		list, full := w.Known()
		if len(list) != 1 || !slices.Equal(list[0].Addresses, addresses) || full {
			t.Errorf("known are %v, want %v", list, addresses)
		}
		if wait := <-waits; wait <= shortest-time.Minute || wait > shortest {
			t.Errorf("Known is to be called again after %s", wait)
		}
	}
	// A name server answers what it has received. Here the answer could overtake the query in the kernel.
	query := func(packet []byte, ethertype uint16) {
		t.Helper()
		pod(packet, ethertype)
		poll.Eventually(t, 10*time.Second, func() error {
			w.observer.mu.Lock()
			defer w.observer.mu.Unlock()
			if n := len(w.observer.queries); n != 1 {
				return fmt.Errorf("%d queries wait for an answer", n)
			}
			return nil
		})
	}
	query(build("10.244.0.5:4000", "10.96.0.10:53", queryOf(7, "www.example.com.", dnsmessage.TypeA), form{}), unix.ETH_P_IP)
	host(build("10.96.0.10:53", "10.244.0.5:4000", answerOf(7, "www.example.com.", "", time.Minute, "192.0.2.1"), form{}), unix.ETH_P_IP)
	await("192.0.2.1")
	query(build("[fd01::5]:4000", "[fd02::a]:53", queryOf(8, "www.example.com.", dnsmessage.TypeAAAA), form{}), unix.ETH_P_IPV6)
	host(build("[fd02::a]:53", "[fd01::5]:4000", answerOf(8, "www.example.com.", "", time.Minute, "2001:db8::1"), form{}), unix.ETH_P_IPV6)
	await("192.0.2.1", "2001:db8::1")
	query(build("10.244.0.5:4001", "10.96.0.10:53", queryOf(9, "www.example.com.", dnsmessage.TypeA), form{tcp: true}), unix.ETH_P_IP)
	host(build("10.96.0.10:53", "10.244.0.5:4001", answerOf(9, "www.example.com.", "", time.Minute, "192.0.2.2"), form{tcp: true}),
		unix.ETH_P_IP)
	await("192.0.2.1", "192.0.2.2", "2001:db8::1")

	if err := w.Apply(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	if list, _ := w.Known(); len(list) > 0 || packetSockets(t) != before {
		t.Errorf("without names, known are %v, and %d packet sockets are open", list, packetSockets(t)-before)
	}
	reported := []networkv1alpha1.ObservedWildcard{{Name: "*.example.com", Addresses: []networkv1alpha1.IP{"192.0.2.8"}}}
	if err := w.Apply(ctx, want, reported); err != nil {
		t.Fatal(err)
	}
	if list, _ := w.Known(); len(list) != 1 || list[0].Addresses[0] != "192.0.2.8" {
		t.Errorf("known are %v", list)
	}
	// A tap that fails is opened again by the caller.
	w.mu.Lock()
	w.tap.close()
	w.mu.Unlock()
	<-changed
	if err := w.Apply(ctx, want, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
}

// cutSocket returns the inode in a link of /proc/self/fd to a socket.
func cutSocket(target string) (inode string, ok bool) {
	inode, ok = strings.CutPrefix(target, "socket:[")
	return strings.TrimSuffix(inode, "]"), ok
}

// contains reports whether a line of the kernel's table of packet sockets ends with an inode.
func contains(table, inode string) bool {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == inode {
			return true
		}
	}
	return false
}
