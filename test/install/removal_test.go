//go:build e2e

package install

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// runner returns a function that runs kubectl-weft against the lab.
func (b bed) runner() func(args ...string) (string, error) {
	b.Helper()
	plugin := b.plugin()
	return func(args ...string) (string, error) {
		out, code := b.weft(plugin, args...)
		if code != 0 {
			return out, fmt.Errorf("kubectl-weft %s: exit code %d", strings.Join(args, " "), code)
		}
		return out, nil
	}
}

func (b bed) networkUID() string {
	b.Helper()
	return b.kubectl("get", "clusternetwork", "default", "-o", "jsonpath={.metadata.uid}")
}

// operands returns UID and generation of each workload.
func (b bed) operands() string {
	b.Helper()
	return b.kubectl("-n", namespace, "get", "deployments,daemonsets,statefulsets", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.generation}{"\n"}{end}`)
}

// removing waits until kubectl and the condition's message show what blocks the removal.
func (b bed) removing(reason, says string) {
	b.Helper()
	b.eventually(func() error {
		row := b.kubectl("get", "clusternetwork", "default")
		message := b.kubectl("get", "clusternetwork", "default", "-o", `jsonpath={.status.conditions[?(@.type=="Removing")].message}`)
		upgradeable := b.kubectl("get", "clusternetwork", "default", "-o",
			`jsonpath={.status.conditions[?(@.type=="Upgradeable")].reason}`)
		if !strings.Contains(row, reason) || !strings.Contains(message, says) || upgradeable != "Removing" {
			return fmt.Errorf("kubectl shows\n%s\nthe message is %q, Upgradeable has reason %q; want %s, %q", row,
				message, upgradeable, reason, says)
		}
		return nil
	})
}

// refused expects that an unconfirmed deletion of the ClusterNetwork is refused.
func (b bed) refused() {
	b.Helper()
	uid := b.networkUID()
	b.eventually(func() error { // the API server enforces a new policy with a delay
		if _, err := b.Kubectl(b.Context(), "delete", "clusternetwork", "default", "--dry-run=server"); err == nil ||
			!strings.Contains(err.Error(), "confirm-removal="+uid) {
			return fmt.Errorf("an unconfirmed deletion: %w", err)
		}
		return nil
	})
	if _, err := b.Kubectl(b.Context(), "delete", "clusternetwork", "default", "--wait=false"); err == nil {
		b.Fatal("an unconfirmed deletion is accepted")
	}
}

// takenBack deletes the ClusterNetwork without a policy in the way, and reverts the deletion while it counts
// packets.
func (b bed) takenBack() {
	weft := b.runner()
	b.refused()
	for _, kept := range []string{"namespace/" + namespace, "crd/clusternetworks.network.weft.dev"} {
		if _, err := b.Kubectl(b.Context(), "delete", kept, "--wait=false"); err == nil ||
			!strings.Contains(err.Error(), "is needed by the network") {
			b.Fatalf("deletion of %s: %v", kept, err)
		}
	}
	b.kubectl("apply", "-f", "testdata/echo.yaml")
	b.kubectl("rollout", "status", "--timeout=60s", "daemonset/echo")
	uid := b.networkUID()
	b.kubectl("delete", "validatingadmissionpolicybinding", "weft-clusternetworks")
	b.eventually(func() error {
		_, err := b.Kubectl(b.Context(), "delete", "clusternetwork", "default", "--wait=false")
		return err
	})
	b.removing("WaitingForConfirmation", "default/echo-")
	out, err := weft("status")
	if err == nil || !strings.HasPrefix(out, "The network is being removed (deleted at ") ||
		!strings.Contains(out, "kubectl weft remove cancel") {
		b.Errorf("status returns %v:\n%s", err, out)
	}
	b.newPodsReach() // new pods still work
	b.kubectl("-n", namespace, "delete", "daemonset", "weft-agent", "--wait=true")
	b.kubectl("-n", namespace, "wait", "--for=create", "--timeout=30s", "daemonset/weft-agent")
	b.nodesHaveTheirPods()
	before, streams := b.operands(), b.streams()

	file := filepath.Join(b.TempDir(), "clusternetwork.yaml")
	if out, err := weft("remove", "cancel", "--save", file); err != nil {
		b.Fatalf("cancel: %v\n%s", err, out)
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	b.kubectl("wait", `--for=jsonpath={.metadata.finalizers[0]}=network.weft.dev/operands`, "--timeout=30s", "clusternetwork/default")
	b.eventually(func() error {
		if out, err := weft("status"); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	if b.networkUID() == uid {
		b.Error("the ClusterNetwork was not recreated")
	}
	if now := b.operands(); now != before {
		b.Errorf("operands were\n%s\nand are\n%s", before, now)
	}
	for _, r := range b.counted(streams) {
		b.Logf("to %s: %d of %d datagrams lost, at most %d ms without one", r.Peer, r.Lost, r.Sent, r.SilenceMs)
		if r.TCPError != "" || r.TCPBytes == 0 || r.Back == 0 || r.Lost > 0 {
			b.Errorf("stream %+v", r)
		}
	}
	b.newPodsReach()
	b.kubectl("delete", "-f", "testdata/echo.yaml", "--wait=true")
	b.kubectl("apply", "-f", "../../dist/policies.yaml")
	b.refused()
}

// removed confirms the deletion of the ClusterNetwork while pods use it, deletes the pods, compares the nodes with
// their state before the installation, and installs again.
func (b bed) removed(before map[string]string) {
	weft := b.runner()
	if out, err := weft("remove", "--confirm", b.networkUID()); err != nil {
		b.Fatalf("remove: %v\n%s", err, out)
	}
	b.eventually(func() error {
		if message := b.kubectl("get", "events", "-o",
			`jsonpath={.items[?(@.reason=="PodsRemain")].message}`); !strings.Contains(message, "default/probe-") {
			return fmt.Errorf("the event lists remaining pods %q", message)
		}
		return nil
	})
	b.removing("PodsRemain", "default/probe-")
	b.newPodsReach() // new pods still work
	if reasons := b.kubectl("get", "events", "-o", `jsonpath={.items[?(@.action=="Remove")].reason}`); strings.Count(
		reasons, "PodsRemain") != 1 {
		b.Errorf("want one event for the remaining pods, got events %s", reasons)
	}
	start := time.Now()
	b.kubectl("delete", "-f", "../lab/manifests/probe.yaml", "--wait=true")
	b.kubectl("wait", "--for=delete", "--timeout=180s", "clusternetwork/default")
	b.Logf("%.1f s from the deletion of the last pods until nothing of the network remained", time.Since(start).Seconds())
	b.kubectl("delete", "-f", "../../dist/install.yaml", "--wait=true", "--timeout=120s")
	for node, is := range b.hosts() {
		if is != before[node] {
			b.Errorf("%s was\n%s\nand is\n%s", node, before[node], is)
		}
	}
	if err := b.Install(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("apply", "-f", "../lab/manifests/probe.yaml")
	b.newPodsReach()
}
