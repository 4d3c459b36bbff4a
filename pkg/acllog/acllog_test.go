package acllog_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/acllog"
)

const (
	tcp = `2026-11-22T05:13:13.123Z|00012|acl_log(ovn_pinctrl0)|INFO|name="NP:demo/web:ingress isolation", verdict=drop, ` +
		`severity=warning, direction=to-lport: ` +
		`tcp,vlan_tci=0x0000,dl_src=0a:58:0a:f4:01:01,dl_dst=0a:58:0a:f4:01:03,nw_src=10.244.0.5,` +
		`nw_dst=10.244.1.3,nw_tos=0,nw_ecn=0,nw_ttl=63,nw_frag=no,tp_src=40152,tp_dst=80,tcp_flags=syn`
	udp = `2026-11-22T05:13:13.123Z|00013|acl_log(ovn_pinctrl0)|INFO|name="CNP:baseline:egress[2]", verdict=allow, ` +
		`severity=info, direction=from-lport: ` +
		`udp6,vlan_tci=0x0000,dl_src=0a:58:0a:f4:01:01,dl_dst=0a:58:0a:f4:01:03,ipv6_src=fd00::5,` +
		`ipv6_dst=2001:db8::7,ipv6_label=0x00000,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=5353,tp_dst=53`
	ip6 = `2026-11-22T05:13:13.123Z|00013|acl_log(ovn_pinctrl0)|INFO|name="EF:demo:Deny cidrSelector ::/0", verdict=pass, ` +
		`severity=info, direction=from-lport: ` +
		`icmp6,vlan_tci=0x0000,ipv6_src=fd00::5,ipv6_dst=2001:db8::7,icmp_type=128,icmp_code=0`
	onNetwork = `2026-11-22T05:13:13.123Z|00012|acl_log(ovn_pinctrl0)|INFO|name="MNP:demo/web:ingress isolation on blue", verdict=drop, ` +
		`severity=warning, direction=to-lport: tcp,nw_src=10.244.0.5,nw_dst=10.244.1.3,tp_src=40152,tp_dst=80,tcp_flags=syn`
	own = `2026-11-22T05:13:13.123Z|00013|acl_log(ovn_pinctrl0)|INFO|name="<unnamed>", verdict=reject, ` +
		`severity=info, direction=from-lport: ` +
		`ipv6,ipv6_src=fd00::5,ipv6_dst=2001:db8::7,nw_proto=99`
)

func TestText(t *testing.T) {
	pods := map[netip.Addr]string{netip.MustParseAddr("10.244.1.3"): "demo/web-1", netip.MustParseAddr("fd00::5"): "demo/client"}
	for line, want := range map[string]string{
		tcp:       "NetworkPolicy demo/web ingress isolation dropped TCP 10.244.0.5 → demo/web-1:80",
		udp:       "ClusterNetworkPolicy baseline egress[2] allowed UDP demo/client → [2001:db8::7]:53",
		ip6:       "EgressFirewall demo Deny cidrSelector ::/0 let pass ICMP6 demo/client → 2001:db8::7",
		onNetwork: "MultiNetworkPolicy demo/web ingress isolation on blue dropped TCP 10.244.0.5 → 10.244.1.3:80", // not demo/web-1's
		own:       "<unnamed> rejected IP demo/client → 2001:db8::7",
	} {
		d, err := acllog.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Text(func(a netip.Addr) string { return pods[a] }); got != want {
			t.Errorf("%s\nis %q\nand not %q", line, got, want)
		}
	}
	if d, err := acllog.Parse(tcp); err != nil || !d.Ingress || d.SourcePort != 40152 ||
		d.Severity != "warning" || d.Time.Nanosecond() != 123_000_000 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestLinesThatSayNothing(t *testing.T) {
	for line, says := range map[string]string{
		"": "not a line of acl_log",
		`2026-11-22T05:13:13.123Z|00012|vlog|INFO|opened log file /run/ovn/acl.log`:   "not a line of acl_log",
		strings.Replace(tcp, "2026-11-22T", "", 1):                                    "cannot parse",
		strings.Replace(tcp, `"NP:demo/web:ingress isolation", verdict=drop`, "", 1):  "name, verdict or packet is missing",
		strings.Replace(tcp, "nw_src=10.244.0.5,", "", 1):                             "source of",
		strings.Replace(tcp, "nw_dst=10.244.1.3", "nw_dst=here", 1):                   "destination of",
		strings.ReplaceAll(strings.Replace(tcp, ": tcp", "", 1), "nw_dst", "nothing"): "is missing",
	} {
		if d, err := acllog.Parse(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %+v (%v), wanted %q", line, d, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{tcp, udp, ip6, own, onNetwork, "||||", "a|b|acl_log|d|name="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if d, err := acllog.Parse(line); err == nil && (!d.Source.IsValid() || !d.Destination.IsValid()) {
			t.Errorf("%q is %+v", line, d)
		}
	})
}
