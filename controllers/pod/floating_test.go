package pod

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// poolOf returns an IPPool in force of all namespaces.
func poolOf(name string, location networkv1alpha1.IPPoolLocation, addresses string) *networkv1alpha1.IPPool {
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec = networkv1alpha1.IPPoolSpec{Location: location, Namespaces: &metav1.LabelSelector{},
		Ranges: []networkv1alpha1.IPPoolRange{{Addresses: addresses}}}
	if location == networkv1alpha1.LocationUnderlay {
		pool.Spec.Network = "blue"
	}
	pool.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	return pool
}

// heldByWeb returns an address of a pool that the pod demo/web has.
func heldByWeb(address networkv1alpha1.EgressAddress, pool string) *networkv1alpha1.FloatingIP {
	f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: string(address)}}
	f.Spec = networkv1alpha1.FloatingIPSpec{Address: address, Pool: pool, Holder: &networkv1alpha1.FloatingIPHolder{
		APIVersion: "v1", Kind: "Pod", Namespace: "demo", Name: "web", UID: "uid-web", Pod: "web", PodUID: "uid-web", Node: "n1"}}
	return f
}

// existing is the port of demo/web with a translated address.
func existing() *nbdb.LogicalSwitchPort {
	return &nbdb.LogicalSwitchPort{Name: "demo_web", Addresses: []string{v4}, PortSecurity: []string{v4},
		Options:     map[string]string{"iface-id-ver": "uid-web", "requested-chassis": "chassis-n1", "requested-tnl-key": "16"},
		ExternalIDs: map[string]string{unit.OwnerKey: string(web), "namespace": "demo", "pod": "true", "weft.dev/translated": "192.0.2.64"}}
}

// expectTranslated expects the translation of 192.0.2.64 in the unit of demo/web.
func expectTranslated(t *testing.T, b *kindtest.Bed) {
	t.Helper()
	lines := fmt.Sprint(b.Reconcile("demo", "web").Units[web])
	for _, part := range []string{"weft.dev/translated:192.0.2.64", "NAT", v4} {
		if !strings.Contains(lines, part) {
			t.Errorf("the pod's unit has no %s: %s", part, lines)
		}
	}
}

// A pod keeps its translated address over a start of the operator, whatever its annotations say now, and whichever kind
// the operator reconciles first.
func TestStartWithAFloatingAddressThatIsNotRequestedAnyMore(t *testing.T) {
	for name, annotations := range map[string][]string{
		"no request":           nil,
		"of an Underlay pool":  {networkv1alpha1.IPPoolAnnotation, "segment", "k8s.v1.cni.cncf.io/networks", "blue"},
		"of another NAT pool":  {networkv1alpha1.IPPoolAnnotation, "other"},
		"of an Overlay pool":   {networkv1alpha1.IPPoolAnnotation, "web"},
		"of a pool in absence": {networkv1alpha1.IPPoolAnnotation, "absent"},
	} {
		for chassis, state := range map[string]string{"chassis-n1": "with an agent", "": "without an agent"} {
			t.Run(name+" "+state, func(t *testing.T) {
				node := onNode("10.244.0.0/24")
				node.Status.Chassis = chassis
				b := newBed(t, node, aPod(annotated(annotations...)), heldByWeb("192.0.2.64", "edge"),
					poolOf("edge", networkv1alpha1.LocationNAT, "192.0.2.64/30"), poolOf("other", networkv1alpha1.LocationNAT, "192.0.2.80/30"),
					poolOf("segment", networkv1alpha1.LocationUnderlay, "10.100.0.1"), poolOf("web", networkv1alpha1.LocationOverlay, "10.244.200.1"))
				b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{existing()}
				expectTranslated(t, b)
			})
		}
	}
}

// A running pod that begins to request an Overlay address keeps the address that it has, because it cannot change it.
func TestRequestOfARunningPod(t *testing.T) {
	b := newBed(t, onNode("10.244.0.0/24"), aPod(), poolOf("web", networkv1alpha1.LocationOverlay, "10.244.200.1"))
	want := kindtest.Outcome{Units: applied(port(v4)), Enqueued: counts}
	kindtest.Expect(t, want, b.Reconcile("demo", "web"))
	b.Update(aPod(annotated(networkv1alpha1.IPPoolAnnotation, "web")))
	want.Enqueued = nil
	kindtest.Expect(t, want, b.Reconcile("demo", "web"))
}

// A translation that a person gave to another pod while no operator ran stays at the first pod's port until that pod was
// reconciled, also at a port that cannot be read. Then the next pod is enqueued, and gets it.
func TestTranslationThatAnotherPortStillHas(t *testing.T) {
	whole := map[string]string{"iface-id-ver": "uid-other", "requested-chassis": "chassis-n1", "requested-tnl-key": "16"}
	for name, options := range map[string]map[string]string{"whole": whole, "without options": nil} {
		t.Run(name, func(t *testing.T) {
			other := aPod(func(p *corev1.Pod) { p.Name, p.UID = "other", "uid-other" })
			b := newBed(t, onNode("10.244.0.0/24"), aPod(), other, heldByWeb("192.0.2.64", "edge"),
				poolOf("edge", networkv1alpha1.LocationNAT, "192.0.2.64/30"))
			at := existing()
			at.Name, at.Options = "demo_other", options
			at.ExternalIDs[unit.OwnerKey] = string(topology.PodKey("demo", "other"))
			b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{at}
			if lines := fmt.Sprint(b.Reconcile("demo", "web").Units[web]); strings.Contains(lines, "192.0.2.64") {
				t.Errorf("the pod's unit has a translation that another port has: %s", lines)
			}
			if have := b.Reconcile("demo", "other"); !slices.Contains(have.Enqueued, "pod demo/web") {
				t.Errorf("the pod that waits for the translation is not enqueued: %+v", have)
			}
			lines := fmt.Sprint(b.Reconcile("demo", "web").Units[web])
			for _, part := range []string{"weft.dev/translated:192.0.2.64", "NAT", "10.244.0."} {
				if !strings.Contains(lines, part) {
					t.Errorf("the pod's unit has no %s: %s", part, lines)
				}
			}
		})
	}
}

// The routes of a floating address outlive a port that was deleted while no operator ran. If the pod gets no address,
// its unit is emptied.
func TestPodWithoutAddressHasNoRows(t *testing.T) {
	b := newBed(t, onNode("10.244.0.0/24"), aPod(annotated(networkv1alpha1.IPPoolAnnotation, "absent")))
	have := b.Reconcile("demo", "web")
	if lines, applied := have.Units[web]; !applied || len(lines) > 0 {
		t.Errorf("the unit of a pod that waits for an address is %q, applied: %t", lines, applied)
	}
}

// Nobody may need to watch the routers of a pod without an address.
func TestPodWithoutAddressEnqueuesItsGateway(t *testing.T) {
	for _, routes := range [][]client.Object{nil, {&networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "r0"}}}} {
		b := newBed(t, append(routes, onNode("10.244.0.0/24"), aPod(annotated(networkv1alpha1.IPPoolAnnotation, "absent")))...)
		if have := b.Reconcile("demo", "web").Enqueued; slices.Contains(have, "gateway n1") != (len(routes) > 0) {
			t.Errorf("with %d ExternalRoutes, %q are enqueued", len(routes), have)
		}
	}
}

// A person released the Overlay address of a running pod whose node has no agent. If the pool is gone, too, the port goes,
// because another pod may get the address. Otherwise the pod gets it again.
func TestReleasedAddressOfAPodWhoseNodeHasNoAgent(t *testing.T) {
	nn := onNode("10.244.0.0/24")
	nn.Status.Chassis = ""
	at := existing()
	at.Addresses, at.PortSecurity = []string{"0a:58:0a:f4:c8:01 10.244.200.1"}, nil
	at.ExternalIDs = map[string]string{unit.OwnerKey: string(web), "namespace": "demo", "pod": "true", "weft.dev/floating": "10.244.200.1"}
	for _, pools := range [][]client.Object{{}, {poolOf("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.1")}} {
		b := newBed(t, append(pools, nn, aPod(annotated(networkv1alpha1.IPPoolAnnotation, "web")))...)
		b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{at}
		have := b.Reconcile("demo", "web")
		if stays := len(have.Units[web]) > 0; stays != (len(pools) > 0) {
			t.Errorf("with %d pools the port stays: %t, %+v", len(pools), stays, have)
		}
	}
}

// A person released the Overlay address of a running pod, and its pool was recreated as NAT, while no operator ran. The
// port goes, because another pod may get the address. The pod is enqueued, and then gets a port with a translation.
func TestPodWhoseOverlayPoolBecameNAT(t *testing.T) {
	pod := aPod(annotated(networkv1alpha1.IPPoolAnnotation, "web"))
	b := newBed(t, onNode("10.244.0.0/24"), pod, poolOf("web", networkv1alpha1.LocationNAT, "192.0.2.64/30"))
	at := existing()
	at.Addresses, at.PortSecurity = []string{"0a:58:0a:f4:c8:01 10.244.200.1"}, nil
	at.ExternalIDs = map[string]string{unit.OwnerKey: string(web), "namespace": "demo", "pod": "true", "weft.dev/floating": "10.244.200.1"}
	b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{at}
	if have := b.Reconcile("demo", "web"); len(have.Units[web]) > 0 || !slices.Contains(have.Enqueued, "pod demo/web") {
		t.Errorf("the port with the released address stays, or nothing enqueues the pod: %+v", have)
	}
	expectTranslated(t, b)
}

// A person removed the holder of a translated address whose pod runs, perhaps while no operator ran or its node has no agent. The pod
// gets the address again and not a free one, and an event says so. If another pod has it, the pod gets a free one.
func TestTranslationWhoseHolderAPersonRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		chassis string
		other   bool
		want    string
		ranges  string
		deleted bool
	}{
		"with an agent":                        {"chassis-n1", false, "192.0.2.64", "192.0.2.64/30", false},
		"without an agent":                     {"", false, "192.0.2.64", "192.0.2.64/30", false},
		"now another pod's":                    {"chassis-n1", true, "192.0.2.65", "192.0.2.64/30", false},
		"outside of the range now":             {"chassis-n1", false, "192.0.2.64", "192.0.2.65-192.0.2.67", false},
		"outside of the range, without agent":  {"", false, "192.0.2.64", "192.0.2.65-192.0.2.67", false},
		"outside of the range, now another's":  {"chassis-n1", true, "192.0.2.65", "192.0.2.65-192.0.2.67", false},
		"outside of the range, object deleted": {"chassis-n1", false, "192.0.2.65", "192.0.2.65-192.0.2.67", true},
		"within the range, the object deleted": {"chassis-n1", false, "192.0.2.64", "192.0.2.64/30", true},
	} {
		t.Run(name, func(t *testing.T) {
			nn := onNode("10.244.0.0/24")
			nn.Status.Chassis = c.chassis
			freed := heldByWeb("192.0.2.64", "edge")
			freed.UID, freed.Spec.Holder = "uid-f", nil
			if c.other {
				freed.Spec.Holder = heldByWeb("192.0.2.64", "edge").Spec.Holder
				freed.Spec.Holder.Name, freed.Spec.Holder.Pod, freed.Spec.Holder.PodUID = "other", "other", "uid-other"
			}
			freed.Status.History = []networkv1alpha1.FloatingIPUse{{Kind: "Pod", Name: "old", Until: metav1.NewTime(kindtest.Start)}}
			free := heldByWeb("192.0.2.65", "edge")
			free.UID, free.Spec.Holder = "uid-g", nil
			objects := []client.Object{nn, aPod(annotated(networkv1alpha1.IPPoolAnnotation, "edge")), free,
				poolOf("edge", networkv1alpha1.LocationNAT, c.ranges)}
			if !c.deleted {
				objects = append(objects, freed)
			}
			b := newBed(t, objects...)
			b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{existing()}
			have := b.Reconcile("demo", "web")
			if have.Err != "" || !strings.Contains(fmt.Sprint(have.Units[web]), "weft.dev/translated:"+c.want) {
				t.Errorf("the pod's unit is %q, %s", have.Units[web], have.Err)
			}
			f := kindtest.Get(b, heldByWeb(networkv1alpha1.EgressAddress(c.want), ""))
			if h := f.Spec.Holder; h == nil || h.PodUID != "uid-web" {
				t.Errorf("FloatingIP %s has holder %+v", f.Name, h)
			}
			event := "Warning FloatingIPRestored Pod demo/web: 192.0.2.64"
			if told := strings.Contains(fmt.Sprint(have.Events), event); told == (c.want != "192.0.2.64") {
				t.Errorf("events %q", have.Events)
			}
			if lost := strings.Contains(fmt.Sprint(have.Events), "FloatingIPLost Pod demo/web: 192.0.2.64"); lost != (c.want != "192.0.2.64") {
				t.Errorf("events %q", have.Events)
			}
			if again := b.Reconcile("demo", "web"); len(again.Events)+len(again.Writes) > 0 {
				t.Errorf("then %+v", again)
			}
		})
	}
}

// A pod without an interface that has an address of a pool that was deleted waits for the pool, because the address may be one of its
// interface. With an interface, it goes on without a translation.
func TestAPodWaitsForTheDeletedPoolOfItsAddress(t *testing.T) {
	pod := aPod(annotated(networkv1alpha1.IPPoolAnnotation, "web"))
	b := newBed(t, onNode("10.244.0.0/24"), pod, heldByWeb("10.244.200.1", "web"))
	for range 2 {
		have := b.Reconcile("demo", "web")
		if have.Err != "" || len(have.Units[web]) > 0 {
			t.Fatalf("without the pool, the pod gets a port: %+v", have)
		}
		if text := fmt.Sprint(kindtest.Get(b, pod).Status.Conditions); !strings.Contains(text, "IPPool web: there is no IPPool of this name") {
			t.Fatalf("conditions %s", text)
		}
	}
	b = newBed(t, onNode("10.244.0.0/24"), pod, heldByWeb("10.244.200.1", "web"),
		poolOf("web", networkv1alpha1.LocationOverlay, "10.244.200.1"))
	lines := fmt.Sprint(b.Reconcile("demo", "web").Units[web])
	if !strings.Contains(lines, "10.244.200.1") {
		t.Errorf("with the pool, the pod's unit is %s", lines)
	}

	b = newBed(t, onNode("10.244.0.0/24"), aPod(annotated(networkv1alpha1.IPPoolAnnotation, "edge")), heldByWeb("192.0.2.64", "edge"))
	b.Database.ExistingPorts = []*nbdb.LogicalSwitchPort{existing()}
	if lines := fmt.Sprint(b.Reconcile("demo", "web").Units[web]); !strings.Contains(lines, v4) || strings.Contains(lines, "192.0.2.64") {
		t.Errorf("the unit of a pod with an interface is %s", lines)
	}
}
