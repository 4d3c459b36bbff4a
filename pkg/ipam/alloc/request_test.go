package alloc

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func forAddresses(addresses ...netip.Addr) Request { return Request{Addresses: addresses} }

func TestRequestedAddressIsGiven(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	got, err := a.Allocate("n1", "a", forAddresses(netip.MustParseAddr("10.0.0.77")))
	if err != nil || len(got.Addresses) != 2 || got.Addresses[0].String() != "10.0.0.77/24" || !got.Addresses[1].Addr().Is6() {
		t.Fatalf("%+v, %v", got, err)
	}
	both, err := a.Allocate("n1", "b", forAddresses(netip.MustParseAddr("fd00::99"), netip.MustParseAddr("10.0.0.78")))
	if err != nil || both.Addresses[0].String() != "10.0.0.78/24" || both.Addresses[1].String() != "fd00::99/64" {
		t.Fatalf("%+v, %v", both, err)
	}
	for range 250 { // the others go round them
		if other, err := a.Allocate("n1", "other", Request{}); err != nil || other.Addresses[0] == got.Addresses[0] ||
			other.Addresses[0] == both.Addresses[0] {
			t.Fatalf("%+v, %v", other, err)
		}
		a.Release("other")
	}
	if again, err := a.Allocate("n1", "a", forAddresses(netip.MustParseAddr("10.0.0.79"))); err != nil ||
		again.Addresses[0] != got.Addresses[0] {
		t.Errorf("the owner of an address has %+v now, %v", again, err)
	}
}

func TestRequestedAddressNeedNotRest(t *testing.T) {
	a, c := newNode("10.0.0.0/24")
	address := netip.MustParseAddr("10.0.0.77")
	for _, owner := range []Owner{"first", "second"} {
		got, err := a.Allocate("n1", owner, forAddresses(address))
		if err != nil || got.Addresses[0].Addr() != address {
			t.Fatalf("%s: %+v, %v", owner, got, err)
		}
		a.Release(owner)
	}
	c.now = c.now.Add(2 * Quarantine)
	if _, err := a.Allocate("n1", "third", forAddresses(address)); err != nil {
		t.Error(err)
	}
}

func TestRequestedAddressThatCannotBeGiven(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	if _, err := a.Allocate("n1", "a", forAddresses(netip.MustParseAddr("10.0.0.77"))); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ what, addresses, says string }{
		{"another pod's", "10.0.0.77", "10.0.0.77 is not available: it is in use"},
		{"the network's", "10.0.0.0", "10.0.0.0/24, fd00::/64"},
		{"the gateway's", "10.0.0.1", "10.0.0.1"},
		{"the management port's", "fd00::2", "fd00::2"},
		{"the broadcast", "10.0.0.255", "10.0.0.255"},
		{"another node's", "10.0.1.7", "10.0.1.7"},
		{"free, but the other is not", "fd00::99 10.0.0.77", "10.0.0.77"},
		{"two of one family", "10.0.0.5 10.0.0.6", "10.0.0.6"},
	} {
		var requested []netip.Addr
		for text := range strings.FieldsSeq(test.addresses) {
			requested = append(requested, netip.MustParseAddr(text))
		}
		_, err := a.Allocate("n1", "b", Request{Addresses: requested})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "node n1") {
			t.Errorf("%s: error is %v", test.what, err)
		}
	}
	if used, _ := a.Used(netip.MustParsePrefix("fd00::/64")); used != 1 {
		t.Errorf("%d IPv6 addresses are used, want 1: what was refused left one", used)
	}
	a.Release("a")
	if _, err := a.Allocate("n1", "b", forAddresses(netip.MustParseAddr("10.0.0.77"))); err != nil {
		t.Errorf("freed, and not given: %v", err)
	}
}
