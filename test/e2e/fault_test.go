//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestStatusNamesInjectedFaults: what breaks on a node or in the control plane is named by area, reason and object, and forgotten when it is whole again.
func TestStatusNamesInjectedFaults(t *testing.T) {
	eventually(t, convergence, func() error { return healthy(t) })
	far := "n1"
	if bed.operatorNode(t) == far {
		far = "n2"
	}
	for _, fault := range []struct {
		machine, daemon string
		area            networkv1alpha1.AreaName
		reason, object  string
	}{
		{"n1", "ovn-controller", networkv1alpha1.AreaNodes, networkv1alpha1.ReasonControllerUnavailable, "NodeNetwork/n1"},
		// The node's link is on its bridge: nobody on it can tell more than its silence does, the operator neither.
		{far, "ovs-vswitchd", networkv1alpha1.AreaNodes, networkv1alpha1.ReasonNodeLost, "Node/" + far},
		{far, "ovsdb-server", networkv1alpha1.AreaNodes, networkv1alpha1.ReasonNodeLost, "Node/" + far},
		{"cp", "nb", networkv1alpha1.AreaDatabases, networkv1alpha1.ReasonDatabaseUnavailable, "ClusterNetwork/default"},
		{"cp", "sb", networkv1alpha1.AreaDatabases, networkv1alpha1.ReasonDatabaseUnavailable, "ClusterNetwork/default"},
	} {
		t.Run(fault.machine+" "+fault.daemon, func(t *testing.T) {
			must(t, bed.Stop(fault.machine, fault.daemon, syscall.SIGKILL))
			started := false
			start := func() {
				if !started {
					started = true
					must(t, bed.Start(fault.machine, fault.daemon))
				}
			}
			defer start()
			told := eventually(t, recoveryTimeout, func() error { return namesProblem(t, fault.area, fault.reason, fault.object) })
			start()
			healed := eventually(t, 2*recoveryTimeout, func() error { return healthy(t) })
			t.Logf("told after %s, healthy %s after its start", milliseconds(told), milliseconds(healed))
		})
	}
	plugin := buildPlugin(t)
	t.Run("kubectl weft status", func(t *testing.T) {
		out := bed.mustExec(t, "cp", plugin, "--kubeconfig="+bed.KubeConfig(), "status", "--wait", "--timeout=60s")
		if !strings.HasPrefix(out, "The network is healthy") {
			t.Errorf("it says %s", out)
		}
		t.Logf("\n%s", out)
	})
	t.Run("kubectl weft bundle", func(t *testing.T) {
		file := filepath.Join(bed.peerDir, "bundle.tar.gz")
		must(t, os.RemoveAll(file))
		t.Log(bed.mustExec(t, "cp", plugin, "--kubeconfig="+bed.KubeConfig(), "bundle", "-f", file))
		listed, err := exec.CommandContext(t.Context(), "tar", "tzf", file).Output()
		must(t, err)
		for _, part := range []string{"status.txt", "drift.json", "check.json", "objects/ClusterNetwork.yaml", "objects/Node.yaml", "logs/weft-operator-", "logs/weft-agent-", "metrics/weft-operator-"} {
			if !strings.Contains(string(listed), "/"+part) {
				t.Errorf("it lacks %s:\n%s", part, listed)
			}
		}
	})
}

func faultStatus(t *testing.T) (networkv1alpha1.ClusterNetworkStatus, error) {
	var cn networkv1alpha1.ClusterNetwork
	err := bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	return cn.Status, err
}

func healthy(t *testing.T) error {
	s, err := faultStatus(t)
	if err != nil || len(s.Problems) == 0 && meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionUpgradeable) {
		return err
	}
	return fmt.Errorf("problems %+v, conditions %+v", s.Problems, s.Conditions)
}

// namesProblem wants a problem to be the first of its area.
func namesProblem(t *testing.T, area networkv1alpha1.AreaName, reason, object string) error {
	s, err := faultStatus(t)
	if err != nil {
		return err
	}
	for _, p := range s.Problems {
		if p.Area == area && p.Reason == reason && strings.Contains(p.Object, object) && p.NextStep != "" {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("no problem %s of %s in %+v", reason, object, s.Problems), t.Context().Err())
}
