package lab

import (
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/test/lab/initd"
	"github.com/weft-network/weft/test/lab/tools"
)

func testCluster() *Cluster {
	return &Cluster{Name: "t", Dir: "/lab/t", Cache: tools.Cache{Dir: "/cache"}}
}

func TestMachinesHaveTheirOwnAddresses(t *testing.T) {
	seen := map[string]string{} // address -> machine
	for _, m := range machines(MaxNodes) {
		for _, a := range []string{m.IPv4.String(), m.IPv6.String(), m.MAC.String()} {
			if other, taken := seen[a]; taken {
				t.Errorf("%s has the address %s of %s", m.Name, a, other)
			}
			seen[a] = m.Name
		}
	}
	if n1 := Node(1); n1.IPv4.String() != "172.30.0.11/24" || n1.IPv6.String() != "fd00:172:30::11/64" {
		t.Errorf("node 1 = %+v", n1)
	}
}

func TestTheRouterIsTheFirstOfEachSubnet(t *testing.T) {
	for _, c := range []struct {
		machine Machine
		want    string
	}{
		{Node(7), "[172.30.0.1/24 fd00:172:30::1/64]"},
		{Outside(), "[198.51.100.1/24 2001:db8:100::1/64]"},
		{Far(), "[203.0.113.1/24 2001:db8:200::1/64]"},
	} {
		if got := fmt.Sprint(c.machine.gateways()); got != c.want {
			t.Errorf("%s: gateways %s, want %s", c.machine.Name, got, c.want)
		}
	}
	if got, want := fmt.Sprint(Router().prefixes()), fmt.Sprint(Node(1).gateways()); got != want {
		t.Errorf("the router has %s, its neighbours use %s", got, want)
	}
}

func TestKubeletConfigIsYAML(t *testing.T) {
	var config struct {
		CgroupRoot         string
		EvictionHard       map[string]string
		RegisterWithTaints []struct{ Key, Value, Effect string }
	}
	if err := yaml.Unmarshal([]byte(testCluster().kubeletConfig(Node(1), true)), &config); err != nil {
		t.Fatal(err)
	}
	if config.CgroupRoot != "/weft-lab/t/n1" || config.EvictionHard["nodefs.available"] != "0%" ||
		len(config.RegisterWithTaints) != 1 || config.RegisterWithTaints[0].Effect != "NoExecute" {
		t.Errorf("kubelet config: %+v", config)
	}
}

// A step without a ready check is ready immediately; kubelet must find the addresses and the runtime.
func TestKubeletStartsLast(t *testing.T) {
	steps := testCluster().nodeSpec(Node(1), true).Steps
	if last := steps[len(steps)-1]; last.Name != "kubelet" || !last.Daemon {
		t.Errorf("last step is %+v", last)
	}
}

func TestDaemonNamesAreUnique(t *testing.T) {
	for name, spec := range map[string]initd.Spec{"cp": testCluster().controlPlaneSpec(false),
		"n1": testCluster().nodeSpec(Node(1), true)} {
		seen := map[string]bool{}
		for _, s := range spec.Steps {
			if s.Daemon && seen[s.Name] {
				t.Errorf("%s: two daemons %q", name, s.Name)
			}
			seen[s.Name] = seen[s.Name] || s.Daemon
		}
	}
}

func TestOpenRefusesNamesThatAreNoPrefix(t *testing.T) {
	for _, name := range []string{"../x", "a/b", "A", "0a", "a-name-that-is-too-long"} {
		if _, err := Open(Options{Name: name}); err == nil {
			t.Errorf("Open(%q) succeeded", name)
		}
	}
}
