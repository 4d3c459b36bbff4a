package desired

import (
	"net/netip"
	"testing"
)

// An entry is refused if the pod may not have its source, and only then.
func TestRefusedSources(t *testing.T) {
	addr := netip.MustParseAddr
	const pod, other, remote, far = "10.244.0.9", "10.244.0.10", "10.244.7.7", "198.51.100.10"
	const own, first, second, elsewhere, left, floating, balancer, plain = "172.18.0.11", "172.18.0.100", "172.18.0.101", "172.18.0.102",
		"172.18.0.103", "172.18.0.104", "172.18.0.105", "172.18.0.106"
	pods := func(all ...string) map[netip.Addr]bool {
		found := map[netip.Addr]bool{}
		for _, p := range all {
			found[addr(p)] = true
		}
		return found
	}
	s := Sources{
		Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/64")},
		Leaving: Leaving{{"first", "IPv4"}: pods(pod, remote), {"first", "IPv6"}: pods("fd00::9"), {"second", "IPv4"}: pods("10.244.7.8"),
			{"service/demo/web", "IPv4"}: pods("10.244.0.11")},
		Owners: map[netip.Addr][]string{addr(first): {"first"}, addr(second): {"second"}, addr(elsewhere): {"away", "first"},
			addr(balancer): {"service/demo/other", "service/demo/web"}, addr(plain): {"service/demo/plain"}},
		Here:   []netip.Addr{addr(own), addr(first), addr(second), addr(floating), addr(balancer), addr(plain)},
		Own:    []netip.Addr{addr(own), addr("fd00:18::11")},
		Inside: []netip.Prefix{netip.MustParsePrefix("172.18.0.12/32")}, Links: []netip.Prefix{netip.MustParsePrefix("172.18.0.0/16")},
	}
	for name, test := range map[string]struct {
		src, dst, source string
		refused          bool
	}{
		"its own egress IP":                          {pod, far, first, false},
		"its own, of a pod of another node":          {remote, far, first, false},
		"another's":                                  {pod, far, second, true},
		"another's, of a pod of another node":        {remote, far, second, true},
		"an egress IP without having one":            {other, far, first, true},
		"its own, which is elsewhere":                {pod, far, elsewhere, true},
		"nobody's any more":                          {pod, far, left, true},
		"nobody's any more, of a pod elsewhere":      {remote, far, left, true},
		"the node's, although it has one here":       {pod, far, own, true},
		"the node's, to another node":                {pod, "172.18.0.12", own, false},
		"the node's, without an egress IP":           {other, far, own, false},
		"the node's, it has none of the family here": {"fd00::9", "2001:db8::7", "fd00:18::11", false},
		"a floating address":                         {pod, far, floating, false},
		"its Service's":                              {"10.244.0.11", far, balancer, false},
		"a Service's":                                {other, far, balancer, true},
		"a Service's that is no source any more":     {"10.244.0.11", far, plain, true},
		"a router's, of another network":             {pod, far, "100.64.0.2", false},
		"its own address":                            {pod, far, pod, false},
		"the host's":                                 {"172.18.0.11", far, second, false},
	} {
		e := Entry{Orig: Tuple{Src: addr(test.src), Dst: addr(test.dst)}, Reply: Tuple{Src: addr(test.dst), Dst: addr(test.source)}}
		if got := s.Refuses(e); got != test.refused {
			t.Errorf("%s: refused is %t", name, got)
		}
	}
}
