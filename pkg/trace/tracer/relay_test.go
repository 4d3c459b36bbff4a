package tracer

import (
	"net/netip"
	"testing"
)

// The node's state is filled into flows, and nothing else is touched.
func TestFill(t *testing.T) {
	f := filling{variables: map[string]string{"NODEIP_IPv4_0": "172.18.0.11", "Service_a_local": "10.244.0.3:80,10.244.0.4:80"}}
	for name, test := range map[string]struct {
		change    func(f *filling)
		flow, got string
	}{
		"a template in a match": {nil, `"match":"ip4.dst == ^NODEIP_IPv4_0 && tcp"`, `"match":"ip4.dst == 172.18.0.11 && tcp"`},
		"a template of backends": {nil, `"actions":"ct_lb_mark(backends=^Service_a_local; force_snat);"`,
			`"actions":"ct_lb_mark(backends=10.244.0.3:80,10.244.0.4:80; force_snat);"`},
		"a variable that the chassis lacks": {nil, `"match":"ip4.dst == ^OTHER"`, `"match":"ip4.dst == ^OTHER"`},
		"the chosen backend": {func(f *filling) { f.backend = "10.244.0.4:80" }, `"actions":"ct_lb_mark(backends=^Service_a_local);"`,
			`"actions":"ct_lb_mark(backends=10.244.0.4:80);"`},
		"a backend of another balancer": {func(f *filling) { f.backend = "10.244.0.4:81" },
			`"actions":"ct_lb_mark(backends=10.244.0.4:80,10.244.0.4:8);"`,
			`"actions":"ct_lb_mark(backends=10.244.0.4:80,10.244.0.4:8);"`},
		"a new connection has nothing to restore": {nil, `"actions":"ct_snat;"`, `"actions":"next;"`},
		"a reply has": {func(f *filling) { f.restore = netip.MustParseAddr("fd00::3") }, `"actions":"ct_snat;"`,
			`"actions":"ip6.dst = fd00::3; next;"`},
		"a translation is none": {nil, `"actions":"ct_snat(172.18.0.11);"`, `"actions":"ct_snat(172.18.0.11);"`},
		"a hairpin": {func(f *filling) { f.hairpin = netip.MustParseAddr("fd69::5") },
			`"actions":"reg0[6] = chk_lb_hairpin(); reg0[12] = chk_lb_hairpin_reply(); next;"`,
			`"actions":"reg0[6] = 1; reg0[12] = 1; next;"`},
		"the source of a hairpin": {func(f *filling) { f.hairpin = netip.MustParseAddr("169.254.169.5") },
			`"actions":"ct_snat_to_vip; next;"`, `"actions":"ip4.src = 169.254.169.5; next;"`},
		"a packet that OVN learns a client's backend from": {nil,
			`"actions":"commit_lb_aff(vip = \"10.96.0.1:80\", backend = \"10.244.0.3:80\", proto = tcp, timeout = 30); /* drop */"`,
			`"actions":"next;"`},
		"no hairpin": {nil, `"actions":"reg0[6] = chk_lb_hairpin();"`, `"actions":"reg0[6] = chk_lb_hairpin();"`},
		"a MAC": {func(f *filling) { f.resolved = "0a:58:64:40:00:01" }, `"actions":"get_nd(outport, xxreg0); next;"`,
			`"actions":"eth.dst = 0a:58:64:40:00:01; next;"`},
		"a router that hides clients": {func(f *filling) { f.hiding = []string{"GR_n1"} },
			`"match":"flags.force_snat_for_lb == 1 && ip4 && outport == \"rtoj-GR_n1\""`, `"match":"ip4 && outport == \"rtoj-GR_n1\""`},
		"another router": {func(f *filling) { f.hiding = []string{"GR_n1"} },
			`"match":"flags.force_snat_for_lb == 1 && ip4 && outport == \"rtoj-GR_n2\""`,
			`"match":"flags.force_snat_for_lb == 1 && ip4 && outport == \"rtoj-GR_n2\""`},
	} {
		filled := f
		if test.change != nil {
			test.change(&filled)
		}
		if got := string(filled.fill([]byte(test.flow))); got != test.got {
			t.Errorf("%s: %s became %s, want %s", name, test.flow, got, test.got)
		}
	}
}

// The hint belongs to the flow's own row, and not to a row that refers to another one with the same start.
func TestHint(t *testing.T) {
	const message = `{"result":[{"Logical_Flow":{` +
		`"11111111-0000-4000-8000-000000000000":{"initial":{"logical_dp_group":["uuid","22222222-0000-4000-8000-000000000000"],` +
		`"external_ids":["map",[["stage-hint","aaaaaaaa"],["stage-name","ls_in_lb"]]]}},` +
		`"22222222-0000-4000-8000-000000000001":{"insert":{"external_ids":["map",[["stage-name","ls_in_lb"]]]}},` +
		`"33333333-0000-4000-8000-000000000001":{"insert":{"external_ids":["map",[["stage-hint","bbbbbbbb"]]]}}}}]}`
	r := relay{}
	r.complete([]byte(message))
	for flow, want := range map[string]string{"11111111": "aaaaaaaa", "22222222": "", "33333333": "bbbbbbbb"} {
		if got, err := r.hint(flow); err != nil || got != want {
			t.Errorf("flow %s: hint %q, error %v; want %q", flow, got, err, want)
		}
	}
	if _, err := r.hint("44444444"); err == nil {
		t.Error("a flow that was not sent has a hint")
	}
}
