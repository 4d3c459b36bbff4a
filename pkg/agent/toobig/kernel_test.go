package toobig_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// The kernel's datapath needs no relay: its conntrack relates each message to its connection and translates it, including a message that
// quotes a fragment. A second bridge translates as the gateway router does.
func TestTheKernelTranslatesMessages(t *testing.T) {
	if !ovndbtest.OnKernel(t) {
		t.Skip("the kernel has no Open vSwitch")
	}
	t.Setenv("PATH", filepath.Dir(ovndbtest.Binary(t, "ovs-ofctl"))+":"+os.Getenv("PATH"))
	for name, alone := range map[string]bool{"the host's link": false, "a link of the router's own": true} {
		t.Run(name, func(t *testing.T) {
			s := ovndbtest.StartSwitch(t)
			ovndbtest.Command(t, "ovs-vsctl", "--db="+s.Endpoint(), "--timeout=20", "add-br", bridgeName, "--", "add-br", "br-router",
				"--", "add-port", bridgeName, "outside", "--", "set", "Interface", "outside", "type=internal", "ofport_request=1",
				"--", "add-port", bridgeName, "to-router", "--", "set", "Interface", "to-router", "type=patch", "ofport_request=2",
				"options:peer=to-bridge",
				"--", "add-port", "br-router", "to-bridge", "--", "set", "Interface", "to-bridge", "type=patch", "ofport_request=1",
				"options:peer=to-router",
				"--", "add-port", "br-router", "pods", "--", "set", "Interface", "pods", "type=internal", "ofport_request=2")
			for _, flow := range []string{
				"priority=1,actions=drop", "priority=2,in_port=1,ipv6,actions=ct(zone=0,nat,table=1)", "table=1,actions=output:2",
			} {
				ovndbtest.Command(t, "ovs-ofctl", "add-flow", "unix:"+s.RunDir()+"/br-router.mgmt", flow)
			}
			link, err := netlink.LinkByName("pods")
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkSetUp(link); err != nil {
				t.Fatal(err)
			}
			packets := listen(t, link.Attrs().Index)
			connect(t, s, desired.ExternalBridge{Alone: alone})
			for _, test := range []struct {
				name         string
				sent, quoted []byte
			}{
				{"a datagram", datagram(node, translatedPort), datagram(pod, podPort)},
				{"an echo request", request(node), request(pod)},
				{"the first fragment of a datagram", fragment(datagram(node, translatedPort), 0), fragment(datagram(pod, podPort), 0)},
				{"the first fragment of an echo request", fragment(request(node), 0), fragment(request(pod), 0)},
			} {
				sendFrom(t, s, 1, message(node, test.sent))
				got := packets.next(t)
				if want := message(pod, test.quoted); got != hex.EncodeToString(want[ethernet:]) {
					t.Errorf("%s: the pod gets\n%s, want\n%x", test.name, got, want[ethernet:])
				}
			}
		})
	}
}
