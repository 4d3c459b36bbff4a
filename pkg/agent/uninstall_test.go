package agent_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/uninstall"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// uninstall removes Weft from the node and returns the logged steps.
func (n *node) uninstall(cutPods bool) (steps []string, err error) {
	n.Helper()
	log := funcr.New(func(_, args string) {
		if strings.Contains(args, `"removed"`) {
			steps = append(steps, args)
		}
	}, funcr.Options{})
	err = uninstall.Node{
		OpenVSwitch: n.ovs.Endpoint(), SwitchDir: n.ovs.RunDir(), Socket: n.socket(), ConfDir: n.path("net.d"),
		BinDir: n.path("bin"), CutPods: cutPods, SwitchTimeout: 5 * time.Second, Log: log,
	}.Run(n.Context())
	return steps, err
}

// left lists what the node has of Weft.
func (n *node) left() (found []string) {
	n.Helper()
	for _, path := range []string{
		n.path("net.d", "05-weft.conflist"), n.path("bin", "weft-cni"), n.socket(), "/run/weft/tombstones",
	} {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: 84}, netlink.RT_FILTER_PROTOCOL)
	n.must(err)
	for _, r := range routes {
		found = append(found, "route to "+r.Dst.String())
	}
	if _, err := netlink.LinkByName(mp0); err == nil {
		found = append(found, mp0)
	}
	ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
	if !ok {
		n.Fatal("the test's connection is lost")
	}
	for key := range ovs.ExternalIDs {
		if strings.HasPrefix(key, "ovn-") {
			found = append(found, "external_ids:"+key)
		}
	}
	ours := func(i *vswitchdb.Interface) bool { return i.ExternalIDs["weft.dev/unit"] != "" }
	for _, row := range ovndb.List(n.rows, ours) {
		found = append(found, "Interface "+row.Name)
	}
	if n.ruleset() != "" {
		found = append(found, "nftables")
	}
	found = append(found, n.flows()...)
	found = append(found, n.hostLinks()...)
	slices.Sort(found)
	return found
}

func TestUninstallLeavesNothing(t *testing.T) {
	n := gatewayNode(t)
	n.must(os.WriteFile(n.path("bin", "loopback"), []byte("of the distribution"), 0o755))
	n.must(os.WriteFile(n.path("net.d", "99-other.conf"), []byte("{}"), 0o644))
	n.must(os.WriteFile(n.path("net.d", ".05-weft.conflist123"), []byte("half"), 0o644))
	p := n.newPod("web", 20)
	n.givePort(p)
	n.add(p)

	if _, err := n.uninstall(true); err == nil || !strings.Contains(err.Error(), "an agent answers") {
		t.Fatalf("while the agent runs: %v", err)
	}
	n.stopAgent()
	n.nft("add table inet weft-tunnels") // of encryption, which the test's datapath does not have
	if have := n.left(); len(have) < 12 {
		t.Fatalf("the stopped agent removed something: only %q is left", have)
	}
	before := n.left()
	steps, err := n.uninstall(false)
	if err == nil || len(steps) > 0 || !strings.Contains(err.Error(), "1 interfaces of pods") ||
		!slices.Equal(n.left(), before) {
		t.Fatalf("with a pod: error %v after %q, left %q", err, steps, n.left())
	}
	n.bury(p)
	steps, err = n.uninstall(true)
	n.must(err)
	if len(steps) != 8 || !strings.Contains(steps[0], "CNI configuration") {
		t.Errorf("steps are %q", steps)
	}
	n.until("an empty node", func() error {
		if left := n.left(); len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
	if rules, err := exec.Command("nft", "list", "tables").Output(); err == nil && strings.Contains(string(rules), "weft") {
		t.Errorf("rules are left: %s", rules)
	}
	names := []string{}
	for _, dir := range []string{"net.d", "bin"} {
		entries, err := os.ReadDir(n.path(dir))
		n.must(err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	if fmt.Sprint(names) != "[99-other.conf loopback]" {
		t.Errorf("the foreign files are now %q", names)
	}
	ovs, _ := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
	if ovs.ExternalIDs["system-id"] != nodeName {
		t.Errorf("the chassis' name was removed: %v", ovs.ExternalIDs)
	}
	if _, err := n.uninstall(true); err != nil {
		t.Errorf("the second removal failed: %v", err)
	}
}

// A removal that fails can be repeated. Until then the runtime finds no partly removed plugin.
func TestUninstallGoesOnWhereItFailed(t *testing.T) {
	n := readyNode(t)
	n.stopAgent()
	n.ovs.Kill()
	steps, err := n.uninstall(false)
	if err == nil || !strings.Contains(err.Error(), "rows in Open vSwitch") || len(steps) != 5 {
		t.Fatalf("without Open vSwitch: %v after %q", err, steps)
	}
	for _, path := range []string{n.path("net.d", "05-weft.conflist"), n.path("bin", "weft-cni")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	n.ovs.Run()
	n.until("the test's connection", func() error { return isTrue(n.rows.Connected(), "not connected") })
	_, err = n.uninstall(false)
	n.must(err)
	n.until("an empty node", func() error {
		left := n.left()
		return isTrue(len(left) == 0, strings.Join(left, ", "))
	})
}

// After a removal the agent can be installed again.
func TestInstallAfterUninstall(t *testing.T) {
	n := readyNode(t)
	n.stopAgent()
	_, err := n.uninstall(false)
	n.must(err)
	n.startAgent()
	n.awaitHost()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	p := n.newPod("web", 20)
	n.givePort(p)
	n.add(p)
	n.wantTraffic(p)
}
