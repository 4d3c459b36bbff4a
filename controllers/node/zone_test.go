package node

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// inEast puts n1 into zone east, with room for four pods.
func inEast(nn *networkv1alpha1.NodeNetwork) {
	nn.Generation, nn.Spec.Zone, nn.Spec.PodSubnets = 3, "east", []networkv1alpha1.CIDR{"10.244.0.0/29"}
	nn.Spec.ManagementPort.MACAddress = "0a:58:0a:f4:00:02"
}

// threeEntries is a network with further entries for full nodes, and zone east.
func threeEntries() *networkv1alpha1.ClusterNetwork {
	cn := aNetwork("10.244.0.0/24 29", "10.245.0.0/24 29", "10.246.0.0/24 29")
	cn.Spec.Zones = []networkv1alpha1.Zone{{Name: "east", NodeSelector: map[string]string{"zone": "east"}}}
	cn.Status.Zones = []networkv1alpha1.ZoneStatus{{Name: "east", Node: "n1", Addresses: []networkv1alpha1.IP{"192.0.2.9"}, Ready: true}}
	return cn
}

func labelled(node *corev1.Node) { node.Labels = map[string]string{"zone": "east"} }

func subnetsOf(t *testing.T, nn *networkv1alpha1.NodeNetwork) (found []netip.Prefix) {
	t.Helper()
	for _, cidr := range nn.Spec.PodSubnets {
		subnet, err := cidr.Prefix()
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, subnet)
	}
	return found
}

// fill makes pods take all four addresses of n1, and one more find none.
func fill(t *testing.T, b *kindtest.Bed) {
	t.Helper()
	for _, owner := range []alloc.Owner{"a", "b", "c", "d", "late"} {
		if _, err := b.Env.Addresses.Allocate("n1", owner, alloc.Request{}); (err != nil) != (owner == "late") {
			t.Fatalf("%s: %v", owner, err)
		}
	}
}

// A node elsewhere gets a subnet for the request in its NodeNetwork. What this operator's allocator lacks does not count, because it gives
// no address there. A request about an earlier spec gives no second subnet.
func TestARequestOfAZoneGivesASubnet(t *testing.T) {
	for name, c := range map[string]struct {
		observed int64 // of the request; 0 means no request
		want     []networkv1alpha1.CIDR
	}{
		"requested":                       {3, []networkv1alpha1.CIDR{"10.244.0.0/29", "10.245.0.0/29"}},
		"requested about an earlier spec": {2, []networkv1alpha1.CIDR{"10.244.0.0/29"}},
		"not requested":                   {0, []networkv1alpha1.CIDR{"10.244.0.0/29"}},
	} {
		nn := aNodeNetwork(inEast)
		if c.observed > 0 {
			request := facts.SubnetsFull(nn, []bool{true})
			request.ObservedGeneration = c.observed
			nn.Status.Conditions = []metav1.Condition{request}
		}
		b := kindtest.New(t, Kinds, topology.KindNode, nil, threeEntries(), aNode(labelled), nn)
		b.Env.Addresses.SetNode("n1", subnetsOf(t, nn), nil)
		fill(t, b)
		if have := b.Reconcile("", "n1"); have.Err != "" {
			t.Fatalf("%s: %s", name, have.Err)
		}
		if have := kindtest.Get(b, nn).Spec; !slices.Equal(have.PodSubnets, c.want) || have.Zone != "east" {
			t.Errorf("%s: n1 has %v in zone %q, want %v", name, have.PodSubnets, have.Zone, c.want)
		}
	}
}

// A zone's operator requests subnets while pods lack an address. The deciding operator removes the request when the node has left the
// zone.
func TestTheConditionOfAFullNode(t *testing.T) {
	for name, c := range map[string]struct {
		zone     kind.Zone
		complete bool // the allocator has all addresses
		full     bool // the allocator's last request found no address
		lacking  bool // a pod lacks an address
		had      bool // the condition is there before
		want     bool
	}{
		"full":                           {"east", true, true, true, false, true},
		"still full":                     {"east", true, true, true, true, true},
		"an address is free":             {"east", true, false, true, true, true},
		"no pod waits any more":          {"east", true, true, false, true, false},
		"a new process":                  {"east", false, false, false, true, true},
		"a new process, and no request":  {"east", false, false, false, false, false},
		"the node came back":             {"", true, true, true, true, false},
		"a full node without a zone":     {"", true, true, true, false, false},
		"an address is free, no request": {"east", true, false, true, false, false},
	} {
		nn := aNodeNetwork(inEast)
		nn.Spec.Zone = networkv1alpha1.ZoneName(c.zone)
		if c.had {
			nn.Status.Conditions = []metav1.Condition{facts.SubnetsFull(nn, []bool{true})}
			nn.Status.Conditions[0].LastTransitionTime = metav1.Now()
		}
		b := kindtest.New(t, Kinds, topology.KindNode, func(env *kind.Env) {
			env.Zone, env.PodsLackAddress = c.zone, func(string) bool { return c.lacking }
		}, aNetwork("10.244.0.0/24 29"), aNode(), nn)
		b.Env.Addresses.SetNode("n1", subnetsOf(t, nn), nil)
		if c.full {
			fill(t, b)
		}
		if c.complete {
			b.Env.Addresses.Complete()
		}
		if have := b.Reconcile("", "n1"); have.Err != "" {
			t.Fatalf("%s: %s", name, have.Err)
		}
		have := kindtest.Get(b, nn).Status.Conditions
		if got := meta.FindStatusCondition(have, networkv1alpha1.ConditionSubnetsFull); (got != nil) != c.want {
			t.Errorf("%s: the condition is %+v, want one: %t", name, got, c.want)
		}
	}
}

// A zone's operator reports again after a write of the agent that it has not read yet.
func TestAConflictInAZoneIsRetried(t *testing.T) {
	b := kindtest.New(t, Kinds, topology.KindNode, func(env *kind.Env) {
		env.Zone, env.PodsLackAddress = "east", func(string) bool { return false }
	}, threeEntries(), aNode(labelled), aNodeNetwork(inEast))
	b.Before = func(string) error {
		return apierrors.NewConflict(schema.GroupResource{}, "n1", errors.New("it has changed"))
	}
	if have := b.Reconcile("", "n1"); have.Err != "" || have.Result != (ctrl.Result{RequeueAfter: trigger.FirstRetry}) {
		t.Errorf("result %+v, error %q; want a retry after %s", have.Result, have.Err, trigger.FirstRetry)
	}
}

// A node uses the relays of its zone. While the zone it stays in has no state, it keeps the relays that it has.
func TestANodeUsesTheRelaysOfItsZone(t *testing.T) {
	east := map[string]string{"zone": "east"}
	relay := func(address networkv1alpha1.IP) []networkv1alpha1.RelayStatus {
		return []networkv1alpha1.RelayStatus{{Node: "of " + string(address), Address: address, State: networkv1alpha1.RelayReady}}
	}
	for name, c := range map[string]struct {
		labels map[string]string
		change func(*networkv1alpha1.ClusterNetwork)
		want   []networkv1alpha1.IP
	}{
		"in a zone":              {east, func(*networkv1alpha1.ClusterNetwork) {}, []networkv1alpha1.IP{"192.0.2.21"}},
		"it leaves the zone":     {nil, func(*networkv1alpha1.ClusterNetwork) {}, []networkv1alpha1.IP{"192.0.2.20"}},
		"a zone without a state": {east, func(cn *networkv1alpha1.ClusterNetwork) { cn.Status.Zones = nil }, []networkv1alpha1.IP{"192.0.2.29"}},
		"a zone without relays":  {east, func(cn *networkv1alpha1.ClusterNetwork) { cn.Status.Zones[0].Relays = nil }, nil},
	} {
		cn := threeEntries()
		cn.Status.Relays, cn.Status.Zones[0].Relays = relay("192.0.2.20"), relay("192.0.2.21")
		c.change(cn)
		nn := aNodeNetwork(inEast)
		nn.Spec.Relays = []networkv1alpha1.IP{"192.0.2.29"}
		b := kindtest.New(t, Kinds, topology.KindNode, nil, cn, aNode(func(n *corev1.Node) { n.Labels = c.labels }), nn)
		b.Env.Addresses.SetNode("n1", subnetsOf(t, nn), nil)
		if have := b.Reconcile("", "n1"); have.Err != "" {
			t.Fatalf("%s: %s", name, have.Err)
		}
		if have := kindtest.Get(b, nn).Spec.Relays; !slices.Equal(have, c.want) {
			t.Errorf("%s: n1 has relays %v, want %v", name, have, c.want)
		}
	}
}

// Nodes are enqueued when a relay of a zone comes into use, and not when it starts.
func TestRelaysOfAZoneEnqueueNodes(t *testing.T) {
	before := threeEntries()
	before.Status.Zones[0].Relays = []networkv1alpha1.RelayStatus{{Node: "n2", Address: "192.0.2.21", State: networkv1alpha1.RelayStarting}}
	for state, want := range map[networkv1alpha1.RelayState]bool{networkv1alpha1.RelayStarting: false, networkv1alpha1.RelayReady: true} {
		after := before.DeepCopy()
		after.Status.Zones[0].Relays[0].State, after.Status.Zones[0].Relays[0].Message = state, "another message"
		if have := planChanged(before, after); have != want {
			t.Errorf("a relay that becomes %s enqueues nodes: %t, want %t", state, have, want)
		}
	}
}
