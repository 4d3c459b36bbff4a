package operator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// divided is a cluster with n1 in the default zone and n2 in zone east. Both operators run.
func divided(t *testing.T, join func(w *world, names ...string)) (w, east *world) {
	t.Helper()
	return dividedIn(t, join, entry("10.244.0.0/16", 24))
}

// dividedIn is a divided cluster with these networks of pods.
func dividedIn(t *testing.T, join func(w *world, names ...string), networks ...networkv1alpha1.ClusterNetworkEntry) (w, east *world) {
	t.Helper()
	w = newWorld(t)
	east = w.zone("east")
	w.start()
	east.start()
	w.network(networks...)
	join(w, "n1", "n2")
	w.zones("east")
	w.relabel("n2", "east")
	w.zoneReady("east", true)
	w.inZoneOf("n2", "east", "192.0.2.9")
	east.hasSwitch("n2", true)
	w.hasSwitch("n2", false)
	w.transitPort("n2", "remote")
	east.transitPort("n1", "remote")
	return w, east
}

// running creates a pod and reports its addresses, as its kubelet does.
func (w *world) running(node, name, app string) (*corev1.Pod, netip.Addr) {
	w.Helper()
	p := w.podLabelled(node, name, app)
	addresses := w.addresses(w.port(p))
	w.phase(p, corev1.PodRunning, addresses...)
	return p, addresses[0]
}

// awaitRows waits until list returns exactly these lines.
func (w *world) awaitRows(list func() []string, want ...string) {
	w.Helper()
	slices.Sort(want)
	w.until(func() error {
		have := list()
		if slices.Sort(have); !slices.Equal(have, want) {
			return fmt.Errorf("zone %q has %q, want %q", w.inZone, have, want)
		}
		return nil
	})
}

// egressRows lists the policies and translations of an EgressIP: "transit_router 100 reroute 100.88.0.17", "GR_n1 192.0.2.100".
func (w *world) egressRows(name string) (found []string) {
	rows := w.selectRows()
	for _, router := range rows["Logical_Router"] {
		for id, policy := range rows["Logical_Router_Policy"] {
			if slices.Contains(policy["external_ids"], "weft.dev/unit=egressip/"+name) && slices.Contains(router["policies"], id) {
				found = append(found, strings.TrimSpace(strings.Join(slices.Concat(router["name"], policy["priority"], policy["action"],
					policy["nexthops"]), " ")))
			}
		}
		for id, nat := range rows["NAT"] {
			inside := len(nat["match"]) > 0 && strings.Contains(nat["match"][0], "inside")
			if slices.Contains(nat["external_ids"], "weft.dev/unit=egressip/"+name) && slices.Contains(router["nat"], id) && !inside {
				found = append(found, router["name"][0]+" "+nat["external_ip"][0])
			}
		}
	}
	return found
}

// inEgress lists the addresses of the pods that leave by an EgressIP.
func (w *world) inEgress(name string) (found []string) {
	for _, row := range w.selectRows()["Address_Set"] {
		if slices.Contains(row["external_ids"], "weft.dev/unit=egressip/"+name) {
			found = append(found, row["addresses"]...)
		}
	}
	return found
}

// An address that a node of another zone carries has its translation there. Here are the policies that lead to the node. Both change
// sides when another node takes over.
func TestZonesShareEgressIPs(t *testing.T) {
	w, east := divided(t, (*world).joinShared)
	w.mayCarry(true, "n2")
	e := w.egressIP("team", "192.0.2.100")
	w.carried(e, "192.0.2.100 n2")
	p := outgoing("p", "n1")
	q := outgoing("q", "n2")
	w.run(p, q)
	for _, at := range []struct {
		w *world
		p *corev1.Pod
	}{{w, p}, {east, q}} {
		at.w.phase(at.p, corev1.PodRunning, at.w.addresses(at.w.port(at.p))...)
	}
	ips := []string{p.Status.PodIP, q.Status.PodIP}
	join, transit := map[string]string{}, map[string]string{}
	for _, node := range []string{"n1", "n2"} {
		spec := w.nodeNetwork(node).Spec
		join[node], _, _ = strings.Cut(string(spec.JoinAddresses[0]), "/")
		transit[node] = string(spec.TransitAddresses[0])
	}
	sidesAre := func(carries, leads *world, node string) {
		t.Helper()
		carries.awaitRows(func() []string { return carries.egressRows("team") },
			"ovn_cluster_router 100 reroute "+join[node], "GR_"+node+" 192.0.2.100")
		leads.awaitRows(func() []string { return leads.egressRows("team") }, "ovn_cluster_router 100 reroute 100.89.0.2",
			"ovn_cluster_router 101 drop", "transit_router 100 reroute "+transit[node])
		for _, w := range []*world{w, east} {
			w.awaitRows(func() []string { return w.inEgress("team") }, ips...)
		}
	}
	sidesAre(east, w, "n2")
	w.mayCarry(true, "n1")
	w.mayCarry(false, "n2")
	w.carried(e, "192.0.2.100 n1")
	sidesAre(w, east, "n1")
	w.mayCarry(true, "n2")
	w.mayCarry(false, "n1")
	w.carried(e, "192.0.2.100 n2")
	sidesAre(east, w, "n2")
	if writes := east.operators[0].writes("egressips"); len(writes) > 0 {
		t.Errorf("the zone's operator writes %q", writes)
	}

	// The node returns to the default zone with the address.
	w.relabel("n2", "")
	w.inZoneOf("n2", "")
	w.awaitRows(func() []string { return w.egressRows("team") }, "ovn_cluster_router 100 reroute "+join["n2"], "GR_n2 192.0.2.100")
	east.awaitRows(func() []string { return east.egressRows("team") }, "ovn_cluster_router 100 reroute 100.89.0.2",
		"ovn_cluster_router 101 drop", "transit_router 100 reroute "+transit["n2"])
	w.must(api.Delete(t.Context(), e))
	for _, w := range []*world{w, east} {
		w.awaitRows(func() []string { return w.egressRows("team") })
	}
}

// Each zone balances a service to all its endpoints, and has the variables of its own nodes alone.
func TestZonesShareServices(t *testing.T) {
	w, east := divided(t, (*world).joinShared)
	_, a := w.running("n1", "a", "web")
	b, at := east.running("n2", "b", "web")
	s := w.service("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
	w.endpoints("web-1", "web", a.String(), at.String())
	both := []string{a.String() + ":8080", at.String() + ":8080"}
	slices.Sort(both)
	backends := strings.Join(both, ",")
	for _, w := range []*world{w, east} {
		w.until(func() error {
			lbs := ovndb.List(w.rows, func(lb *nbdb.LoadBalancer) bool { return lb.Vips[s.Spec.ClusterIP+":80"] != "" })
			if len(lbs) != 1 || lbs[0].Vips[s.Spec.ClusterIP+":80"] != backends {
				return fmt.Errorf("zone %q has %d load balancers without the backends %s", w.inZone, len(lbs), backends)
			}
			return nil
		})
	}
	variables := func(w *world) func() []string {
		return func() (found []string) {
			for _, row := range w.selectRows()["Chassis_Template_Var"] {
				found = append(found, row["chassis"]...)
			}
			return found
		}
	}
	w.awaitRows(variables(w), "chassis-n1")
	east.awaitRows(variables(east), "chassis-n2")
	w.relabel("n2", "")
	w.port(b)
	w.awaitRows(variables(w), "chassis-n1", "chassis-n2")
	east.awaitRows(variables(east))
	if writes := east.operators[0].writes("services"); len(writes) > 0 {
		t.Errorf("the zone's operator writes %q", writes)
	}
}

// A node that is deleted in its zone leaves nothing in either database, and its pods neither.
func TestANodeOfAZoneIsDeleted(t *testing.T) {
	w, east := divided(t, (*world).join)
	w.running("n1", "a", "web")
	b, address := east.running("n2", "b", "client")
	w.must(api.Create(t.Context(), policyObject("p", "web", "client")))
	w.hasInSet(address.String(), true)
	east.hasInSet(address.String(), true)
	w.delete(w.node("n2"))
	w.until(func() error { return isGone(&networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}) })
	east.hasSwitch("n2", false)
	w.transitPort("n2", "")
	east.transitPort("n2", "")
	w.delete(b)
	east.noPort(b)
	w.hasInSet(address.String(), false)
	east.hasInSet(address.String(), false)
	for _, w := range []*world{w, east} {
		w.until(func() error {
			for _, owner := range []string{"node/n2", "gateway/n2", "transitnode/n2", "pod/default/b"} {
				if left := w.selectRows().owned(owner); len(left) > 0 {
					return fmt.Errorf("zone %q still has %q of %s", w.inZone, left, owner)
				}
			}
			return nil
		})
	}
	// A node of the same name starts in the default zone, because it has no label.
	w.join("n2")
	w.hasSwitch("n2", true)
	w.inZoneOf("n2", "")
	w.port(w.create("n2", "c")[0])
}

// An operator that starts again, in whichever zone, writes nothing.
func TestARestartInAZoneWritesNothing(t *testing.T) {
	w, east := divided(t, (*world).joinShared)
	w.mayCarry(true, "n2")
	w.carried(w.egressIP("team", "192.0.2.100"), "192.0.2.100 n2")
	p := outgoing("p", "n1")
	w.run(p)
	w.phase(p, corev1.PodRunning, w.addresses(w.port(p))...)
	_, a := w.running("n1", "a", "web")
	_, b := east.running("n2", "b", "client")
	w.must(api.Create(t.Context(), policyObject("p", "web", "client")))
	w.service("web")
	w.endpoints("web-1", "web", a.String(), b.String())
	w.hasInSet(b.String(), true)
	east.isolates("p", 3)
	w.awaitRows(func() []string { return w.inEgress("team") }, p.Status.PodIP)
	east.awaitRows(func() []string { return east.inEgress("team") }, p.Status.PodIP)
	w.counted(3) // of the whole cluster
	w.ready("n1", "n2")
	for _, w := range []*world{w, east} {
		o := w.operators[0]
		o.settle()
		before := w.selectRows()
		o.stop()
		log := w.nb.Transactions()
		o = w.start()
		w.until(func() error {
			for _, key := range []unit.Key{"network/default", "transit/default", "transitnode/n1", "transitnode/n2", "node/n1", "node/n2",
				"pod/default/p", "pod/default/a", "pod/default/b", "service/default/web", "egressip/team", "networkpolicy/default/p"} {
				if !o.engine.Connected() || !o.engine.Wanted(key) {
					return fmt.Errorf("zone %q: unit %s was not compared", w.inZone, key)
				}
			}
			return nil
		})
		o.settle()
		if d := differences(before, w.selectRows()); len(d) > 0 || o.transactions() > 0 {
			t.Errorf("zone %q: a restart took %d transactions: %s", w.inZone, o.transactions(), strings.Join(d, "\n"))
		}
		if n := w.nb.Transactions() - log; n != 1 {
			t.Errorf("zone %q: the database's log grew by %d, want the fence's 1", w.inZone, n)
		}
		if writes := o.writes(""); len(writes) > 0 {
			t.Errorf("zone %q: API writes %q", w.inZone, writes)
		}
	}
}

// A pod in a zone that requests what only the default zone has gets no port, and an event that says why. It gets its port when its
// node returns.
func TestRequestsThatAZoneDoesNotFulfil(t *testing.T) {
	w, east := divided(t, (*world).join)
	w.pool("floating", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.9")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/24")})
	floating := w.inPool("floats", "n2", "floating", networkv1alpha1.ReleaseWithPod, nil)
	further := w.requesting("further", "n2", "blue")
	later := w.create("n2", "later")[0]
	east.port(later)
	w.says(w.event("floats", "FailedAddressAllocation"), "floating addresses", "zone east", networkv1alpha1.IPPoolAnnotation)
	w.says(w.event("further", "FailedAddressAllocation"), "secondary networks", "zone east")
	w.says(w.event("further", "FailedNetworkAllocation"), "secondary networks", "zone east")
	for _, w := range []*world{w, east} {
		for _, p := range []*corev1.Pod{floating, further} {
			w.noPort(p)
		}
		w.operators[0].settle()
		if ports := ovndb.List(w.rows, func(p *nbdb.LogicalSwitchPort) bool { return strings.HasPrefix(p.Name, "blue_") }); len(ports) > 0 {
			t.Errorf("zone %q has %d ports on a Network", w.inZone, len(ports))
		}
	}
	w.holders(map[string]string{})

	// A request that a running pod gets changes nothing of it.
	before := east.port(later)
	w.edit(later, func() { metav1.SetMetaDataAnnotation(&later.ObjectMeta, networks.Annotation, "blue") })
	w.says(w.event("later", "FailedNetworkAllocation"), "secondary networks", "zone east")
	if now := east.port(later); !slices.Equal(now.Addresses, before.Addresses) {
		t.Errorf("the running pod had %v and has %v", before.Addresses, now.Addresses)
	}

	w.relabel("n2", "")
	w.port(floating)
	w.port(further)
	w.awaitRows(func() []string { return slices.Collect(maps.Keys(w.networkPorts())) },
		"blue_default_further_net1", "blue_default_later_net1")
	w.holders(map[string]string{"10.244.200.1": "floats"})
}

// A node stays in its zone while the spec has the zone, whatever the zone's state is. It returns when the spec has no such zone.
func TestAZoneLeavesTheSpec(t *testing.T) {
	w, east := divided(t, (*world).join)
	b, _ := east.running("n2", "b", "client")
	port := east.port(b)
	stays := func() {
		t.Helper()
		w.port(w.create("n1", fmt.Sprintf("p%d", len(w.podPorts())))[0]) // the operator has processed what came before
		w.operators[0].settle()
		w.inZoneOf("n2", "east", "192.0.2.9")
		east.port(b)
	}
	w.zoneStates()
	stays()
	w.zoneReady("east", false)
	stays()
	w.zones("west", "east")
	stays()
	w.zones("west")
	w.inZoneOf("n2", "")
	if back := w.port(b); !slices.Equal(back.Addresses, port.Addresses) {
		t.Errorf("the pod had %v and has %v", port.Addresses, back.Addresses)
	}
	east.noPort(b)
	east.hasSwitch("n2", false)
	w.transitPort("n2", "router")
	w.relabel("n2", "west") // which has no state
	w.port(w.create("n2", "c")[0])
	w.inZoneOf("n2", "")
}

// A policy that is created after the pods has the addresses of pods elsewhere in its sets, and loses them with the pods.
func TestALatePolicyHasPodsElsewhere(t *testing.T) {
	w, east := divided(t, (*world).join)
	w.running("n1", "a", "web")
	_, near := w.running("n1", "near", "client")
	east.running("n2", "b", "web")
	far, at := east.running("n2", "far", "client")
	w.operators[0].settle()
	east.operators[0].settle()
	w.must(api.Create(t.Context(), policyObject("p", "web", "client")))
	for _, w := range []*world{w, east} {
		w.isolates("p", 3)
		w.hasInSet(near.String(), true)
		w.hasInSet(at.String(), true)
	}
	// The port group of the subjects has the ports of the zone's own pods.
	for _, w := range []*world{w, east} {
		w.until(func() error {
			for _, group := range w.selectRows()["Port_Group"] {
				if strings.Contains(strings.Join(group["external_ids"], " "), "podgroup/") && len(group["ports"]) != 1 {
					return fmt.Errorf("zone %q has the ports %q in the group of the subjects, want one", w.inZone, group["ports"])
				}
			}
			return nil
		})
	}
	w.phase(far, corev1.PodSucceeded, at)
	for _, w := range []*world{w, east} {
		w.hasInSet(at.String(), false)
		w.hasInSet(near.String(), true)
	}
	w.must(api.Delete(t.Context(), policyObject("p", "web", "client")))
	w.noGroups()
	east.noGroups()
}
