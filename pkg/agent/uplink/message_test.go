package uplink

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var here, there = link{7, nic}, link{9, bridge}

func addressBody(index uint32, attributes ...attribute) []byte {
	return encode(append([]byte{unix.AF_INET, 24, 0x80, 0}, u32(index)...), attributes)
}

func TestAnAddressKeepsItsAttributesOnAnotherLink(t *testing.T) {
	body := addressBody(7, attribute{unix.IFA_ADDRESS, []byte{192, 0, 2, 10}},
		attribute{unix.IFA_LOCAL, []byte{192, 0, 2, 10}},
		attribute{unix.IFA_LABEL, []byte("eth0:web\x00")},
		attribute{unix.IFA_FLAGS, u32(unix.IFA_F_PERMANENT | unix.IFA_F_NOPREFIXROUTE)},
		attribute{unix.IFA_RT_PRIORITY, u32(100)},
		attribute{unix.IFA_CACHEINFO, append(append(u32(300), u32(600)...), 1, 2, 3, 4, 5, 6, 7, 8)})
	m, ok, err := newAddress(body, here)
	if !ok || err != nil || m.Text != "192.0.2.10/24" {
		t.Fatalf("decoded as %+v, %t, %v", m, ok, err)
	}
	if seconds, limited := m.lifetime(); seconds != 600 || !limited {
		t.Errorf("valid for %d s, limited %t", seconds, limited)
	}
	on := m.addressOn(there)
	attributes, err := decode(on[addressHeader:])
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.NativeEndian.Uint32(on[4:]); got != 9 {
		t.Errorf("the link of the address is %d", got)
	}
	if got := cString(find(attributes, unix.IFA_LABEL)); got != "breth0:web" {
		t.Errorf("its label is %q", got)
	}
	if got := number(attributes, unix.IFA_FLAGS); got != unix.IFA_F_NOPREFIXROUTE {
		t.Errorf("the flags are %#x, but must not have state flags", got)
	}
	if got := number(attributes, unix.IFA_RT_PRIORITY); got != 100 {
		t.Errorf("the metric of its route is %d", got)
	}
	if _, ok, _ := newAddress(addressBody(8, attributes...), here); ok {
		t.Error("an address of another link was accepted")
	}
}

func TestTheLifetimeDoesNotIdentifyAnAddress(t *testing.T) {
	with := func(seconds uint32) Message {
		info := append(append(u32(seconds), u32(seconds)...), make([]byte, 8)...)
		m, _, _ := newAddress(addressBody(7, attribute{unix.IFA_LOCAL, []byte{192, 0, 2, 10}},
			attribute{unix.IFA_CACHEINFO, info}), here)
		return m
	}
	if with(600).addressKey() != with(599).addressKey() {
		t.Error("the key changes with the lifetime")
	}
}

// A copy of an advertised route must not prevent the kernel from adding its own route, which only the kernel refreshes.
func TestAnAdvertisedRouteExpiresBehindTheKernelsOwn(t *testing.T) {
	header := []byte{unix.AF_INET6, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_RA, 0, unix.RTN_UNICAST, 0, 0, 0, 0}
	expiry := append(append(u32(0), u32(0)...), append(u32(180*clockTicks), make([]byte, 20)...)...)
	body := encode(header, []attribute{
		{unix.RTA_OIF, u32(7)}, {unix.RTA_PRIORITY, u32(1024)}, {unix.RTA_TABLE, u32(unix.RT_TABLE_MAIN)},
		{unix.RTA_CACHEINFO, expiry},
	})
	m, ok, err := newRoute(body, here)
	if !ok || err != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	attributes, _ := decode(m.routeOn(there)[routeHeader:])
	metric, expires := number(attributes, unix.RTA_PRIORITY), number(attributes, unix.RTA_EXPIRES)
	if oif := number(attributes, unix.RTA_OIF); metric != 1025 || expires != 181 || oif != 9 {
		t.Errorf("the copy has metric %d and expires in %d s on link %d", metric, expires, oif)
	}
	attributes, _ = decode(m.deletedOn(here)[routeHeader:])
	if number(attributes, unix.RTA_PRIORITY) != 1024 {
		t.Error("the removal changes the metric of the route")
	}
}

func TestANexthopObjectIsRefused(t *testing.T) {
	header := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, 0, unix.RTN_UNICAST, 0, 0, 0, 0}
	_, _, err := newRoute(encode(header, []attribute{{unix.RTA_OIF, u32(7)}, {rtaNexthopID, u32(1)}}), here)
	if err == nil || !strings.Contains(err.Error(), "nexthop") {
		t.Errorf("the error is %v", err)
	}
}

// No bytes from the kernel or from a ledger that someone edited may crash the program, because the program must restore
// the node.
func FuzzMessage(f *testing.F) {
	f.Add(addressBody(7, attribute{unix.IFA_LABEL, []byte("eth0\x00")}, attribute{unix.IFA_FLAGS, nil}))
	f.Add(encode(make([]byte, routeHeader), []attribute{{unix.RTA_MULTIPATH, []byte{8, 0, 0, 0, 7, 0, 0, 0}}, {unix.RTA_PRIORITY, nil}}))
	f.Add([]byte{2, 24, 0, 0, 7, 0, 0, 0, 3, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		readers := []func([]byte, link) (Message, bool, error){newAddress, newRoute, newNeighbor, newRule}
		for i, read := range readers {
			m, ok, err := read(body, here)
			if err != nil || !ok {
				m = Message{Body: body}
			}
			_, _ = m.lifetime()
			_, _ = m.gateway()
			_ = m.prefix()
			on := [][]byte{m.addressOn(there), m.routeOn(there), m.neighborOn(there), m.ruleOn(there)}[i]
			if again, okAgain, err := read(on, there); ok && i != 3 && (err != nil || !okAgain) {
				t.Errorf("%x on another link cannot be decoded again: %+v, %v", body, again, err)
			}
			_, _, _ = m.addressKey(), m.routeKey(), m.deletedOn(there)
		}
	})
}

// Duplicate detection would make the address unusable for a second, although this host had it a moment ago.
func TestIPv6AddressesSkipDuplicateDetection(t *testing.T) {
	body := encode(append([]byte{unix.AF_INET6, 64, 0x80, 0}, u32(7)...),
		[]attribute{{unix.IFA_ADDRESS, make([]byte, 16)}, {unix.IFA_FLAGS, u32(unix.IFA_F_PERMANENT)}})
	m, ok, err := newAddress(body, here)
	if !ok || err != nil {
		t.Fatalf("%+v, %v", m, err)
	}
	attributes, _ := decode(m.addressOn(there)[addressHeader:])
	if flags := number(attributes, unix.IFA_FLAGS); flags != unix.IFA_F_NODAD {
		t.Errorf("the flags are %#x", flags)
	}
}
