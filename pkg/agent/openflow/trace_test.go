package openflow_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

const (
	ourMAC   = "02:00:00:18:00:11"
	theirMAC = "02:00:00:18:00:01"
)

// tracer reads from ovs-vswitchd where packets go. Port 1 leads outside, and port 2 to the router.
type tracer struct {
	t *testing.T
	s *ovndbtest.Switch
}

func newTracer(t *testing.T) tracer {
	t.Helper()
	s := newSwitch(t)
	change(t, s, "add-port", bridgeName, "outside", "--", "set", "Interface", "outside", "type=internal", "ofport_request=1",
		"--", "add-port", bridgeName, "router", "--", "set", "Interface", "router", "type=internal", "ofport_request=2")
	apply(t, openflow.New(s.RunDir(), bridgeName), shared().Flows(), true)
	return tracer{t, s}
}

var (
	finalActions = regexp.MustCompile(`(?m)^Datapath actions: (.*)$`)
	shownPort    = regexp.MustCompile(`(\S+) \d+/(\d+): `) // "outside 1/2: (tap)"
)

// trace returns the datapath actions of each pass of a packet, with port names. ct are the states that conntrack returns
// in turn.
func (tr tracer) trace(packet string, ct ...string) string {
	tr.t.Helper()
	args := []string{"-t", control(tr.t, tr.s), "ofproto/trace", bridgeName, packet}
	for _, state := range ct {
		args = append(args, "--ct-next", state)
	}
	var passes []string
	for _, match := range finalActions.FindAllStringSubmatch(ovndbtest.Command(tr.t, "ovs-appctl", args...), -1) {
		passes = append(passes, tr.named(match[1]))
	}
	return strings.Join(passes, "; ")
}

// named replaces datapath port numbers in actions by port names.
func (tr tracer) named(actions string) string {
	names := map[string]string{} // datapath port -> name
	ports := ovndbtest.Command(tr.t, "ovs-appctl", "-t", control(tr.t, tr.s), "dpif/show")
	for _, match := range shownPort.FindAllStringSubmatch(ports, -1) {
		names[match[2]] = match[1]
	}
	var parts []string
	for _, part := range strings.Split(actions, ",") {
		if name, ok := names[part]; ok {
			part = name
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

func control(t *testing.T, s *ovndbtest.Switch) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(s.RunDir(), "ovs-vswitchd.*.ctl"))
	if len(found) != 1 {
		t.Fatalf("control sockets of ovs-vswitchd: %v", found)
	}
	return found[0]
}

func TestWherePacketsGo(t *testing.T) {
	tr := newTracer(t)
	const (
		in    = "in_port=1,dl_src=" + theirMAC + ",dl_dst=" + ourMAC
		in4   = in + ",%s,nw_src=192.0.2.5,nw_dst=%s"
		fromR = "in_port=2,dl_src=" + ourMAC + ",dl_dst=" + theirMAC
		fromH = "in_port=LOCAL,dl_src=" + ourMAC + ",dl_dst=" + theirMAC
	)
	ct1, ct2 := "ct(commit,zone=64000,mark=0x1/0xffffffff)", "ct(commit,zone=64000,mark=0x2/0xffffffff)"
	type test struct {
		packet string
		ct     []string
		want   string // a part of the actions
	}
	for name, test := range map[string]test{
		"the router's connections leave": {
			fromR + ",tcp,nw_src=172.18.0.11,nw_dst=192.0.2.5", nil, "); outside",
		},
		"the router's connections are marked": {
			fromR + ",tcp,nw_src=172.18.0.11,nw_dst=192.0.2.5", nil, ct1 + ",recirc(",
		},
		"untranslated IPv4 packets do not leave": {fromR + ",tcp,nw_src=10.244.1.5,nw_dst=192.0.2.5", nil, "drop"},
		"untranslated IPv6 packets do not leave": {
			fromR + ",tcp6,ipv6_src=fd00:10:244:1::5,ipv6_dst=2001:db8::1", nil, "drop",
		},
		"a MAC that is not the router's": {
			"in_port=2,dl_src=" + theirMAC + ",dl_dst=" + ourMAC + ",tcp,nw_src=172.18.0.11", nil, "drop",
		},
		"the router's ARP request": {
			"in_port=2,dl_src=" + ourMAC + ",dl_dst=ff:ff:ff:ff:ff:ff,arp,arp_op=1", nil, "outside",
		},
		"the router's ARP for a silent address": {
			"in_port=2,dl_src=" + ourMAC + ",dl_dst=ff:ff:ff:ff:ff:ff,arp,arp_op=1,arp_spa=172.18.0.201,arp_tpa=172.18.0.201", nil, "drop",
		},
		"the router's advertisement of a silent address": {
			fromR + ",icmp6,icmpv6_type=136,nd_target=fd00:18::201", nil, "drop",
		},
		"the router's advertisement of another address": {
			fromR + ",icmp6,icmpv6_type=136,nd_target=fd00:18::202", nil, "outside",
		},
		"the router's ARP reply to the host does not leave": {
			"in_port=2,dl_src=" + ourMAC + ",dl_dst=" + ourMAC + ",arp,arp_op=2", nil, "drop",
		},
		"the host's connections are marked": {fromH + ",tcp,nw_src=172.18.0.11,nw_dst=192.0.2.5", nil, ct2},
		"connections from another MAC at the host are not marked": {
			"in_port=LOCAL,dl_src=02:00:00:18:00:98,dl_dst=" + theirMAC + ",tcp,nw_src=172.18.0.98,nw_dst=192.0.2.5", nil, "outside",
		},
		"the host's tunnels are not marked": {
			fromH + ",udp,nw_src=172.18.0.11,nw_dst=172.18.0.12,udp_dst=6081", nil, "outside",
		},
		"tunnels from outside go to the host": {fmt.Sprintf(in4, "udp", "172.18.0.11") + ",udp_dst=6081", nil, bridgeName},
		"ARP replies go to router and host":   {in + ",arp,arp_op=2", nil, "router," + bridgeName},
		"new connections go to the host": {
			fmt.Sprintf(in4, "tcp", "172.18.0.11") + ",tcp_dst=22", []string{"trk,new"}, "; " + bridgeName,
		},
		"invalid packets go to the host": {
			fmt.Sprintf(in4, "tcp", "172.18.0.11") + ",tcp_dst=22", []string{"trk,inv"}, "; " + bridgeName,
		},
		"a message about a fragment goes to the agent": {
			in + ",icmp6,icmpv6_type=2", []string{"trk,inv"}, "; userspace(pid=",
		},
		"a message about a fragment goes to the host too": {
			in + ",icmp6,icmpv6_type=2", []string{"trk,inv"}, "," + bridgeName,
		},
		"a message about an unmarked connection goes to the host": {
			in + ",icmp6,icmpv6_type=2", []string{"trk,rel"}, "; " + bridgeName,
		},
		"frames to other MACs are switched": {
			"in_port=1,dl_src=" + theirMAC + ",dl_dst=02:00:00:18:00:99,tcp", nil, "router",
		},
		"our MAC is not learnt from another port": {
			"in_port=7,dl_src=" + ourMAC + ",dl_dst=" + theirMAC + ",arp", nil, "drop",
		},
		"a multicast router advertisement goes to the host": {
			"in_port=1,dl_src=" + theirMAC + ",dl_dst=33:33:00:00:00:01,icmp6,icmpv6_type=134", nil, bridgeName,
		},
		"a unicast router advertisement goes to the host": {in + ",icmp6,icmpv6_type=134", nil, bridgeName},
	} {
		t.Run(name, func(t *testing.T) {
			got := tracer{t, tr.s}.trace(test.packet, test.ct...)
			t.Log(got)
			if !strings.Contains(got, test.want) {
				t.Errorf("%s: %s, want %s", test.packet, got, test.want)
			}
		})
	}
}
