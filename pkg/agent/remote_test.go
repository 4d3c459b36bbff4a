package agent_test

import (
	"fmt"
	"testing"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// ovn-controller gets another listener than the agent, which only reads: OVN's role lets ovn-controller write there.
func TestControllerGetsItsOwnListener(t *testing.T) {
	n := newNode(t)
	n.options = func(o *agent.Options) { o.Controller = []string{"ssl:192.0.2.9:6642", "ssl:[2001:db8::9]:6642"} }
	n.startAgent()
	n.until("ovn-remote", func() error {
		ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
		if !ok || ovs.ExternalIDs["ovn-remote"] != "ssl:192.0.2.9:6642,ssl:[2001:db8::9]:6642" {
			return fmt.Errorf("Open_vSwitch is %+v", ovs)
		}
		return nil
	})
}
