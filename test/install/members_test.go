//go:build e2e

package install

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/test/lab"
)

// upWith starts a lab with the given number of nodes.
func upWith(t *testing.T, nodes int) bed {
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
	if err := c.Up(t.Context(), lab.UpOptions{Bare: true, NotApplied: true, Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	return bed{t, c}
}

// roles returns the ClusterNetwork's status of the members: "n1=Leader/Follower n2=...".
func (b bed) roles() string {
	b.Helper()
	return b.kubectl("get", "clusternetwork", "default", "-o",
		`jsonpath={range .status.databases.members[*]}{.node}={.northbound}/{.southbound} {end}`)
}

// membersWork waits until members of both databases are connected on exactly these nodes, and each database has one
// leader.
func (b bed) membersWork(patience time.Duration, nodes ...string) {
	b.Helper()
	start := time.Now()
	b.within(patience, func() error {
		roles := b.roles()
		words := strings.Fields(roles)
		if len(words) != len(nodes) {
			return fmt.Errorf("members %q, want on %q", roles, nodes)
		}
		for _, node := range nodes {
			if !strings.Contains(" "+roles, " "+node+"=") {
				return fmt.Errorf("members %q, want one on %s", roles, node)
			}
		}
		if strings.Count(roles, "=Leader/") != 1 || strings.Count(roles, "/Leader") != 1 ||
			strings.Count(roles, "Follower") != 2*len(nodes)-2 {
			return fmt.Errorf("members %q", roles)
		}
		return nil
	})
	b.Logf("%.1f s: %s", time.Since(start).Seconds(), b.roles())
}

// clusters returns the recorded cluster IDs.
func (b bed) clusters() string {
	b.Helper()
	return b.kubectl("-n", namespace, "get", "statefulset", "weft-central", "-o",
		`jsonpath={.metadata.annotations.network\.weft\.dev/clusters}`)
}

// listed returns the servers of a database according to a member's own server.
func (b bed) listed(node, database string) string {
	b.Helper()
	pod := b.kubectl("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/component=central",
		"--field-selector=spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.name}")
	name := map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"}[database]
	return b.kubectl("-n", namespace, "exec", pod, "-c", database, "--", "ovs-appctl", "-t",
		"/run/ovn/ovn"+database+"_db.ctl", "cluster/status", name)
}

// leader returns the node whose member leads the southbound database.
func (b bed) leader() string {
	b.Helper()
	for _, word := range strings.Fields(b.roles()) {
		if node, roles, _ := strings.Cut(word, "="); strings.HasSuffix(roles, "/Leader") {
			return node
		}
	}
	b.Fatalf("no member leads: %s", b.roles())
	return ""
}

// replaceProbe replaces one probe, and waits until it reaches the others.
func (b bed) replaceProbe() {
	b.Helper()
	start := time.Now()
	pod := strings.Fields(b.kubectl("get", "pods", "-l", "app=probe", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	b.kubectl("delete", "pod", pod, "--wait=true")
	b.probesReady()
	b.podsReachEachOther()
	b.Logf("%.1f s until a new pod reached all others", time.Since(start).Seconds())
}

func (b bed) probesReady() {
	b.Helper()
	b.within(120*time.Second, func() error {
		ready := b.kubectl("get", "pods", "-l", "app=probe", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		nodes := len(strings.Fields(b.kubectl("get", "nodes", "-o", "name")))
		if strings.Count(ready, "True") != nodes || strings.Contains(ready, "False") {
			return fmt.Errorf("probes are ready: %s; %d nodes", ready, nodes)
		}
		return nil
	})
}

// TestMembers installs a network with one member of each database, extends it to three, and destroys a member's pod,
// disk and node.
func TestMembers(t *testing.T) {
	b := upWith(t, 4)
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	b.kubectl("apply", "-f", "../lab/manifests/probe.yaml")
	b.probesReady()
	b.podsReachEachOther()

	t.Run("one becomes three", func(t *testing.T) {
		b := bed{t, b.Cluster}
		chassis := b.southbound("n1")
		b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p", `{"spec":{"databases":{"members":3}}}`)
		b.membersWork(3*time.Minute, "n1", "n2", "n3")
		if now := b.southbound("n1"); now != chassis {
			b.Errorf("chassis and bindings were\n%s\nbut now are\n%s", chassis, now)
		}
		b.podsReachEachOther()
		b.replaceProbe()
	})
	t.Run("the leader's pod is killed", func(t *testing.T) {
		b := bed{t, b.Cluster}
		before, leader := b.clusters(), b.leader()
		b.kubectl("-n", namespace, "delete", "pod", "-l", "app.kubernetes.io/component=central",
			"--field-selector=spec.nodeName="+leader, "--force", "--grace-period=0")
		b.podsReachEachOther()
		b.replaceProbe()
		b.membersWork(2*time.Minute, "n1", "n2", "n3")
		if now := b.clusters(); now != before {
			b.Errorf("clusters were %s, but now are %s", before, now)
		}
	})
	t.Run("a member's disk is lost", func(t *testing.T) {
		b := bed{t, b.Cluster}
		before := b.clusters()
		if out, err := b.Exec(b.Context(), "n1", "sh", "-c", "rm /var/lib/ovn/*"); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		b.kubectl("-n", namespace, "delete", "pod", "-l", "app.kubernetes.io/component=central",
			"--field-selector=spec.nodeName=n1", "--force", "--grace-period=0")
		b.within(30*time.Second, func() error {
			if roles := b.roles(); strings.Contains(roles, "n1=Leader") || strings.Contains(roles, "n1=Follower") {
				return fmt.Errorf("the loss is not reported: %s", roles)
			}
			return nil
		})
		b.membersWork(2*time.Minute, "n1", "n2", "n3")
		b.three("n2")
		if now := b.clusters(); now != before {
			b.Errorf("clusters were %s, but now are %s", before, now)
		}
		b.replaceProbe()
	})
	t.Run("a member's node is deleted", func(t *testing.T) {
		b := bed{t, b.Cluster}
		before := b.clusters()
		b.kubectl("delete", "node", "n3")
		b.membersWork(4*time.Minute, "n1", "n2", "n4")
		b.three("n1")
		if now := b.clusters(); now != before {
			b.Errorf("clusters were %s, but now are %s", before, now)
		}
		b.probesReady()
		b.podsReachEachOther()
		b.replaceProbe()
		b.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "clusternetwork/default")
	})
	t.Run("three become one, and three again", func(t *testing.T) {
		b := bed{t, b.Cluster}
		chassis := b.southbound("n1")
		b.becomeOne("n1")
		if now := b.southbound("n1"); now != chassis {
			b.Errorf("chassis and bindings were\n%s\nbut now are\n%s", chassis, now)
		}
		b.replaceProbe()
		b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p", `{"spec":{"databases":{"members":3}}}`)
		b.membersWork(3*time.Minute, "n1", "n2", "n4")
		if now := b.southbound("n1"); now != chassis {
			b.Errorf("chassis and bindings were\n%s\nbut now are\n%s", chassis, now)
		}
		b.podsReachEachOther()
		b.replaceProbe()
	})
}

// TestMembersFromTheStart installs a network that has three members of each database from the start, and makes them one.
func TestMembersFromTheStart(t *testing.T) {
	b := upWith(t, 3)
	b.kubectl("apply", "-f", "../../config/crd/bases/network.weft.dev_clusternetworks.yaml")
	b.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/clusternetworks.network.weft.dev")
	b.kubectl("apply", "-f", "../lab/manifests/clusternetwork.yaml")
	b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p", `{"spec":{"databases":{"members":3}}}`)
	if err := b.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.membersWork(5*time.Minute, "n1", "n2", "n3")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=180s", "node", "--all")
	b.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusternetwork/default")
	b.kubectl("apply", "-f", "../lab/manifests/probe.yaml")
	b.probesReady()
	b.podsReachEachOther()
	b.becomeOne("n1")
	b.replaceProbe()
}

// becomeOne waits until one member is left of three, whose databases stand alone, while pods reach each other.
func (b bed) becomeOne(node string) {
	b.Helper()
	start := time.Now()
	b.kubectl("patch", "clusternetwork", "default", "--type=merge", "-p", `{"spec":{"databases":{"members":1}}}`)
	b.within(4*time.Minute, func() error {
		b.podsReachEachOther()
		on := b.kubectl("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/component=central", "-o",
			`jsonpath={range .items[*]}{.spec.nodeName}={.status.conditions[?(@.type=="Ready")].status} {end}`)
		if roles := b.roles(); roles != "" || b.clusters() != "" || strings.TrimSpace(on) != node+"=True" {
			return fmt.Errorf("members %q, clusters %q, pods on %s", roles, b.clusters(), on)
		}
		for database := range member.Databases {
			file, err := b.Exec(b.Context(), node, "head", "-c", "11", member.DatabaseFile("/var/lib/ovn", database))
			if err != nil || string(file) != "OVSDB JSON " {
				return fmt.Errorf("the file of %s is %q: %w", database, file, err)
			}
		}
		return nil
	})
	b.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "clusternetwork/default")
	b.Logf("%.1f s until three members were one", time.Since(start).Seconds())
}

// three waits until a member's servers list three servers for each database.
func (b bed) three(node string) {
	b.Helper()
	for _, database := range []string{"nb", "sb"} {
		b.within(time.Minute, func() error {
			status := b.listed(node, database)
			if _, servers, _ := strings.Cut(status, "Servers:"); strings.Count(servers, " at unix:") != 3 {
				return fmt.Errorf("%s on %s lists %s", database, node, servers)
			}
			return nil
		})
	}
}

// southbound returns the chassis and the pods' bindings, with UUIDs.
func (b bed) southbound(node string) string {
	b.Helper()
	pod := b.kubectl("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/component=central",
		"--field-selector=spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.name}")
	return b.kubectl("-n", namespace, "exec", pod, "-c", "sb", "--", "ovn-sbctl", "--no-leader-only",
		"--db=unix:/run/ovn/ovnsb_db.sock", "--columns=_uuid,name", "--format=csv", "list", "Chassis")
}
