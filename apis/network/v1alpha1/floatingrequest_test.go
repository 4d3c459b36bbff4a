package v1alpha1

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressRanges(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.10":                    "192.0.2.10",
		" 192.0.2.10 ":                  "192.0.2.10",
		"192.0.2.10-192.0.2.10":         "192.0.2.10",
		"192.0.2.10-192.0.2.99":         "192.0.2.10-192.0.2.99",
		"192.0.2.10 - 192.0.3.1":        "192.0.2.10-192.0.3.1",
		"192.0.2.0/24":                  "192.0.2.0-192.0.2.255",
		"192.0.2.7/32":                  "192.0.2.7",
		"10.0.0.0/9":                    "10.0.0.0-10.127.255.255",
		"2001:db8::10":                  "2001:db8::10",
		"2001:db8::-2001:db8::f":        "2001:db8::-2001:db8::f",
		"2001:db8::/126":                "2001:db8::-2001:db8::3",
		"fd00::/8":                      "fd00::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"2001:DB8:0:0::1-2001:db8::00a": "2001:db8::1-2001:db8::a",
		"240.0.0.1":                     "240.0.0.1",
		"":                              `ParseAddr("")`,
		"-":                             `ParseAddr("")`,
		"web":                           `ParseAddr("web")`,
		"192.0.2.10-":                   `ParseAddr("")`,
		"192.0.2.10-12":                 `ParseAddr("12")`,
		"192.0.2.1-192.0.2.5-192.0.2.9": `ParseAddr("192.0.2.5-192.0.2.9")`,
		"192.0.2.1-192.0.2.0/24":        `ParseAddr("192.0.2.0/24")`,
		"192.0.2.0/33":                  `netip.ParsePrefix("192.0.2.0/33")`,
		"192.0.2.1/24":                  `CIDR "192.0.2.1/24" has host bits, write 192.0.2.0/24`,
		"192.0.2.9-192.0.2.1":           `range "192.0.2.9-192.0.2.1": the last address is before the first`,
		"192.0.2.9-2001:db8::":          "are of different families",
		"::ffff:192.0.2.1":              "::ffff:192.0.2.1 is not a unicast address that a pod can have",
		"2001:db8::1%eth0":              "not a unicast address",
		"127.0.0.1":                     "not a unicast address",
		"0.0.0.0/0":                     "not a unicast address",
		"::/0":                          "not a unicast address",
		"0.0.0.1":                       "not a unicast address",
		"224.0.0.5":                     "not a unicast address",
		"ff02::1":                       "not a unicast address",
		"fe80::1":                       "not a unicast address",
		"169.254.0.0/16":                "not a unicast address",
		"255.255.255.255":               "not a unicast address",
		"126.0.0.0-128.0.0.255":         "126.0.0.0-128.0.0.255 has 127.0.0.0, which is not a unicast address that a pod can have",
		"223.255.255.0-240.0.0.1":       "has 224.0.0.0",
		"169.0.0.0/8":                   "has 169.254.0.0",
		"fd00::-ff00::1":                "not a unicast address",
		"fd00::-fec0::1":                "has fe80::",
		"::-2001:db8::":                 "not a unicast address",
		"::2-2001:db8::":                "has ::ffff:0.0.0.0",
	} {
		r, err := ParseAddressRange(text)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestRangesContainAndOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b               string
		overlaps, contains bool // contains: a has the first address of b
	}{
		{"192.0.2.10-192.0.2.20", "192.0.2.20-192.0.2.30", true, true},
		{"192.0.2.20-192.0.2.30", "192.0.2.10-192.0.2.20", true, false},
		{"192.0.2.10-192.0.2.20", "192.0.2.21", false, false},
		{"192.0.2.0/24", "192.0.2.7", true, true},
		{"192.0.2.7", "192.0.2.0/24", true, false},
		{"192.0.2.0/24", "2001:db8::/64", false, false},
		{"2001:db8::/64", "2001:db8::-2001:db8::1", true, true},
	} {
		a, b := rangeOf(t, c.a), rangeOf(t, c.b)
		if a.Overlaps(b) != c.overlaps || b.Overlaps(a) != c.overlaps || a.Contains(b.First) != c.contains {
			t.Errorf("%s and %s: overlaps %t and %t, contains %t", a, b, a.Overlaps(b), b.Overlaps(a), a.Contains(b.First))
		}
	}
	if rangeOf(t, "2001:db8::/64").Contains(netip.Addr{}) || rangeOf(t, "192.0.2.0/24").Contains(netip.Addr{}) {
		t.Error("a range has the zero address")
	}
}

func rangeOf(t *testing.T, text string) AddressRange {
	r, err := ParseAddressRange(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFloatingRequests(t *testing.T) {
	const pool = IPPoolAnnotation
	sixteen := "[" + strings.Repeat("[],", 15) + "[]]"
	for _, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{nil, "none"},
		{map[string]string{"example.com/other": "x"}, "none"},
		{map[string]string{pool: "web"}, "web 1 [] Pod 0s"},
		{map[string]string{pool: " web "}, "web 1 [] Pod 0s"},
		{map[string]string{pool: "web", IPCountAnnotation: "16"}, "web 16 [] Pod 0s"},
		{map[string]string{pool: "web", IPRangesAnnotation: `[["192.0.2.10-192.0.2.19","2001:db8::10"],["192.0.2.32/28"]]`},
			"web 2 [[192.0.2.10-192.0.2.19 2001:db8::10] [192.0.2.32-192.0.2.47]] Pod 0s"},
		{map[string]string{pool: "web", IPCountAnnotation: "1", IPRangesAnnotation: `[[]]`}, "web 1 [[]] Pod 0s"},
		{map[string]string{pool: "web", IPRangesAnnotation: `[null]`}, "web 1 [[]] Pod 0s"},
		{map[string]string{pool: "web", IPRangesAnnotation: sixteen}, "web 16 "},
		{map[string]string{pool: "web", ReleasePolicyAnnotation: ""}, "Pod 0s"},
		{map[string]string{pool: "web", ReleasePolicyAnnotation: "immutable"}, "Immutable 0s"},
		{map[string]string{pool: "web", ReleasePolicyAnnotation: "Never", IPTTLAnnotation: "72h"}, "Never 72h0m0s"},

		{map[string]string{IPCountAnnotation: "2"}, "annotation network.weft.dev/ip-count: it needs network.weft.dev/ip-pool"},
		{map[string]string{IPTTLAnnotation: "1h"}, "annotation network.weft.dev/ip-ttl: it needs network.weft.dev/ip-pool"},
		{map[string]string{pool: "  "}, "annotation network.weft.dev/ip-pool: it is empty"},
		{map[string]string{pool: "web", IPCountAnnotation: "0"}, `annotation network.weft.dev/ip-count: "0" is not a number from 1 to 16`},
		{map[string]string{pool: "web", IPCountAnnotation: "17"}, `"17" is not a number from 1 to 16`},
		{map[string]string{pool: "web", IPCountAnnotation: ""}, `"" is not a number`},
		{map[string]string{pool: "web", IPRangesAnnotation: ""}, "annotation network.weft.dev/ip-ranges: not a JSON list of lists"},
		{map[string]string{pool: "web", IPRangesAnnotation: `["192.0.2.1"]`}, "not a JSON list of lists"},
		{map[string]string{pool: "web", IPRangesAnnotation: `[["192.0.2.1"]] x`}, "not a JSON list of lists"},
		{map[string]string{pool: "web", IPRangesAnnotation: `[]`}, "0 addresses; 1 to 16 are possible"},
		{map[string]string{pool: "web", IPRangesAnnotation: `null`}, "0 addresses; 1 to 16 are possible"},
		{map[string]string{pool: "web", IPRangesAnnotation: "[[]," + sixteen[1:]}, "17 addresses; 1 to 16 are possible"},
		{map[string]string{pool: "web", IPRangesAnnotation: `[["192.0.2.1"],["192.0.2.x"]]`},
			`annotation network.weft.dev/ip-ranges: address 1: ParseAddr("192.0.2.x")`},
		{map[string]string{pool: "web", IPCountAnnotation: "2", IPRangesAnnotation: `[["192.0.2.1"]]`},
			"ranges of 1 addresses, but network.weft.dev/ip-count is 2"},
		{map[string]string{pool: "web", ReleasePolicyAnnotation: "always"},
			`annotation network.weft.dev/ip-release-policy: "always" is not a release policy: Pod, Immutable or Never`},
		{map[string]string{pool: "web", IPTTLAnnotation: "3 days"}, `annotation network.weft.dev/ip-ttl: "3 days" is not a duration`},
		{map[string]string{pool: "web", IPTTLAnnotation: "0s"}, "is not a duration above zero"},
		{map[string]string{pool: "web", IPTTLAnnotation: "-1h"}, "is not a duration above zero"},
	} {
		r, ok, err := ParseFloatingRequest(c.annotations)
		got := "none"
		switch {
		case err != nil:
			got = err.Error()
		case ok:
			got = fmt.Sprint(r.Pool, " ", r.Count, " ", r.Ranges, " ", r.Policy, " ", r.TTL)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", c.annotations, got, c.want)
		}
	}
}

// FuzzFloatingRequest checks that a request is refused with the name of the annotation, or has values in their limits.
func FuzzFloatingRequest(f *testing.F) {
	f.Add("web", "2", `[["192.0.2.10-192.0.2.19","2001:db8::10"],["192.0.2.32/28"]]`, "immutable", "72h")
	f.Add("web", "", `[[]]`, "", "1ns")
	f.Add(" ", "16", `[["126.0.0.0-128.0.0.0"]]`, "Never", "-1h")
	f.Fuzz(func(t *testing.T, pool, count, ranges, policy, ttl string) {
		annotations := map[string]string{IPPoolAnnotation: pool, IPRangesAnnotation: ranges, ReleasePolicyAnnotation: policy}
		for key, value := range map[string]string{IPCountAnnotation: count, IPTTLAnnotation: ttl} {
			if value != "" {
				annotations[key] = value
			}
		}
		r, ok, err := ParseFloatingRequest(annotations)
		if err != nil {
			if !ok || !strings.HasPrefix(err.Error(), "annotation "+GroupName+"/ip-") {
				t.Fatalf("%v: ok %t, error %v", annotations, ok, err)
			}
			return
		}
		checkRequest(t, r)
	})
}

func checkRequest(t *testing.T, r FloatingRequest) {
	known := r.Policy == ReleaseWithPod || r.Policy == ReleaseImmutable || r.Policy == ReleaseNever
	if r.Pool == "" || r.Count < 1 || r.Count > MaxFloatingIPs || len(r.Ranges) != r.Count || !known ||
		r.TTL < 0 {
		t.Fatalf("request out of its limits: %+v", r)
	}
	for _, ranges := range r.Ranges {
		for _, one := range ranges {
			again, err := ParseAddressRange(one.String())
			if err != nil || again != one || !one.Contains(one.First) || !one.Contains(one.Last) || one.Last.Less(one.First) {
				t.Fatalf("range %v is read again as %v: %v", one, again, err)
			}
		}
	}
}

func TestNamesOfFloatingIPs(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":     "192.0.2.7",
		"2001:db8::a:1": "2001-0db8-0000-0000-0000-0000-000a-0001",
		"::1:0":         "0000-0000-0000-0000-0000-0000-0001-0000",
	} {
		if got := FloatingIPName(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
