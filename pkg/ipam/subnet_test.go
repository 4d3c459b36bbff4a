package ipam

import (
	"errors"
	"math"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func prefixes(text ...string) []netip.Prefix {
	var found []netip.Prefix
	for _, t := range text {
		found = append(found, netip.MustParsePrefix(t))
	}
	return found
}

func TestNextSubnet(t *testing.T) {
	for name, c := range map[string]struct {
		network Network
		used    []netip.Prefix
		want    string // empty: exhausted
	}{
		"first":     {Network{netip.MustParsePrefix("10.244.0.0/16"), 24}, nil, "10.244.0.0/24"},
		"after one": {Network{netip.MustParsePrefix("10.244.0.0/16"), 24}, prefixes("10.244.0.0/24"), "10.244.1.0/24"},
		"a gap is filled": {Network{netip.MustParsePrefix("10.244.0.0/16"), 24},
			prefixes("10.244.0.0/24", "10.244.2.0/24"), "10.244.1.0/24"},
		"larger one in use":  {Network{netip.MustParsePrefix("10.244.0.0/16"), 24}, prefixes("10.244.0.0/22"), "10.244.4.0/24"},
		"smaller one in use": {Network{netip.MustParsePrefix("10.244.0.0/16"), 22}, prefixes("10.244.1.0/24"), "10.244.4.0/22"},
		"IPv6":               {Network{netip.MustParsePrefix("fd00:10:244::/48"), 64}, prefixes("fd00:10:244::/64"), "fd00:10:244:1::/64"},
		"other network":      {Network{netip.MustParsePrefix("10.244.0.0/16"), 24}, prefixes("10.245.0.0/24"), "10.244.0.0/24"},
		"exhausted":          {Network{netip.MustParsePrefix("10.244.0.0/23"), 24}, prefixes("10.244.0.0/24", "10.244.1.0/24"), ""},
		"end of the space": {Network{netip.MustParsePrefix("255.255.255.0/24"), 25},
			prefixes("255.255.255.0/25", "255.255.255.128/25"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.network.NextSubnet(c.used)
			if c.want == "" {
				if !errors.Is(err, ErrExhausted) {
					t.Errorf("got %s, %v; want ErrExhausted", got, err)
				}
				return
			}
			if err != nil || got.String() != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestCapacityAndReservedAddresses(t *testing.T) {
	for text, want := range map[string]int64{"10.0.0.0/24": 252, "10.0.0.0/29": 4, "fd00::/112": 65533,
		"fd00::/64": math.MaxInt64, "10.0.0.0/31": 0} {
		if got := Capacity(netip.MustParsePrefix(text)); got != want {
			t.Errorf("Capacity(%s) = %d, want %d", text, got, want)
		}
	}
	if got := (Network{netip.MustParsePrefix("10.244.0.0/16"), 24}).Total(); got != 256*252 {
		t.Errorf("Total = %d", got)
	}
}

// Every address of a small subnet is either a pod's or reserved, and Capacity counts the pods' addresses.
func TestPodAddressesMatchCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(20, 30).Draw(t, "bits")
		base := netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "b"), rapid.Byte().Draw(t, "c"), 0})
		subnet := netip.PrefixFrom(base, bits).Masked()
		var pods int64
		for a := subnet.Addr(); subnet.Contains(a); a = a.Next() {
			if IsPodAddress(subnet, a) {
				pods++
				if a == Gateway(subnet) || a == Management(subnet) {
					t.Fatalf("%s is reserved in %s", a, subnet)
				}
			}
		}
		if pods != Capacity(subnet) {
			t.Fatalf("%d pod addresses in %s, Capacity says %d", pods, subnet, Capacity(subnet))
		}
	})
}

func TestMAC(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"10.244.1.5", "0a:58:0a:f4:01:05"}, {"fd00::5", MAC([]netip.Addr{netip.MustParseAddr("fd00::5")}).String()},
	} {
		if got := MAC([]netip.Addr{netip.MustParseAddr(c.in)}).String(); got != c.want {
			t.Errorf("MAC(%s) = %s, want %s", c.in, got, c.want)
		}
	}
	both := []netip.Addr{netip.MustParseAddr("fd00::5"), netip.MustParseAddr("10.244.1.5")}
	if got := MAC(both).String(); got != "0a:58:0a:f4:01:05" {
		t.Errorf("the IPv4 address does not win: %s", got)
	}
}
