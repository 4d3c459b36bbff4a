package alloc

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The owners that name a reservation have its addresses and MAC one after the other, and nobody else has them.
func TestAReservationKeepsAddresses(t *testing.T) {
	a, _ := newNode("10.0.0.0/29", "fd00::/64")
	request := Request{Reservation: "claim"}
	first, err := a.Allocate("n1", "first", request)
	if err != nil || a.UserOf("claim") != "first" || len(a.Reserved("claim")) != 2 {
		t.Fatalf("%+v, %v, used by %q", first, err, a.UserOf("claim"))
	}
	if got, err := a.Allocate("n1", "second", request); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a second owner at the same time has %+v, %v", got, err)
	}
	a.Release("first")
	if user := a.UserOf("claim"); user != "" {
		t.Errorf("%s uses the reservation after its release", user)
	}
	for i := 0; ; i++ { // the others take what is left
		got, err := a.Allocate("n1", Owner(fmt.Sprint("other", i)), Request{})
		if err != nil {
			break
		}
		if got.Addresses[0] == first.Addresses[0] || got.Addresses[1] == first.Addresses[1] {
			t.Fatalf("a reserved address is given without the reservation: %+v", got)
		}
	}
	again, err := a.Allocate("n1", "second", request)
	if err != nil || again.Addresses[0] != first.Addresses[0] || again.Addresses[1] != first.Addresses[1] ||
		again.MAC.String() != first.MAC.String() {
		t.Errorf("the next owner has %+v, %v, want %+v", again, err, first)
	}
	a.Unreserve("claim")
	if _, got, _ := a.Get("second"); got.Addresses[0] != first.Addresses[0] {
		t.Errorf("the end of the reservation took the address: %+v", got)
	}
	a.Release("second")
	if got, err := a.Allocate("n1", "last", Request{}); err != nil || got.Addresses[0] != first.Addresses[0] {
		t.Errorf("the address is not free after the end of the reservation: %+v, %v", got, err)
	}
}

// A reservation that is read at a start holds before its subnet is known, and beside the owner that has its address.
func TestAReservationComesFirst(t *testing.T) {
	a := New(time.Now)
	kept := netip.MustParseAddr("10.0.0.1")
	a.Reserve("claim", []netip.Addr{kept})
	a.SetPools("n1", []Pool{{Subnet: netip.MustParsePrefix("10.0.0.0/24"), Whole: true}})
	if got, err := a.Allocate("n1", "other", Request{}); err != nil || got.Addresses[0].Addr() == kept {
		t.Errorf("%+v, %v", got, err)
	}
	existing := netip.MustParsePrefix("10.0.0.9/24")
	if _, err := a.Claim("n1", "pod", Assignment{Addresses: []netip.Prefix{existing}, Slot: 77}); err != nil {
		t.Fatal(err)
	}
	a.Reserve("used", []netip.Addr{existing.Addr()})
	if a.UserOf("used") != "pod" {
		t.Errorf("%q uses the reservation", a.UserOf("used"))
	}
	a.Release("pod")
	if _, err := a.Allocate("n1", "thief", forAddresses(existing.Addr())); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an address that was released to its reservation is given: %v", err)
	}
}

// A reservation from before the network had a second family keeps its address, and gets one of the other.
func TestAReservationGrowsWithTheFamilies(t *testing.T) {
	a, _ := newNode("10.0.0.0/24", "fd00::/64")
	kept := netip.MustParseAddr("10.0.0.7")
	a.Reserve("claim", []netip.Addr{kept})
	first, err := a.Allocate("n1", "first", Request{Reservation: "claim"})
	if err != nil || first.Addresses[0].Addr() != kept || len(a.Reserved("claim")) != 2 {
		t.Fatalf("%+v, %v, reserved %v", first, err, a.Reserved("claim"))
	}
	a.Release("first")
	if again, err := a.Allocate("n1", "second", Request{Reservation: "claim"}); err != nil || again.Addresses[1] != first.Addresses[1] {
		t.Errorf("%+v, %v, want %v", again, err, first)
	}
}

// An address that is excluded after it was given stays with its owner, whom the reservation names.
func TestAReservationOfAnExcludedAddress(t *testing.T) {
	subnet := netip.MustParsePrefix("10.0.0.0/24")
	a, _ := newNode(subnet.String())
	first, err := a.Allocate("n1", "first", Request{Reservation: "claim"})
	if err != nil {
		t.Fatal(err)
	}
	a.SetPools("n1", []Pool{{Subnet: subnet, Exclude: []netip.Prefix{netip.PrefixFrom(first.Addresses[0].Addr(), 32)}}})
	if user := a.UserOf("claim"); user != "first" {
		t.Errorf("%q uses the reservation, want first", user)
	}
	a.Release("first")
	if got, err := a.Allocate("n1", "second", Request{Reservation: "claim"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a second owner has the excluded address: %+v, %v", got, err)
	}
	a.Unreserve("claim")
	if got, err := a.Allocate("n1", "second", Request{}); err != nil || got.Addresses[0] == first.Addresses[0] {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatAReservationCannotGive(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	a.Reserve("claim", []netip.Addr{netip.MustParseAddr("10.0.0.7")})
	request := forAddresses(netip.MustParseAddr("10.0.0.8"))
	request.Reservation = "claim"
	if _, err := a.Allocate("n1", "a", request); err == nil || !strings.Contains(err.Error(), "10.0.0.8") {
		t.Errorf("another address than the reserved: %v", err)
	}
	a.Reserve("claim", []netip.Addr{netip.MustParseAddr("10.9.0.7")})
	if _, err := a.Allocate("n1", "a", Request{Reservation: "claim"}); err == nil || !strings.Contains(err.Error(), "10.9.0.7") {
		t.Errorf("a reserved address of no subnet: %v", err)
	}
	if _, err := a.Allocate("n1", "b", forAddresses(netip.MustParseAddr("10.0.0.7"))); err != nil {
		t.Errorf("the address that the reservation had before: %v", err)
	}
	a.Reserve("one", []netip.Addr{netip.MustParseAddr("10.0.0.20")})
	a.Reserve("two", []netip.Addr{netip.MustParseAddr("10.0.0.20")})
	if _, err := a.Allocate("n1", "c", Request{Reservation: "two"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the second of two reservations of an address: %v", err)
	}
	a.Unreserve("one")
	if _, err := a.Allocate("n1", "c", Request{Reservation: "two"}); err != nil {
		t.Errorf("the second reservation after the end of the first: %v", err)
	}
}
