package alloc

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func mustMAC(t *testing.T, text string) net.HardwareAddr {
	t.Helper()
	mac, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

func TestRequestedMACIsGivenOncePerSwitch(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	a.SetNode("n2", []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}, nil)
	wanted := Request{MAC: mustMAC(t, "52:54:00:12:34:56")}
	got, err := a.Allocate("n1", "a", wanted)
	if err != nil || got.MAC.String() != "52:54:00:12:34:56" {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = a.Allocate("n1", "b", wanted)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "52:54:00:12:34:56 is not available: it is in use") {
		t.Errorf("a second pod of the switch: %v", err)
	}
	if used, _ := a.Used(netip.MustParsePrefix("10.0.0.0/24")); used != 1 {
		t.Errorf("%d addresses are used, want 1: what was refused left one", used)
	}
	if got, err := a.Allocate("n2", "c", wanted); err != nil || got.MAC.String() != "52:54:00:12:34:56" {
		t.Errorf("on another switch: %+v, %v", got, err)
	}
	if _, err := a.Clone().Allocate("n1", "b", wanted); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a clone does not have it: %v", err)
	}
	a.Release("a")
	if got, err := a.Allocate("n1", "b", wanted); err != nil || got.MAC.String() != "52:54:00:12:34:56" {
		t.Errorf("freed, and not given: %+v, %v", got, err)
	}
}

func TestMACThatCannotBeRequested(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	for text, says := range map[string]string{
		"53:54:00:12:34:56":       "group",
		"ff:ff:ff:ff:ff:ff":       "group",
		"00:00:00:00:00:00":       "zero address",
		"0a:58:0a:00:00:09":       "derived from IP addresses",
		"02:00:5e:10:00:00:00:01": "8 bytes",
	} {
		_, err := a.Allocate("n1", "a", Request{MAC: mustMAC(t, text)})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	own := Request{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}, MAC: mustMAC(t, "0a:58:0a:00:00:09")}
	if got, err := a.Allocate("n1", "a", own); err != nil || got.MAC.String() != "0a:58:0a:00:00:09" {
		t.Errorf("the derived MAC: %+v, %v", got, err)
	}
}

// TestClaimKeepsTheMAC: at start, the database determines the MAC of a port.
func TestClaimKeepsTheMAC(t *testing.T) {
	a, _ := newNode("10.0.0.0/24")
	mac := mustMAC(t, "52:54:00:12:34:56")
	claim := func(owner Owner, address string) error {
		got, err := a.Claim("n1", owner, Assignment{Addresses: []netip.Prefix{netip.MustParsePrefix(address)}, MAC: mac})
		if err == nil && got.MAC.String() != mac.String() {
			t.Errorf("%s has %s", owner, got.MAC)
		}
		return err
	}
	if err := claim("a", "10.0.0.9/24"); err != nil {
		t.Fatal(err)
	}
	if err := claim("b", "10.0.0.10/24"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("two ports of one MAC: %v", err)
	}
	if used, _ := a.Used(netip.MustParsePrefix("10.0.0.0/24")); used != 1 {
		t.Errorf("%d addresses are used, want 1", used)
	}
}
