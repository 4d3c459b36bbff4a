package agent_test

import (
	"fmt"
	"testing"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// The agent reads at one listener, and tells ovn-controller another, where OVN's role lets it write.
func TestControllerIsToldItsOwnListener(t *testing.T) {
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
