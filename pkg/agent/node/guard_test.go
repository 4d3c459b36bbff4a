package node

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/gateway"
	"github.com/weft-network/weft/pkg/agent/ipsec"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/openvswitch"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/lab/tools"
)

// TestMain runs the tests in a network namespace.
func TestMain(m *testing.M) {
	if err := tools.OnPath("nft"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(isolation.Run(unix.CLONE_NEWNET, m.Run))
}

// unconnected returns a reconciler of a node whose Open vSwitch and IKE daemon do not answer, and which has read no services.
func unconnected(t *testing.T, datapath networkv1alpha1.DatapathType) *Reconciler {
	later := func(time.Duration) {}
	g := &gateway.Gateway{Datapath: datapath, Repairs: repairs.New(logr.Discard(), func(string) {}, func() {}, later)}
	g.Init(t.TempDir(), nil, func() {}, func() {})
	ovs := ovndb.NewEngine(ovndb.Config{Schema: openvswitch.Schema(), Endpoints: []string{"unix:/absent"}, Log: logr.Discard()}, nil)
	return &Reconciler{Gateway: g, OVS: ovs, Datapath: datapath,
		IPsec: ipsec.New(ipsec.Options{Socket: filepath.Join(t.TempDir(), "charon.vici"), After: later})}
}

// guarded reports whether the kernel has the guard of tunnels.
func guarded(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("nft", "list", "tables").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out), "table inet weft-tunnels")
}

// The guard of tunnels waits for nothing that the gateway waits for: it is there while encryption is required, and only then.
func TestTunnelsAreGuarded(t *testing.T) {
	const required = networkv1alpha1.ProtectionRequired
	system := unconnected(t, networkv1alpha1.DatapathSystem)
	for _, step := range []struct {
		r          *Reconciler
		protection networkv1alpha1.TunnelProtection
		reason     string
		guarded    bool
	}{
		{system, networkv1alpha1.ProtectionAccepted, networkv1alpha1.ReasonNotReady, false},
		{system, required, networkv1alpha1.ReasonNotReady, true},
		{system, required, networkv1alpha1.ReasonNotReady, true},
		{system, "", "", false},
		{system, required, networkv1alpha1.ReasonNotReady, true},
		{unconnected(t, networkv1alpha1.DatapathNetdev), required, networkv1alpha1.ReasonUnsupportedDatapath, false},
	} {
		stage := step.r.applyIPsec(t.Context(), step.protection, &networkv1alpha1.NodeNetworkStatus{})
		if got := guarded(t); stage.Reason != step.reason || got != step.guarded {
			t.Errorf("%s %q: guarded %t; %s: %v", step.r.Datapath, step.protection, got, stage.Reason, stage.Err)
		}
	}
}

// While the guard cannot be removed, the policies stay: without them it would drop all packets of tunnels.
func TestPoliciesOutliveTheGuard(t *testing.T) {
	var status networkv1alpha1.NodeNetworkStatus
	unconnected(t, networkv1alpha1.DatapathSystem).applyIPsec(t.Context(), networkv1alpha1.ProtectionRequired, &status)
	host := func(last byte) *net.IPNet {
		return &net.IPNet{IP: net.IPv4(192, 0, 2, last), Mask: net.CIDRMask(32, 32)}
	}
	policy := &netlink.XfrmPolicy{Src: host(1), Dst: host(2), Proto: unix.IPPROTO_UDP, DstPort: ports.Geneve, Dir: netlink.XFRM_DIR_OUT}
	if err := netlink.XfrmPolicyAdd(policy); err != nil {
		t.Skipf("the kernel has no IPsec: %v", err)
	}
	policies := func() int {
		all, err := netlink.XfrmPolicyList(netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", "")
	r := unconnected(t, networkv1alpha1.DatapathSystem)
	if stage := r.applyIPsec(t.Context(), "", &status); stage.Reason != networkv1alpha1.ReasonHostError || policies() != 1 {
		t.Errorf("without nft: %d policies; %s: %v", policies(), stage.Reason, stage.Err)
	}
	t.Setenv("PATH", path)
	if stage := r.applyIPsec(t.Context(), "", &status); stage.Err != nil || policies() != 0 || guarded(t) {
		t.Errorf("with nft: %d policies, guarded %t; %s: %v", policies(), guarded(t), stage.Reason, stage.Err)
	}
}
