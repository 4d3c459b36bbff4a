//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/test/lab/initd"
	"github.com/weft-network/weft/test/lab/tools"
)

// TestRebuild rebuilds the databases while running pods ping each other. No ping is lost, the tunnel keys and the
// northbound rows (with UUIDs) stay the same, and new pods work. It covers failure modes D3 and D4: rebuild NB from
// the API server, and no outage after SB was emptied.
func TestRebuild(t *testing.T) {
	from, here, there := bed.peerPod("rebuild-1", "n1"), bed.peerPod("rebuild-2", "n1"), bed.peerPod("rebuild-3", "n2")
	bed.run(t, from, here, there)
	plugin := buildPlugin(t)
	for i, args := range [][]string{nil, nil, nil, {"--nb"}, {"--nb"}} {
		t.Run(fmt.Sprintf("%d%s", i+1, strings.Join(args, "")), func(t *testing.T) {
			before := tunnelKeys(t)
			rowsBefore, err := bed.ports(t.Context())
			must(t, err)
			pings := startPings(t, from, here, there)
			out, err := rebuild(t, plugin, args...)
			t.Logf("\n%s", out)
			must(t, err)
			if after := tunnelKeys(t); !maps.Equal(after, before) {
				t.Errorf("tunnel keys are %v, were %v", after, before)
			}
			rowsAfter, err := bed.ports(t.Context())
			must(t, err)
			if diff := cmp.Diff(rowsBefore, rowsAfter); diff != "" {
				t.Errorf("the northbound ports differ (-before +after):\n%s", diff)
			}
			bed.mustReach(t, from, here, there)
			pings.mustLoseNothing(t)
			mustServeNewPods(t, fmt.Sprintf("rebuild-new-%d", i), from, here, there)
		})
	}
}

// TestRebuildThatFails checks that a failure before the swap is rolled back completely.
func TestRebuildThatFails(t *testing.T) {
	from, here, there := bed.peerPod("failing-1", "n1"), bed.peerPod("failing-2", "n1"), bed.peerPod("failing-3", "n2")
	bed.run(t, from, here, there)
	plugin := buildPlugin(t)
	for name, args := range map[string][]string{
		"no ovn-northd to compute the rows":         {"--ovn-northd=/bin/false", "--wait=2s"},
		"after the northbound database was emptied": {"--nb", "--ovn-northd=/bin/false", "--wait=5s"},
	} {
		t.Run(name, func(t *testing.T) {
			pings := startPings(t, from, here, there)
			out, err := rebuild(t, plugin, args...)
			t.Logf("\n%s", out)
			if err == nil {
				t.Error("it succeeded")
			}
			pings.mustLoseNothing(t)
			if status := bed.mustExec(t, "cp", "ovn-appctl", "-t", "ovn-northd", "status"); !strings.Contains(status, "active") {
				t.Errorf("ovn-northd is %s", status)
			}
			if _, err := os.Stat(filepath.Join(bed.Dir, "cp", ".weft-rebuild")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the new databases are still there: %v", err)
			}
			mustServeNewPods(t, "failing-new", from, here, there)
		})
	}
}

// TestSouthboundLost deletes the southbound database's file and kills its server under pings (D1, D4).
func TestSouthboundLost(t *testing.T) {
	from, here, there := bed.peerPod("lost-1", "n1"), bed.peerPod("lost-2", "n1"), bed.peerPod("lost-3", "n2")
	bed.run(t, from, here, there)
	plugin := buildPlugin(t)

	for _, lost := range []struct {
		name    string
		servers []string
		args    []string
	}{{"rebuilt by the command", []string{"sb"}, nil}, {"with the northbound one", []string{"sb", "nb"}, []string{"--nb"}}} {
		t.Run(lost.name, func(t *testing.T) {
			before := tunnelKeys(t)
			pings := startPings(t, from, here, there)
			start := time.Now()
			for _, server := range lost.servers {
				must(t, os.Remove(filepath.Join(bed.Dir, "cp", server+".db")))
				must(t, bed.Kill("cp", server))
			}
			out, err := rebuild(t, plugin, lost.args...)
			t.Logf("\n%s", out)
			must(t, err)
			t.Logf("recovered %s after the loss", milliseconds(time.Since(start)))
			if after := tunnelKeys(t); !maps.Equal(after, before) {
				t.Errorf("tunnel keys are %v, were %v", after, before)
			}
			bed.mustReach(t, from, here, there)
			pings.mustLoseNothing(t)
			mustServeNewPods(t, "lost-new-"+lost.servers[len(lost.servers)-1], from, here, there)
		})
	}

	// Here no person runs the command, and an empty database takes the file's place, as with ovn-ctl. What
	// ovn-controller 25.03 does then varies: the test logs the figures and requires only the recovery.
	t.Run("an empty database takes its place", func(t *testing.T) {
		empty := southboundFile() + ".empty"
		bed.mustExec(t, "cp", "ovsdb-tool", "create", empty, bed.Cache.Schema("ovn-sb"))
		chassis := daemonStarts(t, "ovn-controller")
		pings := startPings(t, from, here, there)
		start := time.Now()
		must(t, os.Rename(empty, southboundFile()))
		must(t, bed.Kill("cp", "sb"))
		eventually(t, 2*time.Minute, func() error { return allBound(t, from, here, there) })
		bound := time.Since(start)
		eventually(t, 2*time.Minute, func() error { return bed.reachEachOther(t.Context(), from, here, there) })
		t.Logf("all ports were bound %s and all pods reached each other %s after the loss", milliseconds(bound),
			milliseconds(time.Since(start)))
		for _, r := range pings.stop(t) {
			t.Logf("to %s: %d of %d lost, in %v", r.To, r.Lost, r.Sent, r.Gaps)
		}
		t.Logf("ovn-controller was started %v times before and %v after", chassis, daemonStarts(t, "ovn-controller"))
		mustServeNewPods(t, "lost-new-empty", from, here, there)
	})
}

// mustServeNewPods runs a pod on each node. The new pods and the existing pods reach each other.
func mustServeNewPods(t *testing.T, name string, pods ...*corev1.Pod) {
	t.Helper()
	late := []*corev1.Pod{bed.peerPod(name+"-n1", "n1"), bed.peerPod(name+"-n2", "n2")}
	bed.run(t, late...)
	bed.mustReach(t, append(late, pods...)...)
	bed.awaitConsistent(t)
}

func southboundFile() string { return filepath.Join(bed.Dir, "cp", "sb.db") }

// buildPlugin builds kubectl-weft in a folder that the machines see, and returns its path.
func buildPlugin(t *testing.T) string {
	t.Helper()
	source, err := tools.SourceRoot()
	must(t, err)
	plugin := filepath.Join(bed.peerDir, "kubectl-weft")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", plugin, "./cmd/kubectl-weft")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl-weft: %v\n%s", err, text)
	}
	return plugin
}

// rebuild runs "kubectl weft db rebuild" on the machine with the databases.
func rebuild(t *testing.T, plugin string, args ...string) (string, error) {
	t.Helper()
	argv := append([]string{plugin, "--kubeconfig=" + bed.KubeConfig(), "db", "rebuild", "--local",
		"--nb-file=" + filepath.Join(bed.Dir, "cp", "nb.db"), "--sb-file=" + southboundFile(),
		"--nb-schema=" + bed.Cache.Schema("ovn-nb"), "--sb-schema=" + bed.Cache.Schema("ovn-sb")}, args...)
	cmd, err := bed.Command(t.Context(), "cp", argv...)
	must(t, err)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tunnelKeys returns the keys of all datapaths and ports by name, without temporary pods.
func tunnelKeys(t *testing.T) map[string]string {
	t.Helper()
	keys := map[string]string{}
	bindings, err := bed.rows(t.Context(), "cp", "ovn-sbctl", "Port_Binding", "logical_port,tunnel_key")
	must(t, err)
	for _, b := range bindings {
		if !strings.Contains(b.text("logical_port"), "-new-") {
			keys[b.text("logical_port")] = fmt.Sprint(b["tunnel_key"])
		}
	}
	datapaths, err := bed.rows(t.Context(), "cp", "ovn-sbctl", "Datapath_Binding", "external_ids,tunnel_key")
	must(t, err)
	for _, d := range datapaths {
		keys["datapath "+d.pairs("external_ids")["name"]] = fmt.Sprint(d["tunnel_key"])
	}
	return keys
}

// allBound returns nil if the ports of the pods are bound and reported up.
func allBound(t *testing.T, pods ...*corev1.Pod) error {
	bindings, err := bed.rows(t.Context(), "cp", "ovn-sbctl", "Port_Binding", "logical_port,chassis,up")
	if err != nil {
		return err
	}
	up := map[string]bool{} // logical port -> is bound and up
	for _, b := range bindings {
		up[b.text("logical_port")] = b.uuid("chassis") != "" && b["up"] == true
	}
	for _, p := range pods {
		if !up[portOf(p)] {
			err = errors.Join(err, fmt.Errorf("port %s is not bound", portOf(p)))
		}
	}
	return err
}

// daemonStarts returns how often a daemon was started, by node.
func daemonStarts(t *testing.T, daemon string) map[string]int {
	t.Helper()
	starts := map[string]int{}
	for _, node := range []string{"n1", "n2"} {
		all, err := bed.Daemons(node)
		must(t, err)
		i := slices.IndexFunc(all, func(s initd.Status) bool { return s.Name == daemon })
		starts[node] = all[i].Starts
	}
	return starts
}
