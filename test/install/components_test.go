//go:build e2e

package install

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// everything sets each component of a running cluster, where Open vSwitch carries the nodes' own traffic.
const everything = `{"spec":{"components":{
"operator":{"logLevel":"Debug","logFormat":"Text","egressIPProbes":{"interval":"2s","misses":5},
	"containers":[{"name":"operator","resources":{"limits":{"memory":"1Gi"}},"env":[{"name":"GOGC","value":"50"}]}]},
"agent":{"logLevel":"Debug","delegates":false,"paths":{"criSocket":"/run/containerd/containerd.sock"},
	"containers":[{"name":"agent","resources":{"requests":{"cpu":"60m"},"limits":{"memory":"1Gi"}}}]},
"central":{"logLevel":"Warning","containers":[{"name":"sb","resources":{"requests":{"memory":"64Mi"}}}]},
"ovnController":{"logLevel":"Debug","containers":[{"name":"identity","resources":{"limits":{"memory":"256Mi"}}}]},
"openVSwitch":{"logLevel":"Error"}}}}`

// TestComponents sets spec.components in a running cluster under traffic, sets what does not work, and undoes both.
func TestComponents(t *testing.T) {
	b := up(t)
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	b.kubectl("apply", "-f", "testdata/echo.yaml")
	b.kubectl("rollout", "status", "--timeout=60s", "daemonset/echo")
	b.kubectl("-n", namespace, "patch", "deployment", "weft-operands", "--type=json", "-p",
		`[{"op":"add","path":"/spec/template/spec/containers/0/args","value":["--rollout-patience=40s"]}]`)
	b.kubectl("-n", namespace, "rollout", "status", "--timeout=60s", "deployment/weft-operands")

	names, start := b.streams(), time.Now()
	switches := b.uids("app.kubernetes.io/component=ovs")
	b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p", everything)
	b.rolledOut("Complete", true)
	b.Logf("%.0f s until all components were set", time.Since(start).Seconds())
	for _, c := range []struct{ pods, path, want string }{
		{"operator", `{.items[*].spec.containers[0].args}`, `["--egressip-probe-interval=2s","--egressip-probe-misses=5"]`},
		{"operator", `{.items[*].spec.containers[0].resources.limits.memory}`, "1Gi"},
		{"agent", `{.items[*].spec.containers[0].env[?(@.name=="WEFT_LOG_LEVEL")].value}`, "Debug Debug"},
		{"agent", `{.items[*].spec.containers[0].resources.requests.cpu}`, "60m 60m"},
		{"central", `{.items[*].spec.containers[?(@.name=="sb")].resources.requests.memory}`, "64Mi"},
		{"ovn-controller", `{.items[*].spec.containers[?(@.name=="identity")].resources.limits.memory}`, "256Mi 256Mi"},
	} {
		have := b.kubectl("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/component="+c.pods, "-o", "jsonpath="+c.path)
		if have != c.want {
			b.Errorf("pods of %s have %s at %s, want %s", c.pods, have, c.path, c.want)
		}
	}
	for container, want := range map[string]string{
		"daemonset/weft-agent -c agent": "\"level\":\"debug\"", "daemonset/weft-ovn-controller -c controller": "|DBG|",
		"deployment/weft-operator -c operator": "\tDEBUG\t",
	} {
		b.eventually(func() error {
			args := append([]string{"-n", namespace, "logs", "--tail=2000"}, strings.Fields(container)...)
			if text := b.kubectl(args...); !strings.Contains(text, want) {
				return fmt.Errorf("the log of %s has no %q", container, want)
			}
			return nil
		})
	}
	if now := b.uids("app.kubernetes.io/component=ovs"); now != switches { // the userspace datapath
		b.Errorf("pods of Open vSwitch were replaced")
	}

	second := b.uids("app.kubernetes.io/component=agent", "--field-selector=spec.nodeName=n2")
	b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p",
		`{"spec":{"components":{"agent":{"containers":[{"name":"agent","env":[{"name":"GOMEMLIMIT","value":"much"}]}]}}}}`)
	b.rolledOut("Stopped", true)
	if now := b.uids("app.kubernetes.io/component=agent", "--field-selector=spec.nodeName=n2"); now != second {
		b.Errorf("a setting that fails on the first node reached the second")
	}
	b.kubectl("patch", "clusternetwork", "default", "--type=json", "-p", `[{"op":"remove","path":"/spec/components"}]`)
	b.rolledOut("Complete", false)
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	for _, r := range b.counted(names) {
		b.Logf("to %s: %d of %d datagrams lost, at most %d ms without one", r.Peer, r.Lost, r.Sent, r.SilenceMs)
		if r.Back == 0 || r.SilenceMs > 1000 || r.TCPError != "" { // ovn-controllers and databases restart
			b.Errorf("to %s: %d ms without a datagram; the connection: %s", r.Peer, r.SilenceMs, r.TCPError)
		}
	}
}

// rolledOut waits until the rollout with settings, or without, has a state.
func (b bed) rolledOut(state string, settings bool) {
	b.Helper()
	last, start := "", time.Now()
	b.within(6*time.Minute, func() error {
		var r struct{ State, Settings, Stage, Object, Message string }
		out, err := b.Kubectl(b.Context(), "get", "clusternetwork", "default", "-o", "jsonpath={.status.rollout}")
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		if err != nil {
			return err
		}
		if now := fmt.Sprintf("%s %s %s %s: %s", r.State, r.Settings, r.Stage, r.Object, r.Message); now != last {
			b.Logf("%5.1f s %s", time.Since(start).Seconds(), now)
			last = now
		}
		if r.State != state || (r.Settings != "") != settings {
			return fmt.Errorf("the rollout is %s", last)
		}
		return nil
	})
}
