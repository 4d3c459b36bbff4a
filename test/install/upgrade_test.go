//go:build e2e

package install

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/test/lab"
)

// TestUpgrade rolls out other versions, and back again, while pods of the two nodes exchange traffic in both
// directions. (Failure modes in the field: no other network has a supported way back, and a broken version reaches
// all nodes.)
func TestUpgrade(t *testing.T) {
	b := up(t)
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	b.kubectl("apply", "-f", "testdata/echo.yaml")
	b.kubectl("rollout", "status", "--timeout=60s", "daemonset/echo")
	next, err := b.LoadRelease(t.Context(), "v0.9.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.LoadRelease(t.Context(), "v0.9.1", func(s programs.Set) { // as if all programs of OVN and Open vSwitch had changed
		for name, p := range s {
			p.Build += "-other"
			s[name] = p
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, image, version string
		restarts             bool // of OVN and Open vSwitch
	}{
		{"Weft alone", next, "v0.9.0", false},
		{"and back", lab.ProductRef, "", false},
		{"with OVN and Open vSwitch", other, "v0.9.1", true},
		{"and back with them", next, "v0.9.0", true},
	} {
		t.Run(c.name, func(t *testing.T) { bed{t, b.Cluster}.rollsOut(c.image, c.version, c.restarts) })
	}
	t.Run("a canary that fails its checks", func(t *testing.T) { bed{t, b.Cluster}.canaryFails(next, lab.ProductRef) })
}

// rollsOut changes the image, compares the pods, and counts lost packets.
func (b bed) rollsOut(image, version string, restarts bool) {
	streams := b.streams()
	before := b.uids("app.kubernetes.io/component in (central, ovs)")
	agents := b.uids("app.kubernetes.io/component in (agent, ovn-controller)")
	ready, start := b.readySince(), time.Now()
	b.setImage(image)
	s := b.rollout(image, "Complete")
	b.Logf("%.0f s until version %s was rolled out; its preflight's difference: %s", time.Since(start).Seconds(), s.Version, s.Difference)
	if !strings.HasPrefix(s.Difference, "none, of ") { // the versions have the same code
		b.Errorf("the preflight reports the changes %q, want none", s.Difference)
	}
	if version != "" && s.Version != version || s.NodesDone != 2 {
		b.Errorf("rollout %+v", s)
	}
	if same := before == b.uids("app.kubernetes.io/component in (central, ovs)"); same == restarts {
		b.Errorf("pods of the databases and of Open vSwitch stayed: %t, want the opposite", same)
	}
	if agents == b.uids("app.kubernetes.io/component in (agent, ovn-controller)") {
		b.Error("the agents' and ovn-controllers' pods were not replaced")
	}
	b.eventually(func() error {
		if have := b.kubectl("get", "clusternetwork", "default", "-o",
			`jsonpath={.status.versions[?(@.name=="agent")].version}`); have != s.Version {
			return fmt.Errorf("the status has agents of version %s, want %s", have, s.Version)
		}
		return nil
	})
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	if now := b.readySince(); now != ready {
		b.Logf("nodes were not Ready during the rollout: Ready since %s, before since %s", now, ready)
	}
	for _, r := range b.counted(streams) {
		b.Logf("to %s: %d of %d datagrams lost, at most %d ms without one; %d bytes on the connection, at most %d ms without one",
			r.Peer, r.Lost, r.Sent, r.SilenceMs, r.TCPBytes, r.TCPSilenceMs)
		if r.TCPError != "" || r.TCPBytes == 0 {
			b.Errorf("the connection to %s ended: %s", r.Peer, r.TCPError)
		}
		if r.Back == 0 || r.Lost > 0 && !restarts {
			b.Errorf("%d datagrams to %s are lost", r.Lost, r.Peer)
		}
	}
}

// canaryFails makes n2 not answer the rollout's checks. The rollout stops at n1 and reports it. The way back does
// not touch n2.
func (b bed) canaryFails(before, after string) {
	const patience = 40 * time.Second
	b.kubectl("-n", namespace, "patch", "deployment", "weft-operands", "--type=json", "-p",
		fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/containers/0/args","value":["--rollout-patience=%s"]}]`, patience))
	b.kubectl("-n", namespace, "rollout", "status", "--timeout=60s", "deployment/weft-operands")
	b.shell("n2",
		`nft 'add table inet silent; add chain inet silent input { type filter hook input priority -300; }; `+
			`add rule inet silent input iifname "ovn-k8s-mp0" tcp dport 9442 drop'`)
	other := b.uids("app.kubernetes.io/component in (agent, ovn-controller)", "--field-selector=spec.nodeName=n2")
	b.setImage(after)
	s := b.rollout(after, "Stopped")
	if s.Stage != "Canary" || s.Object != "Node/n1" || !strings.Contains(s.Message, "does not answer") {
		b.Errorf("rollout %+v", s)
	}
	b.eventually(func() error {
		if reason := b.kubectl("get", "clusternetwork", "default", "-o",
			`jsonpath={.status.conditions[?(@.type=="Degraded")].reason}`); reason != "UpgradeStopped" {
			return fmt.Errorf("Degraded has reason %s", reason)
		}
		return nil
	})
	b.Logf("stopped: %s: %s", s.Object, s.Message)
	b.shell("n2", "nft delete table inet silent")
	b.setImage(before)
	b.rollout(before, "Complete")
	if other != b.uids("app.kubernetes.io/component in (agent, ovn-controller)", "--field-selector=spec.nodeName=n2") {
		b.Error("pods of n2 were replaced")
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
}

// readySince returns the times at which the nodes became Ready.
func (b bed) readySince() string {
	b.Helper()
	return b.kubectl("get", "nodes", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
}

func (b bed) shell(node, script string) {
	b.Helper()
	if out, err := b.Exec(b.Context(), node, "sh", "-c", script); err != nil {
		b.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func (b bed) setImage(image string) {
	b.Helper()
	b.kubectl("-n", namespace, "set", "image", "deployment/weft-operands", "operands="+image)
}

func (b bed) uids(selector string, more ...string) string {
	b.Helper()
	return b.kubectl(append([]string{"-n", namespace, "get", "pods", "-l", selector, "--sort-by=.metadata.uid", "-o",
		`jsonpath={.items[*].metadata.uid}`}, more...)...)
}

// rollout is ClusterNetwork's status.rollout.
type rollout struct {
	State, Image, Version, Stage, Object, Message, Difference string
	NodesDone                                                 int
}

// rollout waits until an image's rollout has a state, and logs each step.
func (b bed) rollout(image, state string) (r rollout) {
	b.Helper()
	last, start := "", time.Now()
	b.within(6*time.Minute, func() error {
		out, err := b.Kubectl(b.Context(), "get", "clusternetwork", "default", "-o", "jsonpath={.status.rollout}")
		if err != nil {
			return err // expected: a node's own traffic stops while its Open vSwitch is replaced
		}
		r = rollout{}
		if err := json.Unmarshal(out, &r); err != nil {
			return err
		}
		if now := fmt.Sprintf("%s %s %s: %s", r.State, r.Stage, r.Object, r.Message); now != last {
			b.Logf("%5.1f s %s", time.Since(start).Seconds(), now)
			last = now
		}
		if r.Image != image || r.State != state {
			return fmt.Errorf("the rollout of %s is not %s: %+v", image, state, r)
		}
		return nil
	})
	return r
}

// streamReport is the output of "probe stream".
type streamReport struct {
	Peer                                                string
	Sent, Back, Lost, SilenceMs, TCPBytes, TCPSilenceMs int
	TCPError                                            string
}

const streamPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"stream"}},"spec":{"nodeName":%q,
"terminationGracePeriodSeconds":1,"restartPolicy":"Never",
"containers":[{"name":"stream","image":"weft-lab/probe:dev","args":["stream","%s:9000"]}]}}`

// streams starts streams between the nodes, in both directions.
func (b bed) streams() []string {
	b.Helper()
	names := []string{"stream-n1", "stream-n2"}
	for i, node := range []string{"n1", "n2"} {
		peer := []string{"n2", "n1"}[i]
		address := b.kubectl("get", "pods", "-l", "app=echo", "--field-selector=spec.nodeName="+peer, "-o",
			"jsonpath={.items[0].status.podIP}")
		if err := b.Apply(b.Context(), fmt.Sprintf(streamPod, names[i], node, address)); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range names {
		b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/"+name)
	}
	for _, name := range names {
		b.within(10*time.Second, func() error { _, err := b.report(name); return err })
	}
	return names
}

// counted ends the streams and returns their last reports.
func (b bed) counted(names []string) (found []streamReport) {
	b.Helper()
	for _, name := range names {
		r, err := b.report(name)
		if err != nil {
			b.Fatal(err)
		}
		found = append(found, r)
	}
	b.kubectl("delete", "pods", "-l", "app=stream", "--wait=true")
	return found
}

func (b bed) report(name string) (r streamReport, err error) {
	out, err := b.Kubectl(b.Context(), "logs", name, "--tail=1")
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}
