//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/admin"
)

// weft runs "kubectl weft" as a user does: kubectl finds the plugin in PATH, and the plugin finds the operator.
type weft struct {
	*testing.T
	folder string // contains the plugin
}

// newWeft waits for an operator that answers, because an earlier test may have stopped the previous one.
func newWeft(t *testing.T) *weft {
	w := &weft{t, filepath.Dir(buildPlugin(t))}
	eventually(t, convergence, func() error {
		if _, errs, code := w.run("", "drift"); code > 1 {
			return errors.New(errs)
		}
		return nil
	})
	return w
}

// run returns the command's standard output, standard error and exit code.
func (w *weft) run(input string, args ...string) (out, errs string, code int) {
	w.Helper()
	cmd := w.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	var ended *exec.ExitError
	if err := cmd.Run(); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else if err != nil {
		w.Fatal(err)
	}
	return stdout.String(), stderr.String(), code
}

// command returns the command, which runs until the test's end at the latest.
func (w *weft) command(args ...string) *exec.Cmd {
	w.Helper()
	path := "PATH=" + strings.Join([]string{w.folder, filepath.Dir(bed.Cache.Bin("kubectl")), "/usr/bin", "/bin"}, ":")
	cmd, err := bed.Command(w.Context(), "cp", append([]string{"env", path, "KUBECONFIG=" + bed.KubeConfig(),
		"kubectl", "weft"}, args...)...)
	must(w.T, err)
	return cmd
}

// expect fails the test unless the exit code matches and the output contains all texts.
func (w *weft) expect(code int, input string, args []string, texts ...string) string {
	w.Helper()
	out, errs, got := w.run(input, args...)
	if got != code {
		w.Errorf("kubectl weft %v: exit code %d, want %d\n%s%s", args, got, code, out, errs)
	}
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			w.Errorf("kubectl weft %v lacks %q in its output:\n%s%s", args, text, out, errs)
		}
	}
	return out
}

// manifestOf returns the manifest that a user would write for a pod.
func manifestOf(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	p = p.DeepCopy()
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	text, err := json.Marshal(p)
	must(t, err)
	return string(text)
}

func TestPlanOfAPodComesTrue(t *testing.T) {
	w := newWeft(t)
	pod := bed.peerPod("planned", "")
	manifest := manifestOf(t, pod)
	w.expect(0, manifest, []string{"plan", "-f", "-"}, "No row would change.", "Pod e2e/planned is not scheduled")
	var planned admin.Changes
	must(t, json.Unmarshal([]byte(w.expect(1, manifest, []string{"plan", "-f", "-", "--node=n1", "-o", "json"})), &planned))
	w.expect(1, manifest, []string{"plan", "-f", "-", "--node=n1"}, "pod/e2e/planned",
		"+ Logical_Switch_Port e2e_planned", "1 row to insert", "1 element to add")
	ports, err := bed.ports(t.Context())
	must(t, err)
	if _, ok := ports[portOf(pod)]; ok {
		t.Fatal("the plan created the port, want a dry run")
	}

	pod.Spec.NodeName = "n1"
	bed.run(t, pod)
	want := ovnexpr.PortAddress{}
	for _, c := range planned.Changes {
		for _, column := range c.Columns {
			if c.Op == ovndb.OpInsert && column.Column == "addresses" {
				want, err = ovnexpr.ParsePortAddress(column.Want)
				must(t, err)
			}
		}
	}
	if got := addressesOf(pod); len(got) == 0 || !slices.Equal(got, want.Addresses) {
		t.Errorf("the pod has addresses %v, the plan showed %v", got, want.Addresses)
	}
	w.expect(0, manifestOf(t, bed.peerPod("planned", "n1")), []string{"plan", "-f", "-"}, "No row would change.")
	w.expect(1, manifest, []string{"plan", "--delete", "-f", "-"}, "- Logical_Switch_Port e2e_planned", "1 to delete")
}

func TestPlanOfAClusterOfItsOwn(t *testing.T) {
	w := newWeft(t)
	const manifests = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: planned}}
- {apiVersion: v1, kind: Namespace, metadata: {name: planned}}
- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: planned}, spec: {nodeName: planned, containers: [{name: c, image: x}]}}
`
	w.expect(1, manifests, []string{"plan", "-f", "-"}, "node/planned", "+ Logical_Switch planned",
		"+ Logical_Router_Port "+names.RouterToSwitch("planned"),
		"its namespace does not exist yet", "Node planned waits for its agent", "without a port until then: planned/p")
	for text, says := range map[string]string{
		"{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containerz: []}}":           `unknown field "spec.containerz"`,
		"{apiVersion: weft.example/v1, kind: Loom, metadata: {name: l}}":                     `no matches for kind "Loom"`,
		"{apiVersion: v1, kind: Pod, metadata: {name: p}}\n---\n{apiVersion: v1, kind: Pod}": "document 2: Pod without metadata.name",
	} {
		w.expect(2, text, []string{"plan", "-f", "-"}, says)
	}
	w.expect(2, manifests, []string{"plan", "-f", "-", "-n", "default"}, "no operator leads")
	err := bed.api.Get(t.Context(), client.ObjectKey{Name: "planned"}, &corev1.Node{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the plan created a node, want a dry run: %v", err)
	}
}

// In the mode Report, a foreign change stays in the database, so that a person can inspect it.
func TestDriftIsShown(t *testing.T) {
	w := newWeft(t)
	pod := bed.peerPod("drifting", "n1")
	bed.run(t, pod)
	w.expect(0, "", []string{"drift"}, "The database matches the desired state.")
	setDriftMode(t, networkv1alpha1.DriftReport)
	before := portRow(t, pod)
	eventually(t, convergence, func() error { // until the operator reads the mode, it reverts the change
		if portRow(t, pod).text("port_security") == before.text("port_security") {
			bed.mustExec(t, bed.central, "ovn-nbctl", "--timeout=10", "clear", "Logical_Switch_Port", portOf(pod), "port_security")
		}
		return standing(t.Context())
	})
	w.expect(1, "", []string{"drift"}, "pod/e2e/drifting", "~ Logical_Switch_Port e2e_drifting",
		"port_security  (nothing) -> ", "1 to update")
	w.expect(1, "", []string{"check"}, "DatabaseAsWanted: Logical_Switch_Port e2e_drifting of pod/e2e/drifting differs in port_security")

	setDriftMode(t, networkv1alpha1.DriftRepair)
	eventually(t, convergence, func() error {
		if out, errs, code := w.run("", "drift"); code != 0 {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
	if after := portRow(t, pod); after.text("port_security") != before.text("port_security") {
		t.Errorf("port_security is %s, was %s", after.text("port_security"), before.text("port_security"))
	}
	eventually(t, convergence, func() error {
		if out, errs, code := w.run("", "check"); code != 0 {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
}

// standing returns nil if ClusterNetwork's status reports no standing difference.
func standing(ctx context.Context) error {
	var cn networkv1alpha1.ClusterNetwork
	if err := bed.api.Get(ctx, client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return err
	}
	if cn.Status.Drift == nil || cn.Status.Drift.Standing == 0 {
		return fmt.Errorf("drift is %+v, want a standing difference", cn.Status.Drift)
	}
	return nil
}

// setDriftMode sets the mode, and restores the default at the test's end.
func setDriftMode(t *testing.T, mode networkv1alpha1.DriftMode) {
	t.Helper()
	set := func(mode networkv1alpha1.DriftMode) error {
		var cn networkv1alpha1.ClusterNetwork
		if err := bed.api.Get(cleanup(), client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
			return err
		}
		patch := client.MergeFrom(cn.DeepCopy())
		cn.Spec.Drift.Mode = mode
		return bed.api.Patch(cleanup(), &cn, patch)
	}
	must(t, set(mode))
	t.Cleanup(func() {
		if err := set(networkv1alpha1.DriftRepair); err != nil {
			t.Error(err)
		}
	})
}
