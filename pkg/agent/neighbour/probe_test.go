package neighbour_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/neighbour"
)

// newSegment makes a link "here" whose other end is in the namespace of a host with addresses, and returns that host's
// MAC.
func newSegment(t *testing.T, addresses ...string) net.HardwareAddr {
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
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	must(errors.Join(err, netns.Set(own)))
	defer host.Close()
	t.Cleanup(func() { there.Close() })
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there", PeerNamespace: netlink.NsFd(int(there))}
	must(netlink.LinkAdd(veth))
	t.Cleanup(func() { _ = netlink.LinkDel(veth) })
	must(netlink.LinkSetUp(veth))
	link, err := host.LinkByName("there")
	must(err)
	must(host.LinkSetUp(link))
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		must(err)
		address.Flags = unix.IFA_F_NODAD
		must(host.AddrAdd(link, address))
	}
	return link.Attrs().HardwareAddr
}

// A host answers for its addresses, and for no other.
func TestAnswers(t *testing.T) {
	newSegment(t, "192.0.2.1/24", "2001:db8::1/64")
	for address, want := range map[string]bool{"192.0.2.1": true, "2001:db8::1": true, "192.0.2.2": false, "2001:db8::2": false} {
		got, err := neighbour.Answers(t.Context(), neighbour.Segment{Link: "here"}, netip.MustParseAddr(address))
		if err != nil || got != want {
			t.Errorf("%s answers: %t, error %v", address, got, err)
		}
	}
	if _, err := neighbour.Answers(t.Context(), neighbour.Segment{Link: "absent"}, netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Error("an absent link is no error")
	}
}

// A host that uses an address answers. Nobody answers for an unused address, nor does the earlier port of the holder.
func TestProbe(t *testing.T) {
	mac := newSegment(t, "192.0.2.1/24", "2001:db8::1/64")
	for _, test := range []struct {
		name, address string
		own           []net.HardwareAddr
		used          bool
	}{
		{"used IPv4", "192.0.2.1", nil, true},
		{"used IPv6", "2001:db8::1", nil, true},
		{"free IPv4", "192.0.2.2", nil, false},
		{"free IPv6", "2001:db8::2", nil, false},
		{"own IPv4", "192.0.2.1", []net.HardwareAddr{mac}, false},
		{"own IPv6", "2001:db8::1", []net.HardwareAddr{mac}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := netip.MustParseAddr(test.address)
			err := neighbour.Probe(t.Context(), neighbour.Segment{Link: "here", Own: test.own}, []netip.Addr{address})
			var used *neighbour.UsedError
			switch {
			case !test.used && err != nil:
				t.Error(err)
			case test.used && (!errors.As(err, &used) || used.Address != address || !bytes.Equal(used.MAC, mac)):
				t.Errorf("%v, want %s at %s", err, address, mac)
			}
		})
	}
}

// Of several addresses the used one is named.
func TestProbeOfSeveral(t *testing.T) {
	newSegment(t, "192.0.2.1/24")
	err := neighbour.Probe(t.Context(), neighbour.Segment{Link: "here"},
		[]netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9"), netip.MustParseAddr("192.0.2.1")})
	var used *neighbour.UsedError
	if !errors.As(err, &used) || used.Address != netip.MustParseAddr("192.0.2.1") {
		t.Error(err)
	}
}

func TestProbeWithoutASegment(t *testing.T) {
	free := []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	err := neighbour.Probe(t.Context(), neighbour.Segment{Link: "absent"}, free)
	if err == nil || errors.As(err, new(*neighbour.UsedError)) {
		t.Errorf("an absent link: %v", err)
	}
	newSegment(t)
	link, err := netlink.LinkByName("here")
	if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = neighbour.Probe(t.Context(), neighbour.Segment{Link: "here"}, free)
	if err == nil || errors.As(err, new(*neighbour.UsedError)) {
		t.Errorf("a link that is down: %v", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := neighbour.Probe(ctx, neighbour.Segment{Link: "here"}, free); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestAnnouncementClaims(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	for _, text := range []string{"192.0.2.7", "2001:db8::7"} {
		want := netip.MustParseAddr(text)
		frame, err := neighbour.Announcement(want, mac, neighbour.Router)
		if err != nil {
			t.Fatal(err)
		}
		address, by, ok := neighbour.Claim(frame)
		if !ok || address != want || !bytes.Equal(by, mac) {
			t.Errorf("%s: %s %s %t", want, address, by, ok)
		}
		for cut := range frame {
			neighbour.Claim(frame[:cut]) // does not panic
		}
	}
}

func FuzzClaim(f *testing.F) {
	frame, err := neighbour.Advertisement(netip.MustParseAddr("2001:db8::7"), net.HardwareAddr{2, 0, 0, 0, 0, 7}, neighbour.Host)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Add(append(append(make([]byte, 12), 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2), make([]byte, 20)...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if address, mac, ok := neighbour.Claim(frame); ok && (!address.IsValid() || len(mac) != 6) {
			t.Errorf("%s %s", address, mac)
		}
	})
}

// Users finds all of several addresses that a host uses.
func TestUsers(t *testing.T) {
	mac := newSegment(t, "192.0.2.1/24", "192.0.2.3/24", "2001:db8::1/64")
	var all []netip.Addr
	for _, text := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2"} {
		all = append(all, netip.MustParseAddr(text))
	}
	found, err := neighbour.Users(t.Context(), neighbour.Segment{Link: "here"}, all)
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, error %v", found, err)
	}
	for _, a := range []netip.Addr{all[0], all[2], all[3]} {
		if !bytes.Equal(found[a], mac) {
			t.Errorf("%s is used by %s, want %s", a, found[a], mac)
		}
	}
	if found, err := neighbour.Users(t.Context(), neighbour.Segment{Link: "here"}, all[1:2]); err != nil || len(found) > 0 {
		t.Errorf("a free address: %v, error %v", found, err)
	}
	if _, err := neighbour.Users(t.Context(), neighbour.Segment{Link: "absent"}, all); err == nil {
		t.Error("an absent link is no error")
	}
}
