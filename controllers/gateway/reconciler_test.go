package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var n1 = topology.GatewayKey("n1")

// A gateway without a link only says what the node's own addresses are.
var withoutLink = []string{
	"Address_Set inside_IPv4: addresses += 192.0.2.1",
	"Chassis_Template_Var chassis-n1: variables += NODEIP_IPv4_0=192.0.2.1",
	"Chassis_Template_Var chassis-n1: variables += NODEIP_IPv6_0=::",
}

func TestReconcile(t *testing.T) {
	rejected := &ovndb.RejectedError{Unit: n1, Err: errors.New("constraint violation")}
	router := func(text string) string { return "LogicalRouterPort rtoe-GR_n1 mac=02:00:00:00:00:01 networks=" + text }
	const (
		inIPv4  = "NAT 10.244.0.0/16 external_ip=192.0.2.1 logical_ip=10.244.0.0/16 type=snat"
		inIPv6  = "NAT fd01::/48 external_ip=2001:db8::1 logical_ip=fd01::/48 type=snat"
		outIPv4 = "LogicalRouterStaticRoute 0.0.0.0/0 ip_prefix=0.0.0.0/0 nexthop=192.0.2.254 output_port=rtoe-GR_n1"
		outIPv6 = "LogicalRouterStaticRoute ::/0 ip_prefix=::/0 nexthop=2001:db8::fffe output_port=rtoe-GR_n1"

		usurped = "address 192.0.2.1 of node n1's gateway is an InternalIP of node n2"
		overlap = "clusterNetwork 10.244.0.0/16 contains 10.244.9.9, an address of the link outside of node n1"
		end     = " options=map[gateway_mtu:1400 requested-tnl-key:2]"
	)
	written := []string{"patch status NodeNetwork n1"}
	for name, c := range map[string]struct {
		families string // of the node; empty: IPv4
		change   func(*corev1.Node, *networkv1alpha1.NodeNetwork)
		others   []client.Object
		fails    error // of the database
		// gateway: the unit is that of the node's gateway. lines are the lines that differ from one gateway to another.
		gateway bool
		lines   []string
		want    kindtest.Outcome // without Units, if gateway is set
		// accepted is the condition GatewayAccepted.
		accepted string
	}{
		"IPv4": {families: "4", gateway: true, lines: []string{router("[192.0.2.1/24]" + end), outIPv4, inIPv4}},
		"IPv6": {families: "6", gateway: true, lines: []string{router("[2001:db8::1/64]" + end), outIPv6, inIPv6}},
		"dual stack": {families: "46", gateway: true,
			lines: []string{router("[192.0.2.1/24 2001:db8::1/64]" + end), outIPv4, outIPv6, inIPv4, inIPv6}},
		"Local mode has no router": {gateway: true, change: func(_ *corev1.Node, nn *networkv1alpha1.NodeNetwork) {
			nn.Status.Gateway.Mode = networkv1alpha1.GatewayLocal
		}},
		"the agent has found no link": {
			change: func(_ *corev1.Node, nn *networkv1alpha1.NodeNetwork) { nn.Status.Gateway = nil },
			want:   kindtest.Outcome{Units: map[unit.Key][]string{n1: withoutLink}},
		},
		"the agent has not reported": {
			change: func(_ *corev1.Node, nn *networkv1alpha1.NodeNetwork) { nn.Status.Chassis = "" },
		},
		"a link without a MAC": {
			change: func(_ *corev1.Node, nn *networkv1alpha1.NodeNetwork) { nn.Status.Gateway.MACAddress = "" },
			want: kindtest.Outcome{
				Events: []string{"Warning FailedGateway Node n1: NodeNetwork n1: status.gateway.macAddress is missing"}},
		},
		"a link with an address of another node": {
			others: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}},
			change: func(n *corev1.Node, _ *networkv1alpha1.NodeNetwork) { n.Status.Addresses = nil },
			want:   kindtest.Outcome{Writes: written}, accepted: "False AddressConflict: " + usurped,
		},
		"a link in the network of pods": {
			change: func(_ *corev1.Node, nn *networkv1alpha1.NodeNetwork) {
				nn.Status.Gateway.Addresses = []networkv1alpha1.InterfaceAddress{"10.244.9.9/24"}
			},
			want: kindtest.Outcome{Writes: written}, accepted: "False NetworkOverlapsNodes: " + overlap,
		},
		"the address is free again": {gateway: true,
			change: func(_ *corev1.Node, nn *networkv1alpha1.NodeNetwork) {
				nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionGatewayAccepted,
					Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonAddressConflict, Message: usurped}}
			},
			lines: []string{router("[192.0.2.1/24]" + end), outIPv4, inIPv4},
			want:  kindtest.Outcome{Writes: written}, accepted: "True AsExpected: ",
		},
		"the database refuses it": {gateway: true, fails: rejected,
			lines: []string{router("[192.0.2.1/24]" + end), outIPv4, inIPv4},
			want: kindtest.Outcome{Err: rejected.Error(),
				Events: []string{"Warning FailedGateway Node n1: " + rejected.Error()}},
		},
		"the database is away": {gateway: true, // the engine applies the unit later
			fails: &ovndb.PendingError{Unit: n1, Reason: "database is not connected"},
			lines: []string{router("[192.0.2.1/24]" + end), outIPv4, inIPv4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, nn := kindtest.Node(t, 1, cmp.Or(c.families, "4"))
			if c.change != nil {
				c.change(node, nn)
			}
			b := kindtest.New(t, Kinds, topology.KindGateway, nil, append(c.others, node, nn)...)
			b.Seed(topology.NodeUnit(facts.Node{Name: "n1", Chassis: "chassis-n1"}))
			if c.fails != nil {
				b.Database.Refusals[n1] = c.fails
			}
			if c.gateway {
				read, err := facts.ParseGateway(nn, node)
				if err != nil {
					t.Fatal(err)
				}
				text := b.Text(topology.GatewayUnit(read))
				c.want.Units = map[unit.Key][]string{n1: text}
				have := kindtest.Pick(text, "LogicalRouterPort rtoe", "Route 0.0.0.0/0", "Route ::/0", "NAT 10.244", "NAT fd01")
				slices.Sort(c.lines)
				if !slices.Equal(have, c.lines) {
					t.Errorf("lines\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(c.lines, "\n"))
				}
			}
			kindtest.Expect(t, c.want, b.Reconcile("", "n1"))
			if have := acceptance(kindtest.Get(b, nn)); have != c.accepted {
				t.Errorf("condition %q, want %q", have, c.accepted)
			}
			c.want.Writes = nil // nothing has changed
			kindtest.Expect(t, c.want, b.Reconcile("", "n1"))
		})
	}
}

// A gateway that cannot be read any more stays as it is, because it carries traffic. The gateway of a deleted node goes.
func TestGatewayStays(t *testing.T) {
	node, nn := kindtest.Node(t, 1, "46")
	b := kindtest.New(t, Kinds, topology.KindGateway, nil, node, nn)
	if have := b.Reconcile("", "n1"); len(have.Units[n1]) == 0 {
		t.Fatal("the node has no gateway")
	}
	nn.Status.Gateway.MACAddress = ""
	b.Update(nn)
	kindtest.Expect(t, kindtest.Outcome{
		Events: []string{"Warning FailedGateway Node n1: NodeNetwork n1: status.gateway.macAddress is missing"},
	}, b.Reconcile("", "n1"))
	b.Delete(nn) // by mistake; the node's controller recreates it
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("", "n1"))
	b.Delete(node)
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{n1: nil}}, b.Reconcile("", "n1"))
}

// A condition that conflicts with a write of the agent is no error. The gateway is reconciled again soon.
func TestConflictIsRetried(t *testing.T) {
	node, nn := kindtest.Node(t, 1, "4")
	nn.Status.Gateway.Addresses = []networkv1alpha1.InterfaceAddress{"10.244.9.9/24"}
	b := kindtest.New(t, Kinds, topology.KindGateway, nil, node, nn)
	b.Before = func(string) error {
		return apierrors.NewConflict(schema.GroupResource{}, "n1", errors.New("it has changed"))
	}
	kindtest.Expect(t, kindtest.Outcome{
		Writes: []string{"patch status NodeNetwork n1"}, Result: ctrl.Result{RequeueAfter: trigger.FirstRetry},
	}, b.Reconcile("", "n1"))
}

func acceptance(nn *networkv1alpha1.NodeNetwork) string {
	c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionGatewayAccepted)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// A gateway has the BFD sessions of the watched routers of its pods, and joins them to the pods' routes. Pods with an EgressIP, and pods
// that no ExternalRoute selects, have none.
func TestWatchedRouters(t *testing.T) {
	node, nn := kindtest.Node(t, 1, "4")
	pod := func(name string, labels map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name), Labels: labels}}
		p.Spec.NodeName = "n1"
		return p
	}
	out := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	out.Spec.PodSelector.MatchLabels = map[string]string{"out": "yes"}
	route := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "route"}}
	route.Spec.PodSelector.MatchLabels = map[string]string{"app": "web"}
	route.Status.NextHops = []networkv1alpha1.ExternalNextHop{{Address: "192.0.2.201", BFD: true}, {Address: "192.0.2.202"}}
	prepare := func(env *kind.Env) {
		env.Restore = func(context.Context) error { return nil }
		env.Addresses.SetNode("n1", []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, nil)
		for _, name := range []string{"web", "egress", "plain"} {
			if _, err := env.Addresses.Allocate("n1", alloc.PodOwner("demo", name, name), alloc.Request{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := kindtest.New(t, Kinds, topology.KindGateway, prepare, node, nn, out, route, pod("web", map[string]string{"app": "web"}),
		pod("egress", map[string]string{"app": "web", "out": "yes"}), pod("plain", nil))
	have := kindtest.Pick(b.Reconcile("", "n1").Units[n1], "BFD", "bfd", "$routed_n1")
	sessions, joined, matches := 0, 0, 0
	for _, line := range have {
		switch {
		case strings.HasPrefix(line, "BFD"):
			sessions++
		case strings.Contains(line, "bfd += "):
			joined++
		case strings.HasPrefix(line, "NAT ip4.src != $routed_n1"):
			matches++
		}
	}
	if sessions != 1 || joined != 1 || matches != 1 {
		t.Errorf("%d sessions, %d joined, %d matches, want 1 of each:\n%s", sessions, joined, matches, strings.Join(have, "\n"))
	}
	b.ExpectSettled("", "n1")
}

// A node in Local mode has a set of the addresses for which its host answers, and a router while a Service is the source of its pods.
func TestHostThatAnswers(t *testing.T) {
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web",
		Annotations: map[string]string{networkv1alpha1.EgressSourceAnnotation: networkv1alpha1.EgressSourceLoadBalancer}}}
	web.Spec.Type, web.Spec.Selector = corev1.ServiceTypeLoadBalancer, map[string]string{"app": "web"}
	for name, c := range map[string]struct {
		old     bool // its agent is older
		objects []client.Object
		sets    int
		router  bool
	}{
		"no Service":             {sets: 2},
		"a Service":              {objects: []client.Object{web}, sets: 4, router: true},
		"a Service, old agent":   {old: true, objects: []client.Object{web.DeepCopy()}},
		"another kind of source": {objects: []client.Object{&networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out"}}}, sets: 2},
	} {
		t.Run(name, func(t *testing.T) {
			node, nn := kindtest.Node(t, 1, "46")
			gateway := nn.Status.Gateway
			gateway.Mode, gateway.Bridge, gateway.MACAddress = networkv1alpha1.GatewayLocal, "", ""
			gateway.AnswersForAddresses = !c.old
			b := kindtest.New(t, Kinds, topology.KindGateway, nil, append(slices.Clone(c.objects), node, nn)...)
			lines := b.Reconcile("", "n1").Units[n1]
			sets := len(kindtest.Pick(lines, "AddressSet answered_n1_", "AddressSet egress_n1_"))
			router := len(kindtest.Pick(lines, "LogicalRouter ER_n1")) > 0
			if sets != c.sets || router != c.router {
				t.Errorf("%d sets, router %t; want %d, %t:\n%s", sets, router, c.sets, c.router, strings.Join(lines, "\n"))
			}
			b.ExpectSettled("", "n1")
		})
	}
}
