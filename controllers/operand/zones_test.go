package operand_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/render"
)

// zoneBed is a ClusterNetwork whose zones' pods the test plays. Its nodes are n1, of no zone, and z1 and z2, which the zones select.
type zoneBed struct {
	*testing.T
	cn *networkv1alpha1.ClusterNetwork
}

func newZoneBed(t *testing.T, zones ...string) zoneBed {
	t.Helper()
	// Earlier tests left workloads, pods and nodes.
	for _, left := range []client.Object{&appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}, &corev1.Pod{}} {
		must(t, api.DeleteAllOf(t.Context(), left, client.InNamespace(namespace), client.GracePeriodSeconds(0)))
	}
	must(t, errors.Join(api.DeleteAllOf(t.Context(), &networkv1alpha1.NodeNetwork{}), api.DeleteAllOf(t.Context(), &corev1.Node{})))
	for i, name := range []string{"n1", "z1", "z2"} {
		addNode(t, name, fmt.Sprintf("192.0.2.%d", 11+i))
	}
	b := zoneBed{t, &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}, Zones: zonesNamed(zones)}}}
	must(t, api.Create(t.Context(), b.cn))
	return b
}

// addNode adds a node whose label zone is the first letter of its name.
func addNode(t *testing.T, name, address string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name[:1]}}}
	must(t, api.Create(t.Context(), n))
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	must(t, api.Status().Update(t.Context(), n))
}

func zonesNamed(names []string) (zones []networkv1alpha1.Zone) {
	for _, name := range names {
		zones = append(zones, networkv1alpha1.Zone{Name: networkv1alpha1.ZoneName(name), NodeSelector: map[string]string{"zone": "z"}})
	}
	return zones
}

// set replaces the zones of the spec.
func (b zoneBed) set(zones ...string) {
	b.Helper()
	must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
	before := b.cn.DeepCopy()
	b.cn.Spec.Zones = zonesNamed(zones)
	must(b.T, api.Patch(b.Context(), b.cn, client.MergeFrom(before)))
}

// expect waits for a status of zones such as "east@z1=192.0.2.12 Ready", with the message in place of Ready.
func (b zoneBed) expect(want string) {
	b.Helper()
	eventually(b.T, func() error {
		must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
		var zones []string
		for _, z := range b.cn.Status.Zones {
			state := z.Message
			if z.Ready {
				state = "Ready"
			}
			zones = append(zones, fmt.Sprintf("%s@%s=%s %s", z.Name, z.Node, strings.Join(stringsOf(z.Addresses), ","), state))
		}
		if have := strings.Join(zones, "; "); have != want {
			return fmt.Errorf("zones %q, want %q", have, want)
		}
		return nil
	})
}

func stringsOf(addresses []networkv1alpha1.IP) (all []string) {
	for _, a := range addresses {
		all = append(all, string(a))
	}
	return all
}

// pod plays the controllers and kubelet.
func (b zoneBed) pod(component, node string, labels map[string]string) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-" + component + "-0", Labels: map[string]string{
		"app.kubernetes.io/name": "weft", "app.kubernetes.io/component": component}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "weft:test"}}}}
	for key, value := range labels {
		p.Labels[key] = value
	}
	must(b.T, api.Create(b.Context(), p))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	must(b.T, api.Status().Update(b.Context(), p))
	b.Cleanup(func() {
		_ = api.Delete(context.Background(), p, client.GracePeriodSeconds(0))
	})
}

// workloads returns the names of the zones' workloads.
func (b zoneBed) workloads() (found []string) {
	b.Helper()
	var databases appsv1.StatefulSetList
	var operators appsv1.DeploymentList
	own, ofZones := client.InNamespace(namespace), client.HasLabels{render.LabelZone}
	must(b.T, errors.Join(api.List(b.Context(), &databases, own, ofZones), api.List(b.Context(), &operators, own, ofZones)))
	for _, w := range databases.Items {
		found = append(found, w.Name)
	}
	for _, w := range operators.Items {
		found = append(found, w.Name)
	}
	slices.Sort(found)
	return found
}

func (b zoneBed) awaitWorkloads(want ...string) {
	b.Helper()
	eventually(b.T, func() error {
		if have := b.workloads(); !slices.Equal(have, want) {
			return fmt.Errorf("workloads %q, want %q", have, want)
		}
		return nil
	})
}

// end removes what the test has made.
func (b zoneBed) end() {
	b.Helper()
	deleteNetwork(b.T, b.cn)
	must(b.T, api.DeleteAllOf(b.Context(), &networkv1alpha1.NodeNetwork{}))
	must(b.T, api.DeleteAllOf(b.Context(), &corev1.Node{}))
}

// TestZones follows a zone from the spec of a running cluster to its end: its workloads are applied and reported, its databases move only
// when their node is gone, and its workloads are deleted only when no NodeNetwork names the zone.
func TestZones(t *testing.T) {
	ctx := t.Context()
	b := newZoneBed(t)
	_, stop := start(t)
	eventually(t, func() error { return all(ctx) })
	awaitPass(t, render.Agents)
	b.awaitWorkloads()
	b.expect("")

	b.set("east")
	b.awaitWorkloads("weft-central-east", "weft-operator-east")
	b.expect("east@z1=192.0.2.12 the databases have no pod yet")
	b.pod("central-east", "z1", map[string]string{render.LabelZone: "east"})
	b.expect("east@z1=192.0.2.12 the operator has no pod yet")
	b.pod("operator-east", "z2", nil)
	b.expect("east@z1=192.0.2.12 Ready")
	eventually(t, func() error { return eventRecorded(ctx, "ZoneReady") })

	// The databases' node leaves the zone, and is then gone.
	z1 := &corev1.Node{}
	must(t, api.Get(ctx, client.ObjectKey{Name: "z1"}, z1))
	before := z1.DeepCopy()
	z1.Labels["zone"] = "n"
	must(t, api.Patch(ctx, z1, client.MergeFrom(before)))
	awaitPass(t, render.Agents)
	b.expect("east@z1=192.0.2.12 Ready")
	must(t, api.Delete(ctx, z1))
	must(t, api.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-central-east-0"}},
		client.GracePeriodSeconds(0)))
	b.expect("east@z2=192.0.2.13 the databases have no pod yet")
	eventually(t, func() error { return eventRecorded(ctx, "ZoneNotReady") })
	eventually(t, func() error { return eventRecorded(ctx, "DatabasesMoved") })
	central := &appsv1.StatefulSet{}
	must(t, api.Get(ctx, own(render.Central), central))
	if node := central.Annotations[render.AnnotationNode]; node != "n1" {
		t.Errorf("the databases of the default zone are on %s", node)
	}

	// The zone leaves the spec while a NodeNetwork names it.
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "z2"}, Spec: networkv1alpha1.NodeNetworkSpec{Zone: "east"}}
	must(t, api.Create(ctx, nn))
	b.set()
	b.expect("")
	awaitPass(t, render.Agents)
	b.awaitWorkloads("weft-central-east", "weft-operator-east")
	nn.Spec.Zone = ""
	must(t, api.Update(ctx, nn))
	b.awaitWorkloads()
	eventually(t, func() error { return eventRecorded(ctx, "ZoneRemoved") })
	stop()
	b.end()
}

// TestANetworkWithZonesIsRemoved installs a network with two zones, and removes it. There is no node for the second zone's databases,
// because the first zone has all nodes that its selector matches.
func TestANetworkWithZonesIsRemoved(t *testing.T) {
	ctx := t.Context()
	b := newZoneBed(t, "east", "west")
	_, stop := start(t)
	eventually(t, func() error { return all(ctx) })
	b.awaitWorkloads("weft-central-east", "weft-operator-east")
	b.expect("east@z1=192.0.2.12 the databases have no pod yet; west@= every node that matches nodeSelector is in an earlier zone")

	confirm(t, b.cn, string(b.cn.UID))
	must(t, api.Delete(ctx, b.cn))
	central, uninstall := &appsv1.StatefulSet{}, &appsv1.DaemonSet{}
	collected(t, map[string]client.Object{"weft-operator-east": &appsv1.Deployment{}, "weft-operator": &appsv1.Deployment{},
		"weft-agent": &appsv1.DaemonSet{}, "weft-ovn-controller": &appsv1.DaemonSet{}}, func() {
		if err := api.Get(ctx, own(render.Uninstall), uninstall); !apierrors.IsNotFound(err) {
			t.Fatalf("%s before the zone's operator has ended: %v", render.Uninstall, err)
		}
	})
	eventually(t, func() error { return api.Get(ctx, own(render.Uninstall), uninstall) })
	if must(t, api.Get(ctx, own("weft-central-east"), central)); !central.DeletionTimestamp.IsZero() {
		t.Error("the zone's databases are removed before the nodes are cleared")
	}
	uninstall.Status = appsv1.DaemonSetStatus{ObservedGeneration: uninstall.Generation, DesiredNumberScheduled: 3,
		UpdatedNumberScheduled: 3, NumberReady: 3}
	must(t, api.Status().Update(ctx, uninstall))
	collected(t, map[string]client.Object{"weft-central-east": central, render.Central: &appsv1.StatefulSet{},
		render.Switches: &appsv1.DaemonSet{}, render.Uninstall: uninstall}, func() {})
	eventually(t, func() error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(b.cn), b.cn); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ClusterNetwork is left: %w", err)
		}
		return nil
	})
	stop()
	must(t, api.DeleteAllOf(ctx, &corev1.Node{}))
}

// TestMembersOfAZone makes three members of a zone's databases of one, and one of three. The other databases stay as they are.
func TestMembersOfAZone(t *testing.T) {
	ctx := t.Context()
	b := newZoneBed(t, "east")
	addNode(t, "z3", "192.0.2.14")
	c := &cluster{order: map[string]member.Order{}, servers: map[string]string{}, silent: map[string]bool{}}
	_, stop := startWith(t, "test", c.send)
	b.expect("east@z1=192.0.2.12 the databases have no pod yet")

	b.members(3)
	b.expect("east@z1=192.0.2.12,192.0.2.13,192.0.2.14 the databases have no pod yet")
	b.expectMembers("z1 Leader/Leader, z2 Follower/Follower, z3 Follower/Follower")
	eventually(t, func() error { return eventRecorded(ctx, "ClusterMade") })
	central, outside := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}
	must(t, api.Get(ctx, own(render.CentralOf("east")), central))
	must(t, api.Get(ctx, own(render.Central), outside))
	if noted := central.Annotations[render.AnnotationClusters]; noted != `{"nb":"cluster-nb","sb":"cluster-sb"}` ||
		*central.Spec.Replicas != 3 || central.Annotations[render.AnnotationNode] != "z1,z2,z3" {
		t.Errorf("noted is %s, of %d on %s", noted, *central.Spec.Replicas, central.Annotations[render.AnnotationNode])
	}
	if *outside.Spec.Replicas != 1 || outside.Annotations[render.AnnotationClusters] != "" || b.cn.Status.Databases != nil {
		t.Errorf("the other databases have %d replicas, clusters %q and status %+v", *outside.Spec.Replicas,
			outside.Annotations[render.AnnotationClusters], b.cn.Status.Databases)
	}

	must(t, api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z2"}}))
	c.change(func() { c.silent["192.0.2.13"] = true })
	b.expectMembers("z1 Leader/Leader, z3 Follower/Follower")
	eventually(t, func() error { return eventRecorded(ctx, "MemberReplaced") })

	b.members(1)
	b.expect("east@z1=192.0.2.12 the databases have no pod yet")
	b.expectMembers("")
	eventually(t, func() error {
		must(t, api.Get(ctx, own(render.CentralOf("east")), central))
		if *central.Spec.Replicas != 1 || central.Annotations[render.AnnotationNode] != "z1" ||
			central.Annotations[render.AnnotationClusters] != "" {
			return fmt.Errorf("%d replicas on %s, clusters %q", *central.Spec.Replicas, central.Annotations[render.AnnotationNode],
				central.Annotations[render.AnnotationClusters])
		}
		return nil
	})
	stop()
	b.end()
}

// members sets the number of members of the first zone's databases.
func (b zoneBed) members(n int32) {
	b.Helper()
	must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
	before := b.cn.DeepCopy()
	b.cn.Spec.Zones[0].Databases.Members = n
	must(b.T, api.Patch(b.Context(), b.cn, client.MergeFrom(before)))
}

// expectMembers waits for the states of the members of the first zone's databases, such as "z1 Leader/Leader".
func (b zoneBed) expectMembers(want string) {
	b.Helper()
	eventually(b.T, func() error {
		must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
		var have []string
		if d := b.cn.Status.Zones[0].Databases; d != nil {
			for _, m := range d.Members {
				have = append(have, fmt.Sprintf("%s %s/%s", m.Node, m.Northbound, m.Southbound))
			}
		}
		if text := strings.Join(have, ", "); text != want {
			return fmt.Errorf("members %q, want %q", text, want)
		}
		return nil
	})
}

// TestRelaysOfAZone follows the relay of a zone: it is used when it is ready, ends when no node uses it, and stays for the nodes of a zone
// that left the spec. The relays outside zones are on nodes outside zones.
func TestRelaysOfAZone(t *testing.T) {
	ctx := t.Context()
	b := newZoneBed(t, "east")
	relays := relayBed{t, b.cn}
	_, stop := start(t)
	eventually(t, func() error { return all(ctx) })
	b.awaitWorkloads("weft-central-east", "weft-operator-east")
	b.pod("central-east", "z1", map[string]string{render.LabelZone: "east"})
	b.pod("operator-east", "z2", nil)
	b.expect("east@z1=192.0.2.12 Ready")

	b.scaleRelays(1)
	relays.scale(2) // and one node
	b.expectRelays("z2=Starting")
	relays.expect("n1=Starting")
	relays.bound(render.RelaysOf("east"), "z2")
	relays.bound(render.SourcesOf("east"), "z1")
	relays.bound(render.Relays, "n1")
	b.pod("relay-zone-east", "z2", nil)
	b.expectRelays("z2=Ready")
	relays.expect("n1=Starting")
	pair := &corev1.Secret{}
	must(t, api.Get(ctx, own(render.RelaySecret), pair))
	relays.scale(0)
	relays.expect("")

	// A node uses the relay when it is no longer wanted, and when the zone leaves the spec.
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "z1"}, Spec: networkv1alpha1.NodeNetworkSpec{Zone: "east",
		Relays: []networkv1alpha1.IP{"192.0.2.13"}}}
	must(t, api.Create(ctx, nn))
	b.scaleRelays(0)
	b.expectRelays("z2=Leaving")
	b.set()
	b.expect("")
	awaitPass(t, render.Agents)
	relays.bound(render.RelaysOf("east"), "z2")
	must(t, api.Get(ctx, own(render.RelaySecret), &corev1.Secret{}))
	nn.Spec.Zone, nn.Spec.Relays = "", nil
	must(t, api.Update(ctx, nn))
	b.awaitWorkloads()
	relays.bound(render.RelaysOf("east"))
	relays.bound(render.SourcesOf("east"))
	eventually(t, func() error {
		if err := api.Get(ctx, own(render.RelaySecret), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the relays' key pair is left: %w", err)
		}
		return nil
	})
	stop()
	b.end()
}

// scaleRelays sets the number of relays of the first zone.
func (b zoneBed) scaleRelays(n int32) {
	b.Helper()
	must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
	before := b.cn.DeepCopy()
	b.cn.Spec.Zones[0].Databases.Relays.Count = n
	must(b.T, api.Patch(b.Context(), b.cn, client.MergeFrom(before)))
}

// expectRelays waits for the relays of the first zone: "z2=Ready".
func (b zoneBed) expectRelays(want string) {
	b.Helper()
	eventually(b.T, func() error {
		must(b.T, api.Get(b.Context(), client.ObjectKeyFromObject(b.cn), b.cn))
		if have := shownRelays(b.cn.Status.Zones[0].Relays); have != want {
			return fmt.Errorf("relays of the zone %q, want %q", have, want)
		}
		return nil
	})
}
