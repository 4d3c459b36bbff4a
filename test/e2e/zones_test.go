//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/poll"
)

// zone is the name of the tests' zone, and the key and value of the label of its nodes.
const zone = "east"

// divided is the environment variable that makes the tests run in a cluster whose node n2 is in a zone.
const divided = "WEFT_E2E_DIVIDED"

// zoneTimeout bounds how long a zone's databases may take to be ready, and a node to enter the zone.
const zoneTimeout = 2 * time.Minute

// zoneMove is what pings lost while a node moved.
type zoneMove struct {
	Node, To string
	Lost     int     // pings of one pair of pods, of the pair that lost most; there is one every 20 ms
	GapMs    float64 // of a connection through the node
}

// mustKeepPackets fails the test if more pings were lost than the userspace datapath loses while pods come and go, because the thread that
// forwards also adds ports.
func (m zoneMove) mustKeepPackets(t *testing.T) {
	t.Helper()
	if m.Lost > 5 {
		t.Errorf("%d pings of a pair were lost", m.Lost)
	}
}

// TestZones divides the cluster while pods reach each other: every second node enters a zone, one at a time, and returns.
func TestZones(t *testing.T) {
	if !bed.bare {
		t.Skip("the operands write the zone's databases; this lab has its own")
	}
	nodes, err := bed.Nodes()
	must(t, err)
	var pods []*corev1.Pod
	for _, n := range nodes {
		pods = append(pods, bed.peerPod("zone-"+n.Name, n.Name))
	}
	bed.run(t, pods...)
	var report struct {
		Moves []zoneMove
		Kills []zoneMove
	}
	t.Cleanup(func() { writeReport(t, "zones.json", report) })
	t.Cleanup(func() { bed.leaveZones(t) })
	must(t, bed.setZones(cleanup(), zone))
	for i := 1; i < len(nodes); i += 2 {
		report.Moves = append(report.Moves, testZoneMove(t, pods, nodes[i].Name, zone))
	}
	bed.mustReach(t, pods...)
	bed.awaitConsistent(t)
	for _, d := range []daemon{northd, northbound, southbound} {
		t.Run(d.name+" of the zone is killed", func(t *testing.T) {
			report.Kills = append(report.Kills, testZoneKill(t, pods, d))
		})
	}
	t.Run("the zone's databases are away", func(t *testing.T) { testZoneAway(t, pods) })
	for i := 1; i < len(nodes); i += 2 {
		report.Moves = append(report.Moves, testZoneMove(t, pods, nodes[i].Name, ""))
	}
	must(t, bed.setZones(cleanup()))
	eventually(t, zoneTimeout, func() error { return bed.noZones(t.Context()) })
	bed.mustReach(t, pods...)
	bed.awaitConsistent(t)
}

// divide puts n2 into a zone.
func (b *testbed) divide(ctx context.Context) error {
	if err := errors.Join(b.setZones(ctx, zone), b.setZone(ctx, "n2", zone)); err != nil {
		return err
	}
	return poll.Slowly(ctx, zoneTimeout, func() error { return b.inZone(ctx, "n2", zone) })
}

// setZones sets the zones of the ClusterNetwork.
func (b *testbed) setZones(ctx context.Context, names ...string) error {
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Name = networkv1alpha1.ClusterNetworkName
	if err := b.api.Get(ctx, client.ObjectKeyFromObject(cn), cn); err != nil {
		return err
	}
	patch := client.MergeFrom(cn.DeepCopy())
	cn.Spec.Zones = nil
	for _, name := range names {
		cn.Spec.Zones = append(cn.Spec.Zones, networkv1alpha1.Zone{Name: networkv1alpha1.ZoneName(name),
			NodeSelector: map[string]string{zone: name}})
	}
	return b.api.Patch(ctx, cn, patch)
}

// setZone sets the zone's label of a node; empty removes it.
func (b *testbed) setZone(ctx context.Context, node, to string) error {
	value := "null"
	if to != "" {
		value = fmt.Sprintf("%q", to)
	}
	n := &corev1.Node{}
	n.Name = node
	return b.api.Patch(ctx, n, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, zone, value)))
}

// inZone returns nil if a node is in a zone, and its agent and its zone's operator have finished.
func (b *testbed) inZone(ctx context.Context, node, want string) error {
	nn := nodeNetwork(node)
	if err := b.api.Get(ctx, client.ObjectKeyFromObject(nn), nn); err != nil {
		return err
	}
	if string(nn.Spec.Zone) != want {
		return fmt.Errorf("node %s is in zone %q, want %q", node, nn.Spec.Zone, want)
	}
	for _, kind := range []string{networkv1alpha1.ConditionTopologyReady, networkv1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(nn.Status.Conditions, kind); c == nil || c.Status != "True" || c.ObservedGeneration < nn.Generation {
			return fmt.Errorf("node %s: generation %d, %+v", node, nn.Generation, c)
		}
	}
	return nil
}

// noZones returns nil if the status has no zone, and no zone has pods.
func (b *testbed) noZones(ctx context.Context) error {
	zones, err := b.zones(ctx)
	if err == nil && len(zones) > 0 {
		err = fmt.Errorf("zones: %+v", zones)
	}
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := b.api.List(ctx, &pods, client.InNamespace(product)); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if component := p.Labels[networkv1alpha1.ComponentLabel]; component == "central-"+zone || component == "operator-"+zone {
			return fmt.Errorf("pod %s exists", p.Name)
		}
	}
	return nil
}

// zones returns the state of the zones.
func (b *testbed) zones(ctx context.Context) ([]networkv1alpha1.ZoneStatus, error) {
	var cn networkv1alpha1.ClusterNetwork
	err := b.api.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	return cn.Status.Zones, err
}

// databaseMachines returns the machines with northbound databases: the first has the default zone.
func (b *testbed) databaseMachines(ctx context.Context) ([]string, error) {
	zones, err := b.zones(ctx)
	machines := []string{b.central}
	for _, z := range zones {
		if z.Node != "" && !slices.Contains(machines, z.Node) {
			machines = append(machines, z.Node)
		}
	}
	return machines, err
}

// leaveZones moves all nodes back, for the tests that follow.
func (b *testbed) leaveZones(t *testing.T) {
	t.Helper()
	nodes, err := b.Nodes()
	must(t, err)
	must(t, b.setZones(cleanup()))
	for _, n := range nodes {
		must(t, b.setZone(cleanup(), n.Name, ""))
	}
}

// through starts pings between the pods of a node and all others, both ways, and a connection. The returned function ends them.
func through(t *testing.T, pods []*corev1.Pod, node string) func() zoneMove {
	t.Helper()
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
	others := slices.Delete(slices.Clone(pods), i, i+1)
	all := []*pings{startPings(t, pods[i], others...)}
	for _, p := range others {
		all = append(all, startPings(t, p, pods[i]))
	}
	flow := bed.peerPod("zone-flow", others[0].Spec.NodeName, "--flow="+address(t, pods[i], is4).String()+":7000")
	bed.run(t, flow)
	eventually(t, convergence, func() error { return flowing(t.Context(), flow) })
	_, err := getJSON[flowState](t.Context(), bed, flow, "/flow?reset")
	must(t, err)
	return func() (m zoneMove) {
		t.Helper()
		m.Node = node
		for _, p := range all {
			for _, r := range p.stop(t) {
				m.Lost = max(m.Lost, r.Lost)
				if r.Lost > 0 {
					t.Logf("to %s: %d of %d pings lost, in %+v", r.To, r.Lost, r.Sent, r.Gaps)
				}
			}
		}
		state, err := getJSON[flowState](t.Context(), bed, flow, "/flow")
		must(t, err)
		if m.GapMs = state.GapMs; !state.Connected {
			t.Errorf("the connection through %s ended: %s", node, state.Error)
		}
		bed.remove(t, flow)
		return m
	}
}

// testZoneMove moves a node under traffic.
func testZoneMove(t *testing.T, pods []*corev1.Pod, node, to string) zoneMove {
	t.Helper()
	stop := through(t, pods, node)
	must(t, bed.setZone(t.Context(), node, to))
	took := eventually(t, zoneTimeout, func() error { return bed.inZone(t.Context(), node, to) })
	eventually(t, convergence, func() error { return bed.reachEachOther(t.Context(), pods...) })
	m := stop()
	m.To = to
	t.Logf("node %s entered zone %q after %s; at most %d pings of a pair were lost, and the connection's longest gap was %.0f ms",
		node, to, milliseconds(took), m.Lost, m.GapMs)
	return m
}

// zoneNode returns the node with the zone's databases.
func zoneNode(t *testing.T) string {
	t.Helper()
	zones, err := bed.zones(t.Context())
	must(t, err)
	if len(zones) != 1 || zones[0].Node == "" {
		t.Fatalf("zones: %+v", zones)
	}
	return zones[0].Node
}

// testZoneKill kills a daemon of the zone's databases. No packet is lost, and new pods of both zones reach each other soon.
func testZoneKill(t *testing.T, pods []*corev1.Pod, d daemon) zoneMove {
	node := zoneNode(t)
	stop := through(t, pods, node)
	bed.signal(t, node, d, syscall.SIGKILL)
	a, b := bed.peerPod("zone-canary-1", "n1"), bed.peerPod("zone-canary-2", "n2")
	bed.create(t, a, b)
	took := eventually(t, recoveryTimeout, func() error { return bed.reachEachOther(t.Context(), a, b) })
	m := stop()
	m.To = d.name
	t.Logf("new pods of both zones reach each other after %s", milliseconds(took))
	m.mustKeepPackets(t)
	bed.remove(t, a)
	bed.remove(t, b)
	return m
}

// TestMembersOfAZone makes three members of a zone's databases of one while pods reach each other. One member fails, and the zone goes on.
// Then three become one.
func TestMembersOfAZone(t *testing.T) {
	pods := threeInZone(t, "member")
	began := time.Now()
	stop := through(t, pods, pods[2].Spec.NodeName)
	must(t, bed.setZoneMembers(cleanup(), 3))
	eventually(t, 2*zoneTimeout, func() error { return membersWork(t, 3) })
	m := stop()
	t.Logf("one became three within %s", milliseconds(time.Since(began)))
	m.mustKeepPackets(t)
	bed.mustReach(t, pods...)
	bed.awaitConsistent(t)

	t.Run("a member hangs", func(t *testing.T) { testMemberHangs(t, pods) })

	began, stop = time.Now(), through(t, pods, pods[2].Spec.NodeName)
	must(t, bed.setZoneMembers(cleanup(), 1))
	eventually(t, 2*zoneTimeout, func() error { return membersWork(t, 0) })
	m = stop()
	t.Logf("three became one within %s", milliseconds(time.Since(began)))
	m.mustKeepPackets(t)
	bed.mustReach(t, pods...)
	bed.awaitConsistent(t)
}

// threeInZone starts a pod on each of four nodes, and puts all but the first into the zone until the test ends.
func threeInZone(t *testing.T, name string) (pods []*corev1.Pod) {
	t.Helper()
	nodes, err := bed.Nodes()
	must(t, err)
	if !bed.bare || len(nodes) < 4 {
		t.Skip("needs operands, and three nodes besides the first")
	}
	for _, n := range nodes[:4] {
		pods = append(pods, bed.peerPod(name+"-"+n.Name, n.Name))
	}
	bed.run(t, pods...)
	t.Cleanup(func() { bed.leaveZones(t) })
	must(t, bed.setZones(cleanup(), zone))
	for _, n := range nodes[1:4] {
		must(t, bed.setZone(t.Context(), n.Name, zone))
	}
	for _, n := range nodes[1:4] {
		eventually(t, zoneTimeout, func() error { return bed.inZone(t.Context(), n.Name, zone) })
	}
	return pods
}

// setZoneMembers sets the number of members of the databases of the first zone.
func (b *testbed) setZoneMembers(ctx context.Context, n int32) error {
	return b.changeZone(ctx, func(z *networkv1alpha1.Zone) { z.Databases.Members = n })
}

// changeZone changes the first zone of the spec.
func (b *testbed) changeZone(ctx context.Context, change func(*networkv1alpha1.Zone)) error {
	cn := &networkv1alpha1.ClusterNetwork{}
	cn.Name = networkv1alpha1.ClusterNetworkName
	if err := b.api.Get(ctx, client.ObjectKeyFromObject(cn), cn); err != nil {
		return err
	}
	patch := client.MergeFrom(cn.DeepCopy())
	change(&cn.Spec.Zones[0])
	return b.api.Patch(ctx, cn, patch)
}

// membersWork returns nil if the zone is ready, its databases have this number of members, and all of these work. Standalone databases
// have none.
func membersWork(t *testing.T, want int) error {
	zones, err := bed.zones(t.Context())
	if err != nil {
		return err
	}
	if len(zones) != 1 || !zones[0].Ready {
		return fmt.Errorf("zones: %+v", zones)
	}
	working := 0
	if d := zones[0].Databases; d != nil {
		for _, m := range d.Members {
			works := func(r networkv1alpha1.MemberRole) bool {
				return r == networkv1alpha1.MemberLeader || r == networkv1alpha1.MemberFollower
			}
			if !works(m.Northbound) || !works(m.Southbound) {
				return fmt.Errorf("member %+v", m)
			}
			working++
		}
	}
	if working != want || want == 0 && zones[0].Databases != nil {
		return fmt.Errorf("databases %+v, want %d members", zones[0].Databases, want)
	}
	return nil
}

// testMemberHangs stops the servers of the member that leads the zone's southbound database. The others elect another leader, pods start
// in the zone, and the status names the member.
func testMemberHangs(t *testing.T, pods []*corev1.Pod) {
	zones, err := bed.zones(t.Context())
	must(t, err)
	i := slices.IndexFunc(zones[0].Databases.Members, func(m networkv1alpha1.DatabaseMember) bool {
		return m.Southbound == networkv1alpha1.MemberLeader
	})
	if i < 0 {
		t.Fatalf("no leader: %+v", zones[0].Databases)
	}
	node := zones[0].Databases.Members[i].Node
	stop := through(t, pods, node)
	t.Cleanup(func() { bed.signalServers(t, node, "CONT") })
	bed.signalServers(t, node, "STOP")
	began := time.Now()
	canaries := []*corev1.Pod{bed.peerPod("member-canary-1", "n1")}
	for _, p := range pods[1:] {
		if p.Spec.NodeName != node {
			canaries = append(canaries, bed.peerPod("member-canary-"+p.Spec.NodeName, p.Spec.NodeName))
		}
	}
	for _, p := range canaries {
		bed.create(t, p)
	}
	eventually(t, zoneTimeout, func() error { return bed.reachEachOther(t.Context(), canaries...) })
	t.Logf("new pods reach each other %s after the leader on node %s hung", milliseconds(time.Since(began)), node)
	eventually(t, zoneTimeout, func() error {
		s, err := faultStatus(t)
		if err == nil && !slices.ContainsFunc(s.Problems, func(p networkv1alpha1.Problem) bool {
			return p.Reason == networkv1alpha1.ReasonMemberUnavailable && strings.Contains(p.Message, node+" of zone "+zone)
		}) {
			err = fmt.Errorf("no problem names the member: %+v", s.Problems)
		}
		return err
	})
	stop().mustKeepPackets(t)
	bed.signalServers(t, node, "CONT")
	eventually(t, 2*zoneTimeout, func() error { return errors.Join(membersWork(t, 3), healthy(t)) })
	bed.mustReach(t, append(slices.Clone(pods), canaries...)...)
	for _, p := range canaries {
		bed.remove(t, p)
	}
}

// signalServers sends a signal to the servers of OVN's databases on a node.
func (b *testbed) signalServers(t *testing.T, node, name string) {
	t.Helper()
	_, err := b.Exec(cleanup(), node, "sh", "-c",
		`for p in $(busybox pidof ovsdb-server); do grep -qE 'ovn[ns]b_db' /proc/$p/cmdline && kill -`+name+` $p; done; true`)
	must(t, err)
}

// testZoneAway keeps the zone's databases away. Its nodes keep their packets, pods start in the other zone, and the status names the zone.
func testZoneAway(t *testing.T, pods []*corev1.Pod) {
	node := zoneNode(t)
	stop := through(t, pods, node)
	signal := func(name string) {
		_, err := bed.Exec(cleanup(), node, "sh", "-c",
			`for p in $(busybox pidof ovsdb-server); do grep -q ovnsb_db /proc/$p/cmdline && kill -`+name+` $p; done; true`)
		must(t, err)
	}
	resume := func() { signal("CONT") }
	signal("STOP")
	t.Cleanup(resume)
	eventually(t, zoneTimeout, func() error {
		zones, err := bed.zones(t.Context())
		if err == nil && (len(zones) != 1 || zones[0].Ready) {
			err = fmt.Errorf("zones: %+v", zones)
		}
		return err
	})
	s, err := faultStatus(t)
	must(t, err)
	if !slices.ContainsFunc(s.Problems, func(p networkv1alpha1.Problem) bool { return p.Reason == networkv1alpha1.ReasonZoneUnavailable }) {
		t.Errorf("no problem names the zone: %+v", s.Problems)
	}
	canary := bed.peerPod("zone-canary", "n1")
	bed.run(t, canary)
	bed.mustReach(t, canary, pods[0])
	stop().mustKeepPackets(t)
	resume()
	eventually(t, zoneTimeout, func() error { return healthy(t) })
	bed.mustReach(t, append(slices.Clone(pods), canary)...)
	bed.remove(t, canary)
}
