package openflow_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

const bridgeName = "br-test"

// newSwitch starts Open vSwitch with a bridge, and adds ovs-ofctl to the path of the tested code.
func newSwitch(t *testing.T) *ovndbtest.Switch {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(ovndbtest.Binary(t, "ovs-ofctl"))+":"+os.Getenv("PATH"))
	s := ovndbtest.StartSwitch(t)
	change(t, s, "add-br", bridgeName, "--", "set", "Bridge", bridgeName, "datapath_type="+ovndbtest.Datapath(t))
	return s
}

// change runs ovs-vsctl and returns after ovs-vswitchd has applied the change.
func change(t *testing.T, s *ovndbtest.Switch, args ...string) {
	t.Helper()
	ovndbtest.Command(t, "ovs-vsctl", append([]string{"--db=" + s.Endpoint(), "--timeout=20"}, args...)...)
}

func ofctl(t *testing.T, s *ovndbtest.Switch, command string, args ...string) string {
	t.Helper()
	return ovndbtest.Command(t, "ovs-ofctl", append([]string{command, "unix:" + s.RunDir() + "/" + bridgeName + ".mgmt"}, args...)...)
}

// shared returns a bridge that needs every kind of flow.
func shared() desired.ExternalBridge {
	service := func(f desired.Frontend) desired.Frontend {
		f.ClusterIP, f.ClusterPort = netip.MustParseAddr("10.96.0.7"), 80
		if f.Address.Is6() {
			f.ClusterIP = netip.MustParseAddr("fd00:10:96::7")
		}
		return f
	}
	return desired.ExternalBridge{
		Userspace: true, Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11",
		Addresses: []netip.Addr{netip.MustParseAddr("172.18.0.11"), netip.MustParseAddr("fd00:18::11")},
		Silent:    []netip.Addr{netip.MustParseAddr("172.18.0.201"), netip.MustParseAddr("fd00:18::201")},
		Hidden:    []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		Services:  []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")},
		Reserved: reserved.Table{
			Ports:        append(reserved.Defaults(), reserved.Port{Protocol: "sctp", Number: 3868}),
			Destinations: reserved.Remotes("db", "ssl:172.18.0.11:443"),
		},
		Frontends: []desired.Frontend{
			service(desired.Frontend{Protocol: corev1.ProtocolTCP, Port: 30080, NodePort: 30080}),
			service(desired.Frontend{Protocol: corev1.ProtocolUDP, Port: 30080, NodePort: 30080}),
			service(desired.Frontend{Protocol: corev1.ProtocolSCTP, Port: 80, Address: netip.MustParseAddr("fd00:99::1")}),
			service(desired.Frontend{Protocol: corev1.ProtocolTCP, Port: 80, Address: netip.MustParseAddr("198.51.100.7"),
				Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("203.0.113.7/32")}}),
		},
		Translated: []netip.Addr{netip.MustParseAddr("172.18.0.201"), netip.MustParseAddr("fd00:18::201")},
	}
}

func apply(t *testing.T, b *openflow.Bridge, flows []desired.Flow, wantChanged bool) {
	t.Helper()
	changed, err := b.Apply(flows)
	if err != nil {
		t.Fatal(err)
	}
	if changed != wantChanged {
		t.Errorf("changed is %v, want %v", changed, wantChanged)
	}
}

// count returns the numbers of our flows and of foreign flows on the bridge.
func count(t *testing.T, s *ovndbtest.Switch) (ours, others int) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(ofctl(t, s, "dump-flows")), "\n") {
		switch {
		case !strings.Contains(line, "actions="):
		case strings.Contains(line, "cookie=0x57ef"):
			ours++
		default:
			others++
		}
	}
	return ours, others
}

func wantCount(t *testing.T, s *ovndbtest.Switch, ours, others int) {
	t.Helper()
	if gotOurs, gotOthers := count(t, s); gotOurs != ours || gotOthers != others {
		t.Errorf("the bridge has %d flows of ours and %d foreign flows, want %d and %d:\n%s",
			gotOurs, gotOthers, ours, others, ofctl(t, s, "dump-flows"))
	}
}

func TestNothingIsWrittenWhenNothingDiffers(t *testing.T) {
	s := newSwitch(t)
	ofctl(t, s, "add-flow", "cookie=0x1,priority=7,ip,actions=drop")
	flows := shared().Flows()
	apply(t, openflow.New(s.RunDir(), bridgeName), flows, true)
	wantCount(t, s, len(flows), 2) // a foreign flow, and the default flow of every bridge
	bridge := openflow.New(s.RunDir(), bridgeName)
	apply(t, bridge, flows, false)
	apply(t, bridge, flows, false)
	wantCount(t, s, len(flows), 2)
}

func TestOnlyTheDifferenceIsWritten(t *testing.T) {
	s := newSwitch(t)
	bridge := openflow.New(s.RunDir(), bridgeName)
	facts := shared()
	apply(t, bridge, facts.Flows(), true)
	facts.Frontends = facts.Frontends[:1]
	facts.Patch = 5
	apply(t, bridge, facts.Flows(), true)
	wantCount(t, s, len(facts.Flows()), 1)
	apply(t, bridge, facts.Flows(), false)
	facts.Patch = 0
	apply(t, bridge, facts.Flows(), true)
	wantCount(t, s, len(facts.Flows()), 1)
	apply(t, bridge, nil, true)
	wantCount(t, s, 0, 1)
	apply(t, bridge, nil, false)
}

// Apply restores a deleted flow, and a flow whose actions were changed while its cookie stayed the same.
func TestForeignChangesAreReverted(t *testing.T) {
	s := newSwitch(t)
	bridge := openflow.New(s.RunDir(), bridgeName)
	flows := shared().Flows()
	apply(t, bridge, flows, true)
	before := len(flows)
	ofctl(t, s, "del-flows", "--strict", "priority=20,in_port=LOCAL")
	wantCount(t, s, before-1, 1)
	apply(t, bridge, flows, true)
	wantCount(t, s, before, 1)
	ofctl(t, s, "mod-flows", "--strict", "priority=20,in_port=LOCAL,actions=drop")
	apply(t, bridge, flows, true)
	if got := ofctl(t, s, "dump-flows"); strings.Contains(got, "priority=20,in_port=LOCAL actions=drop") {
		t.Errorf("the changed flow remains: %s", got)
	}
	apply(t, bridge, flows, false)
}

// A restarted switch begins without flows.
func TestARestartedSwitchGetsItsFlowsAgain(t *testing.T) {
	s := newSwitch(t)
	bridge := openflow.New(s.RunDir(), bridgeName)
	flows := shared().Flows()
	apply(t, bridge, flows, true)
	s.KillSwitch()
	if _, err := bridge.Apply(flows); !errors.Is(err, openflow.ErrAbsent) {
		t.Errorf("Apply to a switch that does not run returned %v", err)
	}
	s.RunSwitch()
	change(t, s, "set", "Bridge", bridgeName, "external_ids:seen=again")
	apply(t, bridge, flows, true)
	wantCount(t, s, len(flows), 1)
}

func TestAnAbsentBridge(t *testing.T) {
	s := newSwitch(t)
	if _, err := openflow.New(s.RunDir(), "br-none").Apply(shared().Flows()); !errors.Is(err, openflow.ErrAbsent) {
		t.Errorf("error is %v", err)
	}
}

// If the switch refuses one flow, it applies no flow of the bundle.
func TestARefusedFlow(t *testing.T) {
	s := newSwitch(t)
	bridge := openflow.New(s.RunDir(), bridgeName)
	bad := append(shared().Flows(), desired.Flow{Priority: 3, Match: "no_such_field=1", Actions: "drop"})
	if _, err := bridge.Apply(bad); err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("error is %v", err)
	}
	wantCount(t, s, 0, 1)
}
