package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// The agent gets the messages that conntrack of the userspace datapath cannot relate or damages, and no others.
func TestMessagesForTheAgent(t *testing.T) {
	const agent = "clone(controller(max_len=65535),load:0->NXM_NX_REG0[])"
	answered := []desired.Flow{
		{Table: 3, Priority: 100, Match: "ct_state=+est+rpl+trk,ipv6", Actions: agent}, {Table: 3, Actions: "drop"},
	}
	for name, test := range map[string]struct {
		userspace, alone bool
		want             []desired.Flow
	}{
		"the host's link": {true, false, append(answered[:2:2],
			desired.Flow{Table: 1, Priority: 110, Match: "ct_state=+inv+trk,icmp6,icmp_type=2", Actions: agent + ",LOCAL"},
			desired.Flow{
				Table: 1, Priority: 110, Match: "ct_state=+rel+trk,ct_mark=0x1,ct_nw_proto=17,icmp6,icmp_type=2",
				Actions: agent + ",output:2",
			})},
		"a link of the router's own": {true, true, append(answered[:2:2],
			desired.Flow{Priority: 60, Match: "in_port=1,icmp6,icmp_type=2,dl_dst=02:00:00:18:00:11", Actions: agent + ",output:2"})},
		"the kernel's datapath": {false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := desired.ExternalBridge{
				Alone: test.alone, Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11",
				Addresses: addrs("172.18.0.11", "fd00:18::11"),
			}
			plain := b.Flows()
			b.Userspace = test.userspace
			if diff := cmp.Diff(append(plain, test.want...), b.Flows()); diff != "" {
				t.Errorf("flows (-want +got):\n%s", diff)
			}
		})
	}
}
