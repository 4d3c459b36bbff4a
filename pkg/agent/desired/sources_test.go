package desired

import (
	"net/netip"
	"testing"
)

// An entry is refused if the pod may not have its source, and only then.
func TestRefusedSources(t *testing.T) {
	addr := netip.MustParseAddr
	const pod, other, stranger, far = "10.244.0.9", "10.244.0.10", "10.244.7.7", "198.51.100.10"
	const own, first, second, elsewhere, left, floating, balancer = "172.18.0.11", "172.18.0.100", "172.18.0.101", "172.18.0.102",
		"172.18.0.103", "172.18.0.104", "172.18.0.105"
	s := Sources{
		Pods: map[netip.Addr]string{addr(pod): "first", addr(other): "", addr("fd00::9"): "first",
			addr("10.244.0.11"): "service/demo/web", addr("10.244.0.12"): "away"},
		Owners: map[netip.Addr][]string{addr(first): {"first"}, addr(second): {"second"}, addr(elsewhere): {"away", "first"},
			addr(balancer): {"service/demo/other", "service/demo/web"}},
		Here:   []netip.Addr{addr(own), addr(first), addr(second), addr(floating), addr(balancer)},
		Own:    []netip.Addr{addr(own), addr("fd00:18::11")},
		Inside: []netip.Prefix{netip.MustParsePrefix("172.18.0.12/32")}, Links: []netip.Prefix{netip.MustParsePrefix("172.18.0.0/16")},
	}
	for name, test := range map[string]struct {
		src, dst, source string
		refused          bool
	}{
		"its own egress IP":                          {pod, far, first, false},
		"another's":                                  {pod, far, second, true},
		"an egress IP without having one":            {other, far, first, true},
		"its own, which is elsewhere":                {pod, far, elsewhere, true},
		"nobody's any more":                          {pod, far, left, true},
		"the node's, although it has one here":       {pod, far, own, true},
		"the node's, to another node":                {pod, "172.18.0.12", own, false},
		"the node's, without an egress IP":           {other, far, own, false},
		"the node's, its egress IP being elsewhere":  {"10.244.0.12", far, own, false},
		"the node's, it has none of the family here": {"fd00::9", "2001:db8::7", "fd00:18::11", false},
		"a floating address":                         {pod, far, floating, false},
		"its Service's":                              {"10.244.0.11", far, balancer, false},
		"a Service's":                                {other, far, balancer, true},
		"a router's, of another network":             {pod, far, "100.64.0.2", false},
		"its own address":                            {pod, far, pod, false},
		"no pod of the node":                         {stranger, far, second, false},
	} {
		e := Entry{Orig: Tuple{Src: addr(test.src), Dst: addr(test.dst)}, Reply: Tuple{Src: addr(test.dst), Dst: addr(test.source)}}
		if got := s.Refuses(e); got != test.refused {
			t.Errorf("%s: refused is %t", name, got)
		}
	}
}
