package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

func clusterNetwork() *networkv1alpha1.ClusterNetwork {
	return &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
}

// zones changes the zones of the ClusterNetwork: each selects nodes with the label zone of its name.
func (w *world) zones(names ...string) {
	w.Helper()
	var zones []networkv1alpha1.Zone
	for _, name := range names {
		zones = append(zones, networkv1alpha1.Zone{Name: networkv1alpha1.ZoneName(name), NodeSelector: map[string]string{"zone": name}})
	}
	w.change(clusterNetwork(), func(s *networkv1alpha1.ClusterNetworkSpec) { s.Zones = zones })
}

// zoneReady writes a zone's state to the ClusterNetwork's status, as weft-operands does.
func (w *world) zoneReady(name networkv1alpha1.ZoneName, ready bool) {
	w.Helper()
	w.zoneStates(networkv1alpha1.ZoneStatus{Name: name, Node: "n2", Addresses: []networkv1alpha1.IP{"192.0.2.9"}, Ready: ready})
}

// zoneStates writes the states of all zones.
func (w *world) zoneStates(states ...networkv1alpha1.ZoneStatus) {
	w.Helper()
	w.until(func() error {
		cn := clusterNetwork()
		w.must(api.Get(w.Context(), keyOf(cn), cn))
		before := cn.DeepCopy()
		cn.Status.Zones = states
		return api.Status().Patch(w.Context(), cn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// relabel sets the label zone of a node; empty removes it.
func (w *world) relabel(node, zone string) {
	w.Helper()
	n := w.node(node)
	patch := client.MergeFrom(n.DeepCopy())
	delete(n.Labels, "zone")
	if zone != "" {
		metav1.SetMetaDataLabel(&n.ObjectMeta, "zone", zone)
	}
	w.must(api.Patch(w.Context(), n, patch))
}

// inZoneOf waits until a node is in a zone.
func (w *world) inZoneOf(node, zone string, databases ...networkv1alpha1.IP) {
	w.Helper()
	w.until(func() error {
		nn := w.nodeNetwork(node)
		if string(nn.Spec.Zone) != zone || !slices.Equal(nn.Spec.Databases, databases) {
			return fmt.Errorf("node %s is in zone %q with databases %v", node, nn.Spec.Zone, nn.Spec.Databases)
		}
		return nil
	})
}

// hasSwitch waits until the database has a node's switch, or lacks it.
func (w *world) hasSwitch(node string, want bool) {
	w.Helper()
	w.until(func() error {
		if has := len(ovndb.List(w.rows, func(s *nbdb.LogicalSwitch) bool { return s.Name == node })) > 0; has != want {
			return fmt.Errorf("zone %q has the switch of %s: %t", w.inZone, node, has)
		}
		return nil
	})
}

// transitPort waits until the port of a node on the transit switch has a type; "" means that it is absent.
func (w *world) transitPort(node, kind string) {
	w.Helper()
	w.until(func() error {
		port, has := ovndb.Find(w.rows, &nbdb.LogicalSwitchPort{Name: "tstor-" + node})
		switch {
		case !has && kind == "":
			return nil
		case !has:
			return errAbsent
		case port.Type != kind:
			return fmt.Errorf("port %s has type %s, want %q", port.Name, port.Type, kind)
		case kind == "remote" && (port.Options["requested-chassis"] != "chassis-"+node || port.ExternalIDs["weft.dev/hostname"] != node):
			return fmt.Errorf("port %s has options %v and external_ids %v", port.Name, port.Options, port.ExternalIDs)
		}
		return nil
	})
}

// hasInSet waits until a set of the policies has an address, or lacks it.
func (w *world) hasInSet(address string, want bool) {
	w.Helper()
	w.until(func() error {
		has := false
		for _, row := range w.selectRows()[nbdb.AddressSetTable] {
			has = has || strings.Contains(row["external_ids"][0], "podset/") && slices.Contains(row["addresses"], address)
		}
		if has != want {
			return fmt.Errorf("zone %q has %s in a set: %t", w.inZone, address, has)
		}
		return nil
	})
}

// A node enters a zone when the zone is ready, with its pods and their addresses, and returns. Each operator has the rows
// of its own nodes, the ports by which nodes elsewhere are reached, and the addresses of pods elsewhere in the sets of
// policies.
func TestZones(t *testing.T) {
	w := newWorld(t)
	east := w.zone("east")
	w.start()
	east.start()
	w.network(dualStack()...)
	w.join("n1", "n2")
	a, b := w.podLabelled("n1", "a", "web"), w.podLabelled("n2", "b", "client")
	port := w.port(b)
	addresses := w.addresses(port)
	w.phase(a, corev1.PodRunning, w.addresses(w.port(a))...)
	w.phase(b, corev1.PodRunning, addresses...)
	w.must(api.Create(t.Context(), policyObject("p", "web", "client")))
	w.isolates("p", 3)
	before := w.selectRows()

	w.zones("east")
	w.relabel("n2", "east")
	w.transitPort("n2", "router")
	east.hasSwitch("n2", false)
	w.inZoneOf("n2", "")

	w.zoneReady("east", true)
	w.inZoneOf("n2", "east", "192.0.2.9")
	east.hasSwitch("n2", true)
	w.hasSwitch("n2", false)
	w.transitPort("n2", "remote")
	w.transitPort("n1", "router")
	east.transitPort("n2", "router")
	east.transitPort("n1", "remote")
	if moved := east.port(b); !slices.Equal(moved.Addresses, port.Addresses) {
		t.Errorf("the pod had %v, and has %v in its node's zone", port.Addresses, moved.Addresses)
	}
	w.noPort(b)
	w.hasInSet(addresses[0].String(), true)
	east.isolates("p", 3)
	east.hasInSet(addresses[0].String(), true)

	// A new pod gets an address from its zone's operator. The other zone's policies know it when its status has it.
	c := east.podLabelled("n2", "c", "client")
	more := east.addresses(east.port(c))
	w.phase(c, corev1.PodRunning, more...)
	w.hasInSet(more[0].String(), true)
	w.delete(c)
	east.noPort(c)
	w.hasInSet(more[0].String(), false)

	// The loss of a zone keeps its nodes in it.
	w.zoneReady("east", false)
	w.status(func(s networkv1alpha1.ClusterNetworkStatus) error {
		for _, p := range s.Problems {
			if p.Reason == networkv1alpha1.ReasonZoneUnavailable && strings.Contains(p.Message, "n2") {
				return nil
			}
		}
		return fmt.Errorf("problems: %v", s.Problems)
	})
	w.inZoneOf("n2", "east", "192.0.2.9")
	w.zoneReady("east", true)

	w.relabel("n2", "")
	w.inZoneOf("n2", "")
	if back := w.port(b); !slices.Equal(back.Addresses, port.Addresses) {
		t.Errorf("the pod had %v, and has %v when its node is back", port.Addresses, back.Addresses)
	}
	east.noPort(b)
	east.hasSwitch("n2", false)
	w.zones()
	w.transitPort("n1", "")
	w.until(func() error {
		if d := differences(before, w.selectRows()); len(d) > 0 {
			return errors.New(strings.Join(d, "\n"))
		}
		return nil
	})
}
