package demo

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded is the output of ovn-nbctl in a lab.
func recorded(t *testing.T) Topology {
	t.Helper()
	text, err := os.ReadFile("testdata/ovn-nbctl.json")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := parseTopology(text)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestTopologyOnScreen(t *testing.T) {
	got := printed(false, func(s Screen) { printTopology(s, recorded(t)) })
	want := `
The logical network (OVN's northbound database)

router ovn_cluster_router
├─ switch join                     0a:58:64:40:00:01  100.64.0.1/16 fd98::1/64           router port rtoj-ovn_cluster_router
├─ switch n1 (pods: 3)             0a:58:0a:f4:01:01  10.244.1.1/24 fd00:10:244:1::1/64  router port rtos-n1
│    demo_client-696bf69f57-6xt6z  0a:58:0a:f4:01:05  10.244.1.5 fd00:10:244:1::5        pod
│    demo_web-7dc7b748b9-4tw4j     0a:58:0a:f4:01:03  10.244.1.3 fd00:10:244:1::3        pod
│    demo_web-7dc7b748b9-gzwg8     0a:58:0a:f4:01:04  10.244.1.4 fd00:10:244:1::4        pod
│    k8s-n1                        0a:58:0a:f4:01:02  10.244.1.2 fd00:10:244:1::2        the node itself
└─ switch n2 (pods: 3)             0a:58:0a:f4:00:01  10.244.0.1/24 fd00:10:244::1/64    router port rtos-n2
     demo_client-696bf69f57-82f5m  0a:58:0a:f4:00:05  10.244.0.5 fd00:10:244::5          pod
     demo_web-7dc7b748b9-6p9m8     0a:58:0a:f4:00:03  10.244.0.3 fd00:10:244::3          pod
     demo_web-7dc7b748b9-9s7rf     0a:58:0a:f4:00:04  10.244.0.4 fd00:10:244::4          pod
     k8s-n2                        0a:58:0a:f4:00:02  10.244.0.2 fd00:10:244::2          the node itself
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTraceStartsAtThePodAndItsRouter(t *testing.T) {
	from := pod("client-696bf69f57-6xt6z", "n1", "10.244.1.5", "fd00:10:244:1::5")
	to := pod("client-696bf69f57-82f5m", "n2", "10.244.0.5", "fd00:10:244::5")
	got, ok := traceFlow(from, to, recorded(t))
	want := `inport=="demo_client-696bf69f57-6xt6z" && eth.src==0a:58:0a:f4:01:05 && eth.dst==0a:58:0a:f4:01:01 && ` +
		`ip4.src==10.244.1.5 && ip4.dst==10.244.0.5 && ip.ttl==64 && icmp4.type==8`
	if !ok || got != want {
		t.Errorf("ok %t\ngot  %s\nwant %s", ok, got, want)
	}
	if _, ok := traceFlow(pod("gone", "n1", "10.244.1.9"), to, recorded(t)); ok {
		t.Error("a pod without a port has a trace")
	}
}

func TestTraceCrossesNodes(t *testing.T) {
	if from, to := crossing(three()); from.Name != "web-a" || to.Name != "web-c" {
		t.Errorf("from %s to %s", from.Name, to.Name)
	}
	if from, to := crossing(three()[:2]); from.Name != "web-a" || to.Name != "web-b" {
		t.Errorf("on one node: from %s to %s", from.Name, to.Name)
	}
}

func TestValuesOfOVSDB(t *testing.T) {
	for text, want := range map[string][]string{
		`"x"`:                                 {"x"},
		`5`:                                   {"5"},
		`true`:                                {"true"},
		`["uuid","u"]`:                        {"u"},
		`["set",[]]`:                          nil,
		`["set",["a","b"]]`:                   {"a", "b"},
		`["set",[["uuid","u"],["uuid","v"]]]`: {"u", "v"},
		`["map",[["k","v"],["l","w"]]]`:       {"k", "v", "l", "w"},
	} {
		got, err := atoms([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	if _, err := atoms([]byte(`["set"]`)); err == nil {
		t.Error("a tag alone is a value")
	}
}

func TestTopologyThatIsNotThere(t *testing.T) {
	none := `{"headings":["name"],"data":[]}`
	for name, text := range map[string]string{
		"no router":      strings.Repeat(none+"\n", 4),
		"a list missing": strings.Repeat(none+"\n", 3),
		"cut off":        none + `{"headings":["na`,
		"uneven":         `{"headings":["name"],"data":[["a","b"]]}`,
	} {
		if _, err := parseTopology([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
