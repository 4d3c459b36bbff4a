package egressip

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var out = topology.EgressIPKey("out")

// anEgressIP requests addresses for the pods of every namespace.
func anEgressIP(addresses []networkv1alpha1.EgressAddress,
	change ...func(*networkv1alpha1.EgressIP)) *networkv1alpha1.EgressIP {
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out", UID: "uid-out", Generation: 5}}
	e.CreationTimestamp, e.Spec.EgressIPs = metav1.Unix(100, 0), addresses
	for _, c := range change {
		c(e)
	}
	return e
}

func ips(addresses ...networkv1alpha1.EgressAddress) []networkv1alpha1.EgressAddress {
	return addresses
}

// carriersOf are nodes with these IDs, dual stack, each with a gateway and the label of nodes that carry addresses.
func carriersOf(t *testing.T, ids ...int) (objects []client.Object) {
	t.Helper()
	for _, id := range ids {
		node, nn := kindtest.Node(t, id, "46")
		node.Labels = map[string]string{networkv1alpha1.EgressAssignableLabel: ""}
		objects = append(objects, node, nn)
	}
	selected := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "selected"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	return append(objects, kindtest.ClusterNetwork("46"), selected)
}

// state is the status of an EgressIP as text: "<address>=<node> ... <condition>".
func state(b *kindtest.Bed) string {
	e := kindtest.Get(b, anEgressIP(nil))
	var words []string
	for _, item := range e.Status.Items {
		words = append(words, fmt.Sprintf("%s=%s", item.EgressIP, item.Node))
	}
	for _, a := range e.Status.Held {
		words = append(words, fmt.Sprintf("%s held", a))
	}
	for _, c := range e.Status.Conditions {
		text := fmt.Sprintf("%s %s of generation %d %s: %s", c.Type, c.Status, c.ObservedGeneration, c.Reason, c.Message)
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// carried is the unit of an EgressIP: "<address>@<node's ID>" is an address that a node carries, "4" or "6" an address that
// no node carries.
func carried(addresses ...string) map[unit.Key][]string {
	var lines []string
	for _, text := range addresses {
		address, id, _ := strings.Cut(text, "@")
		family, match, pods, nexthop, own := "IPv4", "ip4", "10.244.0.0/16", "100.64.0.%d", "192.0.2."
		if address == "6" || strings.Contains(address, ":") {
			family, match, pods, nexthop, own = "IPv6", "ip6", "fd01::/48", "fd98::%d", "2001:db8::"
		}
		set := "egressip_out_19f79b1921bbcfff_" + family
		lines = append(lines, "AddressSet "+set)
		if id == "" {
			continue
		}
		number, _ := strconv.Atoi(id)
		from := match + ".src == $" + set
		inside := from + " && " + match + ".dst == $inside_" + family
		lines = append(lines,
			"LogicalRouterPolicy "+from+" action=reroute match="+from+
				" nexthops=["+fmt.Sprintf(nexthop, number+1)+"] priority=100",
			"NAT "+inside+" external_ip="+own+id+" logical_ip="+pods+" match="+inside+" priority=200 type=snat",
			"NAT "+from+" external_ip="+address+" logical_ip="+pods+" match="+from+" priority=100 type=snat",
			"Logical_Router ovn_cluster_router: policies += "+from,
			"Logical_Router GR_n"+id+": nat += "+from,
			"Logical_Router GR_n"+id+": nat += "+inside,
			"Address_Set "+names.RouterAddresses("n"+id, family)+": addresses += "+address)
	}
	return map[unit.Key][]string{out: lines}
}

func newBed(t *testing.T, silent []string, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	b := kindtest.New(t, Kinds, topology.KindEgressIP, func(env *kind.Env) {
		env.Observed.Reachable = func(node string) bool { return !slices.Contains(silent, node) }
	}, objects...)
	for _, id := range []int{1, 2} {
		node, nn := kindtest.Node(t, id, "46")
		read, err := facts.ParseGateway(nn, node)
		if err != nil {
			t.Fatal(err)
		}
		b.Seed(topology.GatewayUnit(read))
	}
	return b
}

func on(node string) func(*networkv1alpha1.EgressIP) {
	return func(e *networkv1alpha1.EgressIP) {
		e.Status.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: "192.0.2.77", Node: node}}
	}
}

// holding makes an EgressIP hold an address that no node carries.
func holding(e *networkv1alpha1.EgressIP) { e.Status.Held = []networkv1alpha1.IP{"192.0.2.77"} }

// keeping makes an EgressIP keep an address, which a node carries, or none if it is "".
func keeping(node string) func(*networkv1alpha1.EgressIP) {
	return func(e *networkv1alpha1.EgressIP) {
		if e.Status.Former = []networkv1alpha1.IP{"192.0.2.77"}; node != "" {
			on(node)(e)
		}
	}
}

func TestReconcile(t *testing.T) {
	const (
		all      = " Assigned True of generation 5 AsExpected: nodes carry all addresses"
		silent   = "no node that could carry an address responds; the addresses stay where they are"
		keeps    = "192.0.2.1: it belongs to node n1; spec.egressIPs had 192.0.2.77, which stays in use"
		assigned = "Normal EgressIPAssigned EgressIP out: node n1 carries 192.0.2.77"
	)
	rejected := &ovndb.RejectedError{Unit: out, Err: errors.New("constraint violation")}
	service := func(created int64, change ...func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", CreationTimestamp: metav1.Unix(created, 0)}}
		s.Spec.ClusterIPs, s.Spec.ExternalIPs = []string{"10.96.0.9"}, []string{"192.0.2.77"}
		s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		for _, c := range change {
			c(s)
		}
		return s
	}
	balanced := func(s *corev1.Service) { // by a controller that is not ours
		s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, nil
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.77"}}
	}
	given := func(s *corev1.Service) {
		balanced(s)
		s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady}}
	}
	inForce := func(p *networkv1alpha1.IPPool) { p.Status.Ranges = []string{"192.0.2.77"} }
	granted := func(e *networkv1alpha1.EgressIP) {
		e.Name, e.UID, e.CreationTimestamp, e.Spec.EgressIPs = "younger", "uid-younger", metav1.Unix(150, 0), ips("192.0.2.99")
		holding(e)
	}
	older := anEgressIP(ips("192.0.2.77"), func(e *networkv1alpha1.EgressIP) {
		e.Name, e.UID, e.CreationTimestamp = "older", "uid-older", metav1.Unix(50, 0)
	})
	aKeeper := func(name string, created int64) *networkv1alpha1.EgressIP {
		return anEgressIP(ips("192.0.2.1"), keeping(""), func(e *networkv1alpha1.EgressIP) {
			e.Name, e.UID, e.CreationTimestamp = name, types.UID(name), metav1.Unix(created, 0)
		})
	}
	aFloatingIP := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.77"}, Spec: networkv1alpha1.FloatingIPSpec{
		Address: "192.0.2.77", Pool: "edge", Holder: &networkv1alpha1.FloatingIPHolder{Kind: "Deployment", Namespace: "demo", Name: "web"}}}
	keeper, younger := aKeeper("older", 50), aKeeper("younger", 150)
	balancers := func(created int64, ready metav1.ConditionStatus) *networkv1alpha1.LoadBalancerPool {
		p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: metav1.Unix(created, 0)}}
		p.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.64/28"}
		p.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: ready}}
		return p
	}
	natPool := func(created int64, change ...func(*networkv1alpha1.IPPool)) *networkv1alpha1.IPPool {
		p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", Generation: 1, CreationTimestamp: metav1.Unix(created, 0)}}
		p.Spec.Location, p.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.70-192.0.2.79"}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	refused := func(p *networkv1alpha1.IPPool) {
		p.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
			Reason: networkv1alpha1.ReasonRangeOverlaps, ObservedGeneration: 1}}
	}
	used := func(p *networkv1alpha1.IPPool) { p.Status.Used = 1 }
	overlay := func(p *networkv1alpha1.IPPool) { p.Spec.Location = networkv1alpha1.LocationOverlay }
	underlay := func(p *networkv1alpha1.IPPool) {
		p.Spec.Location, p.Spec.Network = networkv1alpha1.LocationUnderlay, "rack"
	}
	aNetwork := func(topology networkv1alpha1.NetworkTopology) *networkv1alpha1.Network {
		return &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "rack"}, Spec: networkv1alpha1.NetworkSpec{Topology: topology}}
	}
	written := []string{"patch status EgressIP out"}
	type test struct {
		egressIP *networkv1alpha1.EgressIP
		objects  []client.Object // besides the nodes n1 and n2
		fails    error           // of the database
		silent   []string        // nodes that do not answer
		want     kindtest.Outcome
		state    string
	}
	// trouble is the test of an address that no node carries.
	trouble := func(address networkv1alpha1.EgressAddress, reason, message string, objects ...client.Object) test {
		message = string(address) + ": " + message
		return test{egressIP: anEgressIP(ips(address)), objects: objects,
			state: "Assigned False of generation 5 " + reason + ": " + message,
			want: kindtest.Outcome{Units: carried("4"), Writes: written,
				Events: []string{"Warning " + reason + " EgressIP out: " + message}}}
	}
	// despite is the test of an address that n1 carries despite an IPPool, ofPool of an address that the IPPool has.
	despite := func(objects ...client.Object) test {
		return test{egressIP: anEgressIP(ips("192.0.2.77")), objects: objects, state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written, Events: []string{assigned}}}
	}
	ofPool := func(pool *networkv1alpha1.IPPool) test {
		return trouble("192.0.2.77", "AddressInUse", "it belongs to IPPool edge", pool)
	}
	floating := func(address networkv1alpha1.EgressAddress, holder *networkv1alpha1.FloatingIPHolder) client.Object {
		return &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "nat"},
			Spec: networkv1alpha1.FloatingIPSpec{Address: address, Pool: "edge", Holder: holder}}
	}
	holder := &networkv1alpha1.FloatingIPHolder{APIVersion: "v1", Kind: "Pod", Namespace: "demo", Name: "web", Pod: "web", PodUID: "uid-web"}
	narrowed := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: metav1.Unix(200, 0)}}
	narrowed.Spec.Location, narrowed.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.128/30"}}
	for name, c := range map[string]test{
		"an address that a pod still has of a pool that was narrowed": trouble("192.0.2.77", "AddressInUse",
			"it belongs to IPPool edge", narrowed, floating("192.0.2.77", holder)),
		"an address that a pod still has of a pool that was deleted": trouble("192.0.2.77", "AddressInUse",
			"it belongs to IPPool edge", floating("192.0.2.77", holder)),
		"an address that nobody has of a pool that was narrowed": {
			egressIP: anEgressIP(ips("192.0.2.77")), objects: []client.Object{narrowed, floating("192.0.2.77", nil)}, state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written, Events: []string{assigned}},
		},
		"IPv4": {
			egressIP: anEgressIP(ips("192.0.2.77")), state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written, Events: []string{assigned}},
		},
		"IPv6": {
			egressIP: anEgressIP(ips("2001:db8::77")), state: "2001:db8::77=n1" + all,
			want: kindtest.Outcome{Units: carried("2001:db8::77@1"), Writes: written,
				Events: []string{"Normal EgressIPAssigned EgressIP out: node n1 carries 2001:db8::77"}},
		},
		"dual stack": {
			egressIP: anEgressIP(ips("192.0.2.77", "2001:db8::77")), state: "192.0.2.77=n1 2001:db8::77=n2" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1", "2001:db8::77@2"), Writes: written,
				Events: []string{assigned, "Normal EgressIPAssigned EgressIP out: node n2 carries 2001:db8::77"}},
		},
		"an address stays on its node": {
			egressIP: anEgressIP(ips("192.0.2.77"), on("n2")), state: "192.0.2.77=n2" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: written},
		},
		"an address moves from a node that is gone": {
			egressIP: anEgressIP(ips("192.0.2.77"), on("n3")), state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written,
				Events: []string{"Warning EgressIPMoved EgressIP out: 192.0.2.77 moved from node n3 to n1"}},
		},
		"an address moves from a node that does not answer": {
			egressIP: anEgressIP(ips("192.0.2.77"), on("n1")), silent: []string{"n1"}, state: "192.0.2.77=n2" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: written,
				Events: []string{"Warning EgressIPMoved EgressIP out: 192.0.2.77 moved from node n1 to n2"}},
		},
		"an address stays while no node answers": {
			egressIP: anEgressIP(ips("192.0.2.77"), on("n1")), silent: []string{"n1", "n2"},
			state: "192.0.2.77=n1 Assigned Unknown of generation 5 NodesUnreachable: " + silent,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written,
				Events: []string{"Warning NodesUnreachable EgressIP out: " + silent}},
		},
		"an address that is not requested any more": {
			egressIP: anEgressIP(ips("2001:db8::77"), on("n1")), state: "2001:db8::77=n1" + all,
			want: kindtest.Outcome{Units: carried("2001:db8::77@1"), Writes: written, Events: []string{
				"Normal EgressIPAssigned EgressIP out: node n1 carries 2001:db8::77",
				"Warning EgressIPUnassigned EgressIP out: node n1 does not carry 192.0.2.77 any more: it is not in the spec any more"}},
		},
		"an address that cannot be used instead": {
			egressIP: anEgressIP(ips("192.0.2.1"), on("n2")), state: "192.0.2.77=n2 Assigned False of generation 5 AddressInUse: " + keeps,
			want: kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: written,
				Events: []string{"Warning AddressInUse EgressIP out: " + keeps}},
		},
		"an address that is kept still": {
			egressIP: anEgressIP(ips("192.0.2.1"), keeping("n2")), state: "192.0.2.77=n2 Assigned False of generation 5 AddressInUse: " + keeps,
			want: kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: written,
				Events: []string{"Warning AddressInUse EgressIP out: " + keeps}},
		},
		"a kept address finds its node again": {
			egressIP: anEgressIP(ips("192.0.2.1"), keeping("")), state: "192.0.2.77=n1 Assigned False of generation 5 AddressInUse: " + keeps,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written,
				Events: []string{assigned, "Warning AddressInUse EgressIP out: " + keeps}},
		},
		"another address instead of the kept one": {
			egressIP: anEgressIP(ips("192.0.2.78"), keeping("n1")), state: "192.0.2.78=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.78@1"), Writes: written, Events: []string{
				"Normal EgressIPAssigned EgressIP out: node n1 carries 192.0.2.78",
				"Warning EgressIPUnassigned EgressIP out: node n1 does not carry 192.0.2.77 any more: it is not in the spec any more"}},
		},
		"an address that a younger EgressIP keeps": {
			egressIP: anEgressIP(ips("192.0.2.77")), objects: []client.Object{younger}, state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written, Events: []string{assigned}},
		},
		"an address that an older EgressIP keeps": trouble("192.0.2.77", "AddressInUse", "it belongs to EgressIP older", keeper),
		"an address that cannot be read": {
			egressIP: anEgressIP(ips("bad")),
			state:    `Assigned False of generation 5 InvalidSpec: spec.egressIPs[0]: ParseAddr("bad"): unable to parse IP`,
			want: kindtest.Outcome{Writes: written,
				Events: []string{`Warning InvalidSpec EgressIP out: spec.egressIPs[0]: ParseAddr("bad"): unable to parse IP`}},
		},
		"an address outside of the nodes' networks": trouble("198.51.100.7", "NotOnNodeNetwork",
			"the address is in no network of the link to the outside of n1, n2"),
		"a node's address":                trouble("192.0.2.1", "AddressInUse", "it belongs to node n1"),
		"a router's address":              trouble("192.0.2.254", "AddressInUse", "it belongs to a router that node n1 sends to"),
		"an address of pods":              trouble("10.244.0.7", "AddressInUse", "it is in the network of pods 10.244.0.0/16"),
		"a cluster IP":                    trouble("10.96.0.7", "AddressInUse", "it is in the network of services 10.96.0.0/16"),
		"an address of the join subnet":   trouble("100.64.0.7", "AddressInUse", "it is in the join subnet 100.64.0.0/16"),
		"an address of an older service":  trouble("192.0.2.77", "AddressInUse", "service demo/web is balanced on it", service(50)),
		"an address of a younger service": trouble("192.0.2.77", "AddressInUse", "service demo/web is balanced on it", service(150)),
		"an address that a balancer has":  trouble("192.0.2.77", "AddressInUse", "service demo/web is balanced on it", service(150, balanced)),
		"a service that yields to a pool": despite(service(50), natPool(150, inForce)),
		"a service that a pool yields to": trouble("192.0.2.77", "AddressInUse", "service demo/web is balanced on it",
			service(50, given), natPool(150, inForce)),
		"a service that yields to another":  despite(service(50), anEgressIP(nil, granted)),
		"a balancer that yields to another": despite(service(50, balanced), anEgressIP(nil, granted)),
		"a given address despite another": trouble("192.0.2.77", "AddressInUse", "service demo/web is balanced on it",
			service(50, given), anEgressIP(nil, granted)),
		"an older service with a carried address": {
			egressIP: anEgressIP(ips("192.0.2.77"), on("n2")), objects: []client.Object{service(50)}, state: "192.0.2.77=n2" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: written},
		},
		"an older service with a held address": {
			egressIP: anEgressIP(ips("192.0.2.77"), holding), objects: []client.Object{service(50)}, state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written, Events: []string{assigned}},
		},
		"an older service with a kept address": {
			egressIP: anEgressIP(ips("192.0.2.1"), keeping("n2")), objects: []client.Object{service(50)},
			state: "192.0.2.77=n2 Assigned False of generation 5 AddressInUse: " + keeps,
			want: kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: written,
				Events: []string{"Warning AddressInUse EgressIP out: " + keeps}},
		},
		"an address of an older LoadBalancerPool": trouble("192.0.2.77", "AddressInUse",
			"it is in range 192.0.2.64-192.0.2.79 of LoadBalancerPool edge", balancers(50, metav1.ConditionTrue)),
		"of an older refused LoadBalancerPool":     despite(balancers(50, metav1.ConditionFalse)),
		"of a LoadBalancerPool of the same second": despite(balancers(100, metav1.ConditionTrue)),
		"an address of an older EgressIP":          trouble("192.0.2.77", "AddressInUse", "it belongs to EgressIP older", older),
		"an address that a younger EgressIP has": trouble("192.0.2.77", "AddressInUse", "it belongs to EgressIP younger",
			anEgressIP(ips("192.0.2.77"), on("n2"), func(e *networkv1alpha1.EgressIP) {
				e.Name, e.UID, e.CreationTimestamp = "younger", "uid-younger", metav1.Unix(150, 0)
			})),
		"an address that an older EgressIP requests later": {
			egressIP: anEgressIP(ips("192.0.2.77"), on("n1")), objects: []client.Object{older}, state: "192.0.2.77=n1" + all,
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written},
		},
		"an address that a pod has of a younger NAT pool": trouble("192.0.2.77", "AddressInUse",
			"it belongs to Deployment demo/web by IPPool edge", natPool(150), aFloatingIP),
		"an address that a pod has on a Localnet Network": trouble("192.0.2.77", "AddressInUse",
			"it belongs to Deployment demo/web by IPPool edge", natPool(150, underlay), aNetwork(networkv1alpha1.TopologyLocalnet), aFloatingIP),
		"an address that a pod has on a Layer2 Network":  despite(natPool(150, underlay), aNetwork(networkv1alpha1.TopologyLayer2), aFloatingIP),
		"of an older NAT pool":                           ofPool(natPool(50)),
		"of a younger NAT pool":                          despite(natPool(150)),
		"of a NAT pool of the same second":               despite(natPool(100)),
		"of an older Overlay pool":                       despite(natPool(50, overlay)),
		"of an older refused pool":                       despite(natPool(50, refused)),
		"of an older refused pool with addresses in use": ofPool(natPool(50, refused, used)),
		"the database refuses it": {
			egressIP: anEgressIP(ips("192.0.2.77")), fails: rejected,
			state: "192.0.2.77=n1 Assigned False of generation 5 DatabaseRefused: constraint violation",
			want: kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: slices.Concat(written, written),
				Events: []string{assigned}, Err: rejected.Error()},
		},
		"the database waits for a router": { // the engine applies the unit later
			egressIP: anEgressIP(ips("192.0.2.77")), fails: &ovndb.PendingError{Unit: out, Reason: "row GR_n1 is absent"},
			state: "192.0.2.77=n1" + all,
			want:  kindtest.Outcome{Units: carried("192.0.2.77@1"), Writes: written, Events: []string{assigned}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.silent, slices.Concat(carriersOf(t, 1, 2), c.objects, []client.Object{c.egressIP})...)
			if c.fails != nil {
				b.Database.Refusals[out] = c.fails
			}
			kindtest.Expect(t, c.want, b.Reconcile("", "out"))
			if have := state(b); have != c.state {
				t.Errorf("status %q, want %q", have, c.state)
			}
			// A second reconciliation decides the same, writes nothing, and reports nothing again.
			kindtest.Expect(t, kindtest.Outcome{Units: c.want.Units, Err: c.want.Err}, b.Reconcile("", "out"))
		})
	}
}

// An address that no node carries any more stays held, whatever the reason, until it is removed from the spec.
func TestAnAddressStaysHeld(t *testing.T) {
	e := anEgressIP(ips("192.0.2.77"), on("n1"))
	objects := carriersOf(t, 1, 2)
	b := newBed(t, nil, append(objects, e)...)
	carries := func(yes bool) {
		t.Helper()
		for _, id := range []int{1, 2} {
			node, _ := kindtest.Node(t, id, "46")
			node = kindtest.Get(b, node)
			if delete(node.Labels, networkv1alpha1.EgressAssignableLabel); yes {
				node.Labels = map[string]string{networkv1alpha1.EgressAssignableLabel: ""}
			}
			b.Update(node)
		}
	}
	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: metav1.Unix(50, 0)}}
	pool.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.64/28"}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"a node carries it", func() {}, "192.0.2.77=n1"},
		{"no node can", func() { carries(false) }, "192.0.2.77 held"},
		{"an administrator's pool has it", func() { carries(true); b.Create(pool) }, "192.0.2.77 held"},
		{"the pool is gone", func() { b.Delete(pool) }, "192.0.2.77=n1"},
		{"no node can again", func() { carries(false) }, "192.0.2.77 held"},
		{"the spec has another address", func() {
			changed := kindtest.Get(b, e)
			changed.Spec.EgressIPs = ips("192.0.2.78")
			b.Update(changed)
		}, "Assigned"},
	} {
		step.do()
		b.Reconcile("", "out")
		if have := state(b); !strings.HasPrefix(have, step.want) {
			t.Errorf("%s: status %q, want %q", step.name, have, step.want)
		}
	}
}

// While the database is away, nothing is decided: what cannot be written is not promised.
func TestDatabaseIsAway(t *testing.T) {
	b := newBed(t, nil, append(carriersOf(t, 1), anEgressIP(ips("192.0.2.77")))...)
	b.Database.Away = true
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("", "out"))
	if have := state(b); have != "" {
		t.Errorf("status %q, want none", have)
	}
}

func TestDeletion(t *testing.T) {
	e := anEgressIP(ips("192.0.2.77"))
	b := newBed(t, nil, append(carriersOf(t, 1, 2), e)...)
	b.Reconcile("", "out")
	b.Delete(e)
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{out: nil}}, b.Reconcile("", "out"))
}

// The request for all enqueues each EgressIP.
func TestAll(t *testing.T) {
	other := anEgressIP(ips("192.0.2.78"), func(e *networkv1alpha1.EgressIP) { e.Name, e.UID = "other", "uid-other" })
	b := newBed(t, nil, anEgressIP(ips("192.0.2.77")), other)
	want := kindtest.Outcome{Enqueued: []string{"egressip other", "egressip out"}}
	kindtest.Expect(t, want, b.Reconcile(All.Namespace, All.Name))
}

// The rows follow the status. Where it cannot be written, nothing is applied.
func TestNothingIsAppliedWithoutTheRecord(t *testing.T) {
	b := newBed(t, nil, append(carriersOf(t, 1, 2), anEgressIP(ips("192.0.2.77")))...)
	b.Before = func(string) error {
		return apierrors.NewConflict(schema.GroupResource{}, "out", errors.New("another process has decided"))
	}
	have := b.Reconcile("", "out")
	if len(have.Units) > 0 || len(have.Events) > 0 || !strings.Contains(have.Err, "another process has decided") {
		t.Errorf("%+v, want nothing but the error", have)
	}
}

// Only nodes with the label carry addresses.
func TestNodeWithoutLabel(t *testing.T) {
	objects := carriersOf(t, 1, 2)
	objects[0].SetLabels(nil)
	b := newBed(t, nil, append(objects, anEgressIP(ips("192.0.2.77")))...)
	kindtest.Expect(t, kindtest.Outcome{Units: carried("192.0.2.77@2"), Writes: []string{"patch status EgressIP out"},
		Events: []string{"Normal EgressIPAssigned EgressIP out: node n2 carries 192.0.2.77"}}, b.Reconcile("", "out"))
}
