//go:build e2e

package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

const namespace = "weft-system"

// bed is the test's own lab.
type bed struct {
	*testing.T
	*lab.Cluster
}

func up(t *testing.T) bed {
	t.Helper()
	c, err := lab.Open(lab.Options{Name: cmp.Or(os.Getenv("WEFT_E2E_LAB"), "install"), Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	down := func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}
	down()
	if os.Getenv("WEFT_E2E_KEEP") == "" {
		t.Cleanup(down)
	}
	if err := c.Up(t.Context(), lab.UpOptions{Bare: true, NotApplied: true}); err != nil {
		t.Fatal(err)
	}
	return bed{t, c}
}

func (b bed) kubectl(args ...string) string {
	b.Helper()
	out, err := b.Kubectl(b.Context(), args...)
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestInstall installs the network where none exists, and then disturbs its components.
func TestInstall(t *testing.T) {
	b := up(t)
	b.nothingIsThere()
	before := b.hosts()
	start := time.Now()
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	t.Logf("%.1f s from the manifests to a network that is Ready", time.Since(start).Seconds())
	b.kubectl("apply", "-f", "../lab/manifests/probe.yaml")
	b.kubectl("rollout", "status", "--timeout=60s", "daemonset/probe")
	b.podsReachEachOther()
	t.Logf("%.1f s until pods of two nodes reached each other", time.Since(start).Seconds())

	t.Run("a restart writes nothing", func(t *testing.T) { bed{t, b.Cluster}.restartWritesNothing() })
	t.Run("changed and deleted objects are restored", func(t *testing.T) { bed{t, b.Cluster}.comesBack() })
	t.Run("keys are replaced in a running network", func(t *testing.T) { bed{t, b.Cluster}.keysAreReplaced() })
	t.Run("a lost authority is replaced", func(t *testing.T) { bed{t, b.Cluster}.authorityIsReplaced() })
	t.Run("databases are replaced in a running network", func(t *testing.T) {
		b := bed{t, b.Cluster}
		b.kubectl("-n", namespace, "delete", "pod", "weft-central-0")
		b.podsReachEachOther()
		b.newPodsReach()
	})
	t.Run("an unconfirmed deletion is reverted", func(t *testing.T) { bed{t, b.Cluster}.takenBack() })
	t.Run("it is removed and installed again", func(t *testing.T) { bed{t, b.Cluster}.removed(before) })
}

// host prints everything that an installation could change on a host, one item per line. The plugin loopback may
// stay, because other networks need it.
const host = `ip -o link | cut -d' ' -f2; ip -o address show scope global | awk '{print $2, $4}'
ip route; ip -6 route show | grep -v ^fe80; nft list ruleset
find /etc/cni /opt/cni /run/ovn /run/openvswitch /run/weft /var/lib/ovn /var/lib/weft -type f -o -type s -o -type l 2>/dev/null |
	grep -v bin/loopback
ps -e -o comm | grep -E '^(ov|weft)'; true`

// hosts returns the output of host for every node.
func (b bed) hosts() map[string]string {
	b.Helper()
	found := map[string]string{}
	for _, node := range []string{"n1", "n2"} {
		out, err := b.Exec(b.Context(), node, "sh", "-c", host)
		if err != nil {
			b.Fatal(err)
		}
		found[node] = string(out)
	}
	return found
}

// nothingIsThere checks that the machines have no network components before the installation.
func (b bed) nothingIsThere() {
	b.Helper()
	for _, machine := range []string{"cp", "n1", "n2"} {
		out, err := b.Exec(b.Context(), machine, "sh", "-c",
			"ls /run/ovn /run/openvswitch /etc/cni/net.d /opt/cni/bin 2>/dev/null | grep -v :; ps -e -o comm | grep -E '^ov(n|s)' ; true")
		if err != nil {
			b.Fatal(err)
		}
		if left := strings.TrimSpace(string(out)); left != "" {
			b.Fatalf("%s has %q before the installation", machine, left)
		}
	}
}

// podsReachEachOther calls every probe from every probe.
func (b bed) podsReachEachOther() {
	b.Helper()
	pods := strings.Fields(b.kubectl("get", "pods", "-l", "app=probe", "--field-selector=status.phase=Running", "-o",
		`jsonpath={range .items[*]}{.metadata.name}={.status.podIPs[*].ip}{"\n"}{end}`))
	var names []string
	var targets []map[string]string
	for _, word := range pods { // a pod's second address is a separate word
		if name, address, ok := strings.Cut(word, "="); ok {
			names, word = append(names, name), address
		}
		host := word
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		targets = append(targets, map[string]string{"name": word, "ping": word, "http": "http://" + host + ":8080/"})
	}
	if len(names) < 2 || len(targets) != 2*len(names) {
		b.Fatalf("pods: %q", pods)
	}
	list, err := json.Marshal(targets)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		b.kubectl("exec", name, "--", "probe", "check", "--attempts=20", "--interval=500ms", "--targets="+string(list))
	}
}

// newPodsReach replaces the probes, and waits until they reach each other.
func (b bed) newPodsReach() {
	b.Helper()
	b.kubectl("delete", "pods", "-l", "app=probe", "--wait=true")
	b.within(90*time.Second, func() error {
		if ready := b.kubectl("get", "pods", "-l", "app=probe", "-o",
			`jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`); ready != "True True" {
			return fmt.Errorf("the new probes are ready: %s", ready)
		}
		return nil
	})
	b.podsReachEachOther()
}

// versions lists the versions of all applied objects. A write changes the version.
func (b bed) versions() string {
	b.Helper()
	return b.kubectl("-n", namespace, "get", "secrets,deployments,daemonsets,statefulsets", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation} `+
			`{.metadata.managedFields[?(@.manager=="weft-operands")].time}{"\n"}{end}`)
}

func (b bed) restartWritesNothing() {
	before, events := b.versions(), b.kubectl("get", "events", "-o",
		`jsonpath={range .items[?(@.reason=="OperandApplied")]}{.metadata.name}{end}`)
	b.kubectl("-n", namespace, "delete", "pod", "-l", "app.kubernetes.io/component=operands", "--wait=true")
	b.kubectl("-n", namespace, "rollout", "status", "--timeout=60s", "deployment/weft-operands")
	// The operator leads once it has repaired something.
	b.kubectl("-n", namespace, "delete", "secret", "weft-nb-tls")
	b.kubectl("-n", namespace, "wait", "--for=create", "--timeout=60s", "secret/weft-nb-tls")
	after := b.versions()
	drop := func(s string) string {
		var kept []string
		for _, line := range strings.Split(s, "\n") {
			if !strings.HasPrefix(line, "Secret/weft-nb-tls ") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\n")
	}
	if drop(before) != drop(after) {
		b.Errorf("before the restart\n%s\nafter it\n%s", before, after)
	}
	if now := b.kubectl("get", "events", "-o",
		`jsonpath={range .items[?(@.reason=="OperandApplied")]}{.metadata.name}{end}`); now != events {
		b.Errorf("workloads were applied again: %s, before %s", now, events)
	}
}

func (b bed) comesBack() {
	b.kubectl("-n", namespace, "delete", "daemonset", "weft-ovn-controller", "--wait=true")
	b.kubectl("-n", namespace, "wait", "--for=create", "--timeout=30s", "daemonset/weft-ovn-controller")
	b.kubectl("-n", namespace, "set", "env", "daemonset/weft-agent", "WEFT_SB=ssl:192.0.2.1:1")
	b.eventually(func() error {
		if have := b.kubectl("-n", namespace, "get", "daemonset", "weft-agent", "-o",
			`jsonpath={.spec.template.spec.containers[0].env[?(@.name=="WEFT_SB")].value}`); have != "ssl:172.30.0.11:16642" {
			return fmt.Errorf("WEFT_SB is %s", have)
		}
		return nil
	})
	b.nodesHaveTheirPods()
	b.podsReachEachOther()
	b.newPodsReach()
}

// nodesHaveTheirPods waits for the DaemonSets whose pods the product itself replaces, because kubectl does not
// report their progress.
func (b bed) nodesHaveTheirPods() {
	b.Helper()
	b.kubectl("-n", namespace, "wait", "--for=jsonpath={.status.numberReady}=2", "--timeout=120s",
		"daemonset/weft-agent", "daemonset/weft-ovn-controller")
}

// keysAreReplaced deletes the key pairs of the southbound server and of the agents, and then restarts the pods that
// use them.
func (b bed) keysAreReplaced() {
	certificate := func() string {
		return b.kubectl("-n", namespace, "get", "secret", "weft-sb-server", "-o", `jsonpath={.data.tls\.crt}`)
	}
	before := certificate()
	b.kubectl("-n", namespace, "delete", "secret", "weft-sb-server", "weft-sb-tls")
	b.eventually(func() error {
		out, err := b.Kubectl(b.Context(), "-n", namespace, "get", "secret", "weft-sb-server", "weft-sb-tls")
		if err == nil && certificate() == before {
			err = fmt.Errorf("the certificate has not changed: %s", out)
		}
		return err
	})
	b.kubectl("-n", namespace, "delete", "pods", "-l", "app.kubernetes.io/component in (agent, ovn-controller)", "--wait=true")
	b.nodesHaveTheirPods()
	b.newPodsReach()
}

// authorityIsReplaced deletes the southbound authority. kubelet takes up to a minute and a half to give each pod its
// new files; the pods need no restart.
func (b bed) authorityIsReplaced() {
	pair := func(node string) string {
		out, err := b.Exec(b.Context(), node, "readlink", "/run/weft/identity/chassis-current.pem")
		if err != nil {
			return err.Error()
		}
		return string(out)
	}
	before := map[string]string{"n1": pair("n1"), "n2": pair("n2")}
	b.kubectl("-n", namespace, "delete", "secret", "weft-sb-ca")
	start := time.Now()
	for node, was := range before {
		b.within(4*time.Minute, func() error {
			if is := pair(node); is == was || !strings.HasSuffix(strings.TrimSpace(is), ".pem") {
				return fmt.Errorf("%s: the key pair is still %s", node, is)
			}
			return nil
		})
	}
	b.Logf("%.0f s until every node had a key pair of the new authority", time.Since(start).Seconds())
	b.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "nodenetwork", "--all")
	b.newPodsReach()
}

func (b bed) eventually(try func() error) {
	b.Helper()
	b.within(30*time.Second, try)
}

func (b bed) within(patience time.Duration, try func() error) {
	b.Helper()
	poll.Wait{Timeout: patience, Interval: 250 * time.Millisecond}.Eventually(b, try)
}
