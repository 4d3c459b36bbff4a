package v1alpha1

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParseRequestedIPs(t *testing.T) {
	for text, want := range map[string][]string{
		"10.244.0.5":               {"10.244.0.5"},
		"fd00::5":                  {"fd00::5"},
		" 10.244.0.5 ,\tFD00:0::5": {"10.244.0.5", "fd00::5"},
		"fd00::5,10.244.0.5":       {"fd00::5", "10.244.0.5"},
	} {
		got, err := ParseRequestedIPs(text)
		plain := make([]string, 0, 2)
		for _, address := range got {
			plain = append(plain, address.String())
		}
		if err != nil || !slices.Equal(plain, want) {
			t.Errorf("%q: %v, %v; want %v", text, plain, err, want)
		}
	}
}

func TestInvalidRequestedIPs(t *testing.T) {
	for text, message := range map[string]string{
		"":                         "unable to parse IP",
		"10.244.0.5,":              "unable to parse IP",
		"10.244.0.5/24":            "10.244.0.5/24",
		"10.244.0.05":              "10.244.0.05",
		"web":                      "web",
		"fe80::1%eth0":             "fe80::1%eth0 is not a plain",
		"::ffff:10.244.0.5":        "::ffff:10.244.0.5 is not a plain",
		"10.244.0.5,10.244.0.6":    "two addresses of one family: 10.244.0.5 and 10.244.0.6",
		"fd00::1,fd00::1":          "two addresses of one family",
		"10.0.0.1,fd00::1,fd00::2": "more than two",
	} {
		got, err := ParseRequestedIPs(text)
		if err == nil || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), RequestedIPsAnnotation) {
			t.Errorf("%q: %v, %v; want an error with %q", text, got, err, message)
		}
	}
}

func FuzzParseRequestedIPs(f *testing.F) {
	for _, seed := range []string{"10.244.0.5", "10.244.0.5, fd00::5", "fe80::1%1", ",", "::ffff:1.2.3.4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		addresses, err := ParseRequestedIPs(text)
		if err != nil {
			return
		}
		families := map[bool]bool{}
		for _, address := range addresses {
			if !address.IsValid() || address.Zone() != "" || families[address.Is4()] {
				t.Errorf("%q became %v", text, addresses)
			}
			families[address.Is4()] = true
			if again, err := netip.ParseAddr(address.String()); err != nil || again != address {
				t.Errorf("%s cannot be parsed: %v", address, err)
			}
		}
		if len(addresses) == 0 {
			t.Errorf("%q was parsed as no address", text)
		}
	})
}

func TestParseRequestedMAC(t *testing.T) {
	for _, text := range []string{"52:54:00:12:34:56", " 52-54-00-12-34-56 ", "5254.0012.3456"} {
		if got, err := ParseRequestedMAC(text); err != nil || got.String() != "52:54:00:12:34:56" {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, message := range map[string]string{
		"": "invalid MAC", "web": "web", "52:54:00:12:34": "52:54:00:12:34", "02:00:5e:10:00:00:00:01": "8 bytes",
	} {
		got, err := ParseRequestedMAC(text)
		if err == nil || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), RequestedMACAnnotation) {
			t.Errorf("%q: %v, %v; want an error with %q", text, got, err, message)
		}
	}
}
