package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// testOverlay configures manually what the product would: a logical switch with one port on each node. A ping over
// it shows that the fabric carries Geneve, that ovn-controller reaches the southbound database, and that the
// datapath works.
func testOverlay(t *testing.T, ctx context.Context, c *Cluster) {
	datapath := "netdev"
	if kernelDatapath() {
		datapath = "system"
	}
	for i, n := range []Machine{Node(1), Node(2)} {
		mustExec(t, ctx, c, n.Name, "ovs-vsctl", "--timeout=30", "set", "Open_vSwitch", ".",
			"external_ids:system-id="+n.Name, "external_ids:ovn-remote="+Southbound,
			"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip="+n.IPv4.Addr().String(),
			"external_ids:ovn-bridge-datapath-type="+datapath,
			"--", "--may-exist", "add-br", "br-int",
			"--", "set", "Bridge", "br-int", "datapath_type="+datapath, "fail_mode=secure",
			"--", "--may-exist", "add-port", "br-int", "overlay",
			"--", "set", "Interface", "overlay", "type=internal", fmt.Sprintf("mac=%q", overlayMAC(i)),
			"external_ids:iface-id=overlay-"+n.Name)
		mustExec(t, ctx, c, n.Name, "ip", "address", "replace", overlayAddress(i)+"/24", "dev", "overlay")
		mustExec(t, ctx, c, n.Name, "ip", "link", "set", "overlay", "mtu", "1400", "up")
	}
	mustExec(t, ctx, c, "cp", "ovn-nbctl", "--timeout=60", "--wait=hv", "ls-add", "overlay",
		"--", "lsp-add", "overlay", "overlay-n1", "--", "lsp-set-addresses", "overlay-n1", overlayMAC(0)+" "+overlayAddress(0),
		"--", "lsp-add", "overlay", "overlay-n2", "--", "lsp-set-addresses", "overlay-n2", overlayMAC(1)+" "+overlayAddress(1))
	// The userspace datapath drops packets until it has the other node's MAC address, so one more packet goes first.
	_, _ = c.Exec(ctx, "n1", "busybox", "ping", "-c", "1", "-W", "2", overlayAddress(1))
	out := mustExec(t, ctx, c, "n1", "busybox", "ping", "-c", "5", "-W", "2", "-s", "1300", overlayAddress(1))
	if !strings.Contains(out, " 0% packet loss") {
		t.Errorf("ping over the overlay:\n%s", out)
	}
}

func overlayMAC(i int) string     { return fmt.Sprintf("0a:00:00:00:00:%02x", i+1) }
func overlayAddress(i int) string { return fmt.Sprintf("10.1.0.%d", i+1) }

func mustExec(t *testing.T, ctx context.Context, c *Cluster, machine string, argv ...string) string {
	t.Helper()
	out, err := c.Exec(ctx, machine, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
