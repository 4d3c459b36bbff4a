package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var n1 = topology.NodeKey("n1")

// aNetwork returns a ClusterNetwork with these networks of pods, "<CIDR> <host prefix>", all in force.
func aNetwork(clusters ...string) *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	for _, text := range clusters {
		var entry networkv1alpha1.ClusterNetworkEntry
		fmt.Sscan(text, &entry.CIDR, &entry.HostPrefix)
		cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, entry)
		inForce(cn, entry.CIDR)
	}
	cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16"}
	cn.Spec.JoinSubnet = []networkv1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"}
	inForce(cn, "10.96.0.0/16")
	for _, join := range cn.Spec.JoinSubnet {
		ofFamily := func(cluster string) bool {
			return strings.Contains(cluster, "::") == strings.Contains(string(join), "::")
		}
		if slices.ContainsFunc(clusters, ofFamily) {
			inForce(cn, join)
		}
	}
	cn.Status.MTU = 1400
	return cn
}

func inForce(cn *networkv1alpha1.ClusterNetwork, networks ...networkv1alpha1.CIDR) {
	for _, network := range networks {
		state := networkv1alpha1.NetworkStatus{CIDR: network, State: networkv1alpha1.NetworkInForce}
		cn.Status.Networks = append(cn.Status.Networks, state)
	}
}

// aNode is the node n1.
func aNode(change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}
	for _, c := range change {
		c(node)
	}
	return node
}

// aNodeNetwork returns the NodeNetwork of n1 with an IPv4 subnet and a reported chassis.
func aNodeNetwork(change ...func(*networkv1alpha1.NodeNetwork)) *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-nn1"}}
	nn.OwnerReferences = []metav1.OwnerReference{ownerOf(aNode())}
	nn.Spec.NodeID, nn.Spec.PodSubnets = 1, []networkv1alpha1.CIDR{"10.244.0.0/24"}
	nn.Status.Chassis = "chassis-n1"
	for _, c := range change {
		c(nn)
	}
	return nn
}

// another is the NodeNetwork of the node n0.
func another(id int32, subnet networkv1alpha1.CIDR) *networkv1alpha1.NodeNetwork {
	return &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n0"},
		Spec: networkv1alpha1.NodeNetworkSpec{NodeID: id, PodSubnets: []networkv1alpha1.CIDR{subnet}}}
}

// nodeFacts returns the facts of n1 with these subnets.
func nodeFacts(id int, chassis, mac string, subnets ...string) facts.Node {
	n := facts.Node{Name: "n1", ID: id, Chassis: chassis}
	n.ManagementMAC, _ = net.ParseMAC(mac)
	for _, subnet := range subnets {
		n.Subnets = append(n.Subnets, netip.MustParsePrefix(subnet))
	}
	return n
}

// condition returns the Node's condition NetworkUnavailable as text.
func condition(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// assignment returns the assigned values of a NodeNetwork as text.
func assignment(spec networkv1alpha1.NodeNetworkSpec) string {
	return fmt.Sprintf("%d %v gateways %v management %s %v join %v MTU %d", spec.NodeID, spec.PodSubnets, spec.Gateways,
		spec.ManagementPort.MACAddress, spec.ManagementPort.Addresses, spec.JoinAddresses, spec.MTU)
}

const notReported = "True WeftNotReady: weft-agent has not reported yet"

func TestReconcile(t *testing.T) {
	const (
		v4 = "0a:58:0a:f4:00:02"
		v6 = "0a:58:8e:46:64:f6"
	)
	const (
		only4 = "1 [10.244.0.0/24] gateways [10.244.0.1] management 0a:58:0a:f4:00:02 [10.244.0.2/24] " +
			"join [100.64.0.2/16] MTU 1400"
		only6 = "1 [fd01::/64] gateways [fd01::1] management 0a:58:8e:46:64:f6 [fd01::2/64] join [fd98::2/64] MTU 1400"
		dual  = "1 [10.244.0.0/24 fd01::/64] gateways [10.244.0.1 fd01::1] management 0a:58:0a:f4:00:02 " +
			"[10.244.0.2/24 fd01::2/64] join [100.64.0.2/16 fd98::2/64] MTU 1400"
		second4 = "2 [10.244.1.0/24] gateways [10.244.1.1] management 0a:58:0a:f4:01:02 [10.244.1.2/24] " +
			"join [100.64.0.3/16] MTU 1400"

		overlap   = "clusterNetwork 10.244.0.0/16 contains 10.244.3.4, an address of node n1: the node gets no network"
		exhausted = "node n1: no subnet of length /24 is left in 10.244.0.0/24: exhausted"
	)
	created := []string{"create NodeNetwork n1", "patch status NodeNetwork n1", "patch status Node n1"}
	for name, c := range map[string]struct {
		objects []client.Object
		fails   error // of the database
		// facts, if set, are the facts of the node's unit. assignment is the NodeNetwork's afterwards, or empty if
		// none exists.
		facts      *facts.Node
		assignment string
		condition  string
		want       kindtest.Outcome // without Units if facts are set
	}{
		"IPv4": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode()},
			facts:   new(nodeFacts(1, "", v4, "10.244.0.0/24")), assignment: only4, condition: notReported,
			want: kindtest.Outcome{Writes: created},
		},
		"IPv6": {
			objects: []client.Object{aNetwork("fd01::/48 64"), aNode()},
			facts:   new(nodeFacts(1, "", v6, "fd01::/64")), assignment: only6, condition: notReported,
			want: kindtest.Outcome{Writes: created},
		},
		"dual stack": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24", "fd01::/48 64"), aNode()},
			facts:   new(nodeFacts(1, "", v4, "10.244.0.0/24", "fd01::/64")), assignment: dual, condition: notReported,
			want: kindtest.Outcome{Writes: created},
		},
		"a node that comes after another": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode(),
				another(1, "10.244.0.0/24")},
			facts:      new(nodeFacts(2, "", "0a:58:0a:f4:01:02", "10.244.1.0/24")),
			assignment: second4, condition: notReported, want: kindtest.Outcome{Writes: created},
		},
		"the agent has reported": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode(func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: networkv1alpha1.AgentNotReadyTaint}, {Key: "other"}}
			}), aNodeNetwork(func(nn *networkv1alpha1.NodeNetwork) {
				nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			})},
			facts: new(nodeFacts(1, "chassis-n1", v4, "10.244.0.0/24")), assignment: only4,
			condition: "False WeftReady: the pod network is ready",
			want: kindtest.Outcome{Writes: []string{
				"patch NodeNetwork n1", "patch status NodeNetwork n1", "patch Node n1", "patch status Node n1"}},
		},
		"the agent reports trouble": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode(), aNodeNetwork(func(nn *networkv1alpha1.NodeNetwork) {
				nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
					Message: "Open vSwitch does not answer"}}
			})},
			facts: new(nodeFacts(1, "chassis-n1", v4, "10.244.0.0/24")), assignment: only4,
			condition: "True WeftNotReady: Open vSwitch does not answer",
			want: kindtest.Outcome{Writes: []string{
				"patch NodeNetwork n1", "patch status NodeNetwork n1", "patch status Node n1"}},
		},
		"there is no ClusterNetwork": {
			objects: []client.Object{aNode()}, condition: `True WeftNotReady: there is no ClusterNetwork "default"`,
			want: kindtest.Outcome{Writes: []string{"patch status Node n1"}},
		},
		"the networks are held": {
			objects: []client.Object{aNode(), func() client.Object {
				cn := aNetwork("10.244.0.0/16 24")
				cn.Status.Networks[0] = networkv1alpha1.NetworkStatus{CIDR: "10.244.0.0/16", State: networkv1alpha1.NetworkHeld,
					Message: "clusterNetwork 10.244.0.0/16 contains 10.244.3.4"}
				return cn
			}()},
			condition: "True WeftNotReady: the networks of the ClusterNetwork are not in force: " +
				"clusterNetwork 10.244.0.0/16 contains 10.244.3.4",
			want: kindtest.Outcome{Writes: []string{"patch status Node n1"}},
		},
		"the networks are not judged yet": {
			objects: []client.Object{aNode(), func() client.Object {
				cn := aNetwork("10.244.0.0/16 24")
				cn.Status.Networks = nil
				return cn
			}()},
			want: kindtest.Outcome{Enqueued: []string{"network default"}},
		},
		"the networks of an edit are not judged yet": {
			objects: []client.Object{aNode(), func() client.Object {
				cn := aNetwork("10.244.0.0/16 24")
				inForce(cn, "fd00:10:244::/48") // was removed from the spec
				return cn
			}()},
			want: kindtest.Outcome{Enqueued: []string{"network default"}},
		},
		"a ClusterNetwork that cannot be read": { // its own condition names the field
			objects: []client.Object{aNode(), aNetwork("bad 24")},
		},
		"a gateway that cannot be read": {
			objects: []client.Object{aNode(), func() client.Object {
				cn := aNetwork("10.244.0.0/16 24")
				bad := []metav1.LabelSelectorRequirement{{Key: "a", Operator: "bad"}}
				cn.Spec.Gateway.Overrides = []networkv1alpha1.GatewayOverride{
					{NodeSelector: metav1.LabelSelector{MatchExpressions: bad}}}
				return cn
			}()},
			want: kindtest.Outcome{Events: []string{"Warning InvalidGateway ClusterNetwork default: " +
				`spec.gateway.overrides[0].nodeSelector: "bad" is not a valid label selector operator`}},
		},
		"a node in a network of pods": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode(func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.244.3.4"}}
			})},
			condition: "True WeftNotReady: " + overlap,
			want: kindtest.Outcome{Units: map[unit.Key][]string{n1: nil}, Enqueued: []string{"gateway n1"},
				Events: []string{"Warning NetworkOverlapsNodes Node n1: " + overlap}, Writes: []string{"patch status Node n1"}},
		},
		"no subnet is free": {
			objects: []client.Object{aNetwork("10.244.0.0/24 24"), aNode(),
				another(1, "10.244.0.0/24")},
			condition: "True WeftNotReady: " + exhausted,
			want: kindtest.Outcome{Units: map[unit.Key][]string{n1: nil}, Enqueued: []string{"gateway n1"},
				Events: []string{"Warning FailedSubnetAllocation Node n1: " + exhausted}, Writes: []string{"patch status Node n1"}},
		},
		"the database refuses it": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode()},
			fails:   &ovndb.RejectedError{Unit: n1, Err: errors.New("constraint violation")},
			facts:   new(nodeFacts(1, "", v4, "10.244.0.0/24")), assignment: only4, condition: notReported,
			want: kindtest.Outcome{Writes: created, Err: "unit node/n1: database refuses it: constraint violation"},
		},
		"the database is away": { // the engine applies the unit later
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode()},
			fails:   &ovndb.PendingError{Unit: n1, Reason: "database is not connected"},
			facts:   new(nodeFacts(1, "", v4, "10.244.0.0/24")), assignment: only4, condition: notReported,
			want: kindtest.Outcome{Writes: []string{"create NodeNetwork n1", "patch status Node n1"}},
		},
		"a NodeNetwork of an earlier node of the name": {
			objects: []client.Object{aNetwork("10.244.0.0/16 24"), aNode(), aNodeNetwork(func(nn *networkv1alpha1.NodeNetwork) {
				nn.OwnerReferences[0].UID, nn.Spec.NodeID = "uid-earlier", 1
			})},
			facts: new(nodeFacts(1, "", v4, "10.244.0.0/24")), assignment: only4, condition: notReported,
			want: kindtest.Outcome{Writes: append([]string{"delete NodeNetwork n1"}, created...)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := kindtest.New(t, Kinds, topology.KindNode, nil, c.objects...)
			if c.fails != nil {
				b.Database.Refusals[n1] = c.fails
			}
			if c.facts != nil {
				c.want.Units = map[unit.Key][]string{n1: b.Text(topology.NodeUnit(*c.facts))}
			}
			kindtest.Expect(t, c.want, b.Reconcile("", "n1"))
			if have := condition(kindtest.Get(b, aNode())); have != c.condition {
				t.Errorf("condition %q, want %q", have, c.condition)
			}
			nn := &networkv1alpha1.NodeNetwork{}
			err := b.API.Get(t.Context(), client.ObjectKey{Name: "n1"}, nn)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if name == "the agent has reported" {
				if taints := kindtest.Get(b, aNode()).Spec.Taints; len(taints) != 1 || taints[0].Key != "other" {
					t.Errorf("taints %v, want only the one of others", taints)
				}
			}
			have := ""
			if err == nil {
				have = assignment(nn.Spec)
			}
			if have != c.assignment {
				t.Errorf("assignment %s, want %s", have, c.assignment)
			}
			// A second reconciliation writes nothing. It reports errors again.
			again := kindtest.Outcome{Units: c.want.Units, Events: c.want.Events, Err: c.want.Err, Enqueued: c.want.Enqueued}
			kindtest.Expect(t, again, b.Reconcile("", "n1"))
		})
	}
}

// A deleted node loses its NodeNetwork, its rows and its pods' addresses, and a node that waits for a subnet gets it.
func TestDeletion(t *testing.T) {
	node := aNode()
	waiting := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "uid-n2"}}
	b := kindtest.New(t, Kinds, topology.KindNode, nil, aNetwork("10.244.0.0/24 24"), node, waiting)
	var lost []alloc.Owner
	b.Env.AddressesLost.Subscribe(func(owners []alloc.Owner) { lost = append(lost, owners...) })
	b.Reconcile("", "n1")
	if _, err := b.Env.Addresses.Allocate("n1", "demo/web/uid", alloc.Request{}); err != nil {
		t.Fatal(err)
	}
	have := b.Reconcile("", "n2")
	if len(have.Events) != 1 || !strings.Contains(have.Events[0], "FailedSubnetAllocation Node n2") {
		t.Fatalf("%+v, want an event that n2 has no subnet", have)
	}
	b.Delete(node)
	kindtest.Expect(t, kindtest.Outcome{
		Units: map[unit.Key][]string{n1: nil}, Writes: []string{"delete NodeNetwork n1"}, Enqueued: []string{"node n2"},
	}, b.Reconcile("", "n1"))
	if !slices.Equal(lost, []alloc.Owner{"demo/web/uid"}) {
		t.Errorf("addresses of %q are lost, want those of demo/web", lost)
	}
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{n1: nil}}, b.Reconcile("", "n1"))
}

// A pod keeps its address of a pool that was deleted. The subnet with this address is no node's until the pod gives it back;
// then a node that waits is enqueued.
func TestSubnetWithAnAddressOfADeletedPool(t *testing.T) {
	held := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "10.244.0.9"}, Spec: networkv1alpha1.FloatingIPSpec{
		Address: "10.244.0.9", Pool: "gone", Holder: &networkv1alpha1.FloatingIPHolder{Namespace: "demo", Name: "web", PodUID: "uid-web"}}}
	b := kindtest.New(t, Kinds, topology.KindNode, nil, aNetwork("10.244.0.0/24 24"), aNode(), held)
	if have := b.Reconcile("", "n1"); len(have.Events) != 1 || !strings.Contains(have.Events[0], "FailedSubnetAllocation Node n1") {
		t.Fatalf("%+v, want an event that n1 has no subnet", have)
	}
	b.Delete(held)
	b.Env.Floating.Book.Forget(held)
	b.Env.FloatingFreed.Publish("gone")
	if have := b.Reconcile("", "n1"); len(have.Events) > 0 || !slices.Contains(have.Writes, "create NodeNetwork n1") {
		t.Fatalf("%+v, want a NodeNetwork", have)
	}
}

// A NodeNetwork that the API server does not delete keeps its subnet, since its agent may still use it.
func TestDeletionIsRetried(t *testing.T) {
	node := aNode()
	b := kindtest.New(t, Kinds, topology.KindNode, nil, aNetwork("10.244.0.0/16 24"), node)
	var lost []alloc.Owner
	b.Env.AddressesLost.Subscribe(func(owners []alloc.Owner) { lost = append(lost, owners...) })
	b.Reconcile("", "n1")
	if _, err := b.Env.Addresses.Allocate("n1", "demo/web/uid", alloc.Request{}); err != nil {
		t.Fatal(err)
	}
	b.Delete(node)
	b.Before = func(string) error { return errors.New("the API server is overloaded") }
	kindtest.Expect(t, kindtest.Outcome{Writes: []string{"delete NodeNetwork n1"}, Err: "the API server is overloaded"},
		b.Reconcile("", "n1"))
	if len(lost) != 0 {
		t.Errorf("addresses of %q are lost", lost)
	}
	b.Before = nil
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{n1: nil}, Writes: []string{"delete NodeNetwork n1"}},
		b.Reconcile("", "n1"))
}

// A NodeNetwork that a user deletes or changes is restored with its previous assignment.
func TestNodeNetworkIsRestored(t *testing.T) {
	first := another(1, "10.244.0.0/24")
	b := kindtest.New(t, Kinds, topology.KindNode, nil, aNetwork("10.244.0.0/16 24"), aNode(), first)
	b.Reconcile("", "n1")
	nn := kindtest.Get(b, aNodeNetwork())
	want := assignment(nn.Spec)
	b.Delete(nn)
	b.Delete(first) // its subnet is the first choice now
	b.Reconcile("", "n1")
	nn = kindtest.Get(b, aNodeNetwork())
	if have := assignment(nn.Spec); have != want {
		t.Errorf("a NodeNetwork that was deleted has %s, want %s", have, want)
	}
	nn.Spec.MTU, nn.Spec.Gateways = 9000, nil
	b.Update(nn)
	if have := b.Reconcile("", "n1"); !slices.Equal(have.Writes, []string{"patch NodeNetwork n1"}) {
		t.Errorf("writes %q, want the NodeNetwork", have.Writes)
	}
	if have := assignment(kindtest.Get(b, aNodeNetwork()).Spec); have != want {
		t.Errorf("a NodeNetwork that was changed has %s, want %s", have, want)
	}
}

// A status that the agent has written meanwhile is not an error: the node is reconciled again soon.
func TestConflictIsRetried(t *testing.T) {
	b := kindtest.New(t, Kinds, topology.KindNode, nil, aNetwork("10.244.0.0/16 24"), aNode())
	b.Before = func(write string) error {
		if write == "patch status NodeNetwork n1" {
			return apierrors.NewConflict(schema.GroupResource{}, "n1", errors.New("it has changed"))
		}
		return nil
	}
	have := b.Reconcile("", "n1")
	if have.Err != "" || have.Result != (ctrl.Result{RequeueAfter: trigger.FirstRetry}) {
		t.Errorf("result %+v, error %q; want a retry after %s", have.Result, have.Err, trigger.FirstRetry)
	}
}
