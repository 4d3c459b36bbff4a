package tracer

import (
	"net/netip"
	"testing"

	"github.com/weft-network/weft/pkg/trace"
)

// Flows that require what the packet cannot have are left out, until a trace's text has it.
func TestFlowsAreLeftOut(t *testing.T) {
	packet := trace.Packet{Inport: "demo_web-0", From: "demo_web-0", To: "rtos-n1",
		Source: netip.MustParseAddr("10.244.0.3"), Destination: netip.MustParseAddr("10.96.0.1"), Backend: "10.244.1.4:8080"}
	for match, want := range map[string]struct {
		left bool
		text string // that makes it needed
	}{
		`1`: {}, `ip4.dst == 10.96.0.1`: {}, `ip4.dst == 10.244.1.4 && tcp`: {}, `reg0 == 10.244.0.0/24`: {},
		`outport == @pods && ip4.src == $set`: {}, `ip4.dst == 10.244.2.0/24 || ip6`: {}, `!(ip && ip4.dst == 10.244.2.1)`: {},
		`inport == "rtos-n1"`: {}, `outport == "none"`: {}, `reg0[6] == 1 && ip4.dst == ^NODEIP_IPv4_0`: {},
		`tcp && ip4.dst == 10.96.0.2 && tcp.dst == 80`:           {true, `ct_lb_mark(backends=10.96.0.2:80);`},
		`ip6.dst == {fd00::1}`:                                   {true, `xxreg0 = fd00::1;`},
		`reg7 == 0 && ip4.dst == 10.244.2.0/24`:                  {true, `ip4.dst = 10.244.2.7;`},
		`(outport == "rtos-n2" && reg0 == 10.244.0.3)`:           {true, `outport = "rtos-n2"`},
		`inport == "demo_web-1" && eth.src == 0a:58:0a:f4:01:04`: {true, `output to "demo_web-1"`},
	} {
		l, out := literalsOf([]trace.Packet{packet}, []string{"n1"}), newLeftOut()
		if left := out.add(l, match); left != want.left {
			t.Errorf("%s: left out %t, want %t", match, left, want.left)
		}
		if !want.left {
			continue
		}
		if l.learn(out, `reg5 = 10.96.0.2; ip4.src <-> ip4.dst; reg0 = 10.244.0.3; inport = "";`) {
			t.Errorf("%s: needed by a text without its literals", match)
		}
		if !l.learn(out, want.text) || newLeftOut().add(l, match) {
			t.Errorf("%s: still left out after %s", match, want.text)
		}
	}
}
