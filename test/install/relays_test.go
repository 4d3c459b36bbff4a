//go:build e2e

package install

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// relayState returns the relays of the ClusterNetwork's status: "n1=Ready n2=Ready".
func (b bed) relayState() string {
	b.Helper()
	return strings.TrimSpace(b.kubectl("get", "clusternetwork", "default", "-o",
		`jsonpath={range .status.relays[*]}{.node}={.state} {end}`))
}

// scaleRelays sets the number of relays, and waits until they are ready and each ovn-controller is connected to the port
// that belongs to that number.
func (b bed) scaleRelays(count int, want string) {
	b.Helper()
	start := time.Now()
	b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"databases":{"relays":{"count":%d}}}}`, count))
	b.within(2*time.Minute, func() error {
		if have := b.relayState(); have != want {
			return fmt.Errorf("relays %q, want %q", have, want)
		}
		return nil
	})
	port := ":16644"
	if count == 0 {
		port = ":6642"
	}
	b.controllersAt(port)
	b.Logf("%.1f s until %d relays serve all nodes", time.Since(start).Seconds(), count)
}

// controllersAt waits until ovn-controller of each node is connected to a port, and agents to the port of their own.
func (b bed) controllersAt(port string) {
	b.Helper()
	agents := map[string]string{":16644": ":16645", ":6642": ":16642"}[port]
	for _, node := range []string{"n1", "n2"} {
		b.within(time.Minute, func() error {
			out, err := b.Exec(b.Context(), node, "sh", "-c", "ss -Htnp state established | awk '{print $4, $5}'")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			found := map[string]string{}
			for _, line := range strings.Split(string(out), "\n") {
				for _, program := range []string{"ovn-controller", "weft-agent"} {
					if peer, by, _ := strings.Cut(line, " "); strings.Contains(by, `"`+program+`"`) {
						found[program] += " " + peer
					}
				}
			}
			if !strings.Contains(found["ovn-controller"]+" ", port+" ") || !strings.Contains(found["weft-agent"]+" ", agents+" ") {
				return fmt.Errorf("node %s is connected to %v, want %s and %s", node, found, port, agents)
			}
			return nil
		})
	}
}

// killAt sends a signal to the programs of a node whose command line has a pattern.
func (b bed) killAt(node, signal, pattern string) {
	b.Helper()
	b.shell(node, fmt.Sprintf("kill -%s $(pgrep -f -- '^ovsdb-server .*%s')", signal, pattern))
}

const (
	relayFile  = "config-file=/run/ovn/ovnsb_relay.json"
	sourceFile = "config-file=/run/ovn/ovnsb_db.json"
)

// newPod replaces one probe and logs how long it takes until it is ready and reaches the others.
func (b bed) newPod(while string) {
	b.Helper()
	start := time.Now()
	pod := strings.Fields(b.kubectl("get", "pods", "-l", "app=probe", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	b.kubectl("delete", "pod", pod, "--wait=false")
	b.within(time.Minute, func() error {
		if out, err := b.Kubectl(b.Context(), "get", "pod", pod); err == nil {
			return fmt.Errorf("the old pod still exists: %s", out)
		}
		return nil
	})
	b.probesReady()
	b.podsReachEachOther()
	b.Logf("%s: %.1f s until a new pod reached the others", while, time.Since(start).Seconds())
}

// TestRelays runs a network behind relays of the southbound database, which are killed, stopped, scaled and get other keys
// under 100 datagrams a second in each direction.
func TestRelays(t *testing.T) {
	b := up(t)
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	plugin := b.plugin()
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	b.kubectl("apply", "-f", "testdata/echo.yaml", "-f", "../lab/manifests/probe.yaml")
	b.kubectl("rollout", "status", "--timeout=60s", "daemonset/echo")
	b.probesReady()
	others := b.uids("app.kubernetes.io/component in (central, ovs, ovn-controller, agent)")
	streams := b.streams()
	both := b.two()
	b.scaleRelays(2, both)
	b.newPod("behind relays")
	if now := b.uids("app.kubernetes.io/component in (central, ovs, ovn-controller, agent)"); now != others {
		b.Errorf("relays replaced other pods: they were\n%s\nbut now are\n%s", others, now)
	}
	for _, node := range []string{"n1", "n2"} {
		b.killAt(node, "KILL", relayFile)
		b.newPod("the relay on " + node + " is killed")
		b.relaysAre(both)
	}
	b.killAt(b.databases(), "KILL", sourceFile)
	b.newPod("the database's server is killed")
	b.relaysAre(both)
	t.Run("the status names a relay that hangs", func(t *testing.T) { bed{t, b.Cluster}.relayHangs(plugin, both) })
	t.Run("keys are replaced", func(t *testing.T) {
		b := bed{t, b.Cluster}
		b.kubectl("-n", namespace, "delete", "secret", "weft-sb-relay", "weft-sb-server")
		b.kubectl("-n", namespace, "wait", "--for=create", "--timeout=60s", "secret/weft-sb-relay", "secret/weft-sb-server")
		b.kubectl("-n", namespace, "delete", "pod", "-l", "app.kubernetes.io/component=relay", "--wait=true")
		b.relaysAre(both)
		b.newPod("with other keys")
	})
	b.scaleRelays(1, strings.Fields(both)[0])
	b.newPod("behind one relay")
	b.scaleRelays(0, "")
	b.newPod("without relays")
	b.eventually(func() error {
		if out := b.kubectl("-n", namespace, "get", "daemonsets,secrets", "-o", "name"); strings.Contains(out, "relay") {
			return fmt.Errorf("left without relays: %s", out)
		}
		return nil
	})
	b.scaleRelays(2, both)
	b.newPod("behind relays again")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	for _, r := range b.counted(streams) {
		b.Logf("to %s: %d of %d datagrams lost, at most %d ms without one; %d bytes on the connection",
			r.Peer, r.Lost, r.Sent, r.SilenceMs, r.TCPBytes)
		if r.Lost > strays || r.TCPError != "" || r.Back == 0 {
			b.Errorf("lost to %s: %+v", r.Peer, r)
		}
	}
}

// strays is how many datagrams of a connection may be lost. Each takes some 90 ms, so that an outage of half a second
// loses more. On a busy machine the userspace datapath drops single ones.
const strays = 3

// databases returns the node of the databases.
func (b bed) databases() string {
	b.Helper()
	return b.kubectl("-n", namespace, "get", "pod", "weft-central-0", "-o", "jsonpath={.spec.nodeName}")
}

// two returns the state of two ready relays: the first is on the node without the databases.
func (b bed) two() string {
	b.Helper()
	if b.databases() == "n1" {
		return "n2=Ready n1=Ready"
	}
	return "n1=Ready n2=Ready"
}

func (b bed) relaysAre(want string) {
	b.Helper()
	b.within(time.Minute, func() error {
		if have := b.relayState(); have != want {
			return fmt.Errorf("relays %q, want %q", have, want)
		}
		return nil
	})
}

// relayHangs stops a relay: nodes move to the other one, and status and plugin name the relay until it goes on.
func (b bed) relayHangs(plugin, both string) {
	b.killAt("n2", "STOP", relayFile)
	start := time.Now()
	b.within(time.Minute, func() error {
		out, _ := b.weft(plugin, "status")
		if !strings.Contains(out, "RelayUnavailable") || !strings.Contains(out, "Node/n2") {
			return fmt.Errorf("kubectl weft status does not name the relay:\n%s", out)
		}
		return nil
	})
	b.Logf("named after %.1f s", time.Since(start).Seconds())
	b.killAt("n2", "CONT", relayFile)
	b.relaysAre(both)
	b.within(time.Minute, func() error {
		if out, code := b.weft(plugin, "status"); code != 0 {
			return fmt.Errorf("exit code %d:\n%s", code, out)
		}
		return nil
	})
}
