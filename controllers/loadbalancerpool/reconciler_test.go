package loadbalancerpool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var pool = topology.LoadBalancerPoolKey("pool")

// aPool is the pool "pool" with these ranges, whose status says that it is in force.
func aPool(ranges ...networkv1alpha1.LoadBalancerRange) *networkv1alpha1.LoadBalancerPool {
	p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "uid-pool", Generation: 3}}
	p.CreationTimestamp, p.Spec.Addresses, p.Spec.ServicesWithoutClass = metav1.Unix(100, 0), ranges, true
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: 3})
	return p
}

// aService is the Service demo/<name> of type LoadBalancer with the TCP port 80, of both families.
func aService(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "uid-1", Generation: 7}}
	s.CreationTimestamp = metav1.Unix(200, 0)
	s.Spec.Type, s.Spec.ClusterIPs = corev1.ServiceTypeLoadBalancer, []string{"10.96.0.10", "fd02::10"}
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	for _, c := range change {
		c(s)
	}
	return s
}

// on gives a Service addresses, as the allocator does.
func on(addresses ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, a := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
		}
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ServiceLoadBalancerReady,
			Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: 7})
	}
}

func classed(class string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }
}

func newBed(t *testing.T, silent []string, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"team": "a"}}},
		kindtest.ClusterNetwork("46"))
	b := kindtest.New(t, Kinds, KindAddresses, func(env *kind.Env) {
		env.NetworkAddresses = alloc.NewSet(time.Now)
		env.Observed.AgentReachable = func(node string) bool { return !slices.Contains(silent, node) }
	})
	for _, id := range []int{1, 2} {
		node, nn := kindtest.Node(t, id, "46")
		node.Labels = map[string]string{"name": node.Name}
		objects = append(objects, node, nn)
		read, err := facts.ParseGateway(nn, node)
		if err != nil {
			t.Fatal(err)
		}
		b.Seed(topology.GatewayUnit(read))
	}
	for _, o := range objects {
		status := o.DeepCopyObject().(client.Object)
		b.Create(o)
		status.SetResourceVersion("")
		b.Update(status)
	}
	return b
}

// state is the status of a Service as text: "<address> ... <condition>".
func state(b *kindtest.Bed, name string) string {
	s := kindtest.Get(b, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}})
	var words []string
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		words = append(words, ingress.IP)
	}
	for _, c := range s.Status.Conditions {
		words = append(words, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": "))
	}
	return strings.Join(words, " ")
}

// noPool is the message about a class that no pool serves.
func noPool(class string) string {
	return `no LoadBalancerPool serves class "` + class + `" with the labels of the Service and its namespace`
}

func TestAllocation(t *testing.T) {
	const (
		written = "patch status Service demo/web"
		given   = "Normal LoadBalancerIPAllocated Service demo/web: 192.0.2.200, 2001:db8::200 of LoadBalancerPool pool"
		taken   = "Normal LoadBalancerIPReleased Service demo/web: released 192.0.2.200, 2001:db8::200"
	)
	ranges := aPool("192.0.2.200-192.0.2.209", "2001:db8::200/120")
	unjudged := aPool("192.0.2.200-192.0.2.209")
	unjudged.Status.Conditions[0].ObservedGeneration = 2
	team := aPool("192.0.2.200-192.0.2.209", "2001:db8::200/120")
	team.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	onlyClass := aPool("192.0.2.200-192.0.2.209", "2001:db8::200/120")
	onlyClass.Spec.ServicesWithoutClass = false
	foreign := func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}
	}
	write := func(events ...string) kindtest.Outcome {
		return kindtest.Outcome{Writes: []string{written}, Events: events}
	}
	segment := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "dc"}}
	segment.Spec.Topology = networkv1alpha1.TopologyLocalnet
	subnet := segment.DeepCopy()
	subnet.Spec.Subnets = []networkv1alpha1.NetworkSubnet{{CIDR: "192.0.2.0/24"}}
	inside := segment.DeepCopy()
	inside.Spec.Topology = networkv1alpha1.TopologyLayer2
	underlay := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "office"}}
	underlay.Spec.Location, underlay.Spec.Network = networkv1alpha1.LocationUnderlay, "dc"
	held := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "held"}, Spec: networkv1alpha1.FloatingIPSpec{
		Address: "192.0.2.200", Pool: "office", Holder: &networkv1alpha1.FloatingIPHolder{APIVersion: "v1", Kind: "Pod",
			Namespace: "demo", Name: "db", Pod: "db", PodUID: "uid-db"}}}
	for name, c := range map[string]struct {
		service *corev1.Service
		objects []client.Object
		want    kindtest.Outcome
		state   string
		// onNetwork gives the pod demo/db an address of the Network dc.
		onNetwork bool
	}{
		"addresses of both families": {service: aService("web"), objects: []client.Object{ranges}, want: write(given),
			state: "192.0.2.200 2001:db8::200 True AsExpected"},
		"the class": {service: aService("web", classed("weft.dev/load-balancer")), objects: []client.Object{onlyClass}, want: write(given),
			state: "192.0.2.200 2001:db8::200 True AsExpected"},
		"nothing changes": {service: aService("web", on("192.0.2.205", "2001:db8::200")), objects: []client.Object{ranges},
			state: "192.0.2.205 2001:db8::200 True AsExpected"},
		"a Service without a class is another's": {service: aService("web", foreign), objects: []client.Object{onlyClass},
			state: "198.51.100.1"},
		"another's class": {service: aService("web", classed("example.com/lb"), foreign), objects: []client.Object{ranges},
			state: "198.51.100.1"},
		"the address of MetalLB stays": {service: aService("web", on("192.0.2.203", "2001:db8::203"), func(s *corev1.Service) {
			s.Status.Conditions = nil
		}), objects: []client.Object{ranges}, want: write(), state: "192.0.2.203 2001:db8::203 True AsExpected"},
		"no pool": {service: aService("web", classed("weft.dev/inner")), objects: []client.Object{ranges},
			want:  write("Warning NoPool Service demo/web: " + noPool("weft.dev/inner")),
			state: "False NoPool: " + noPool("weft.dev/inner")},
		"a pool that is not judged yet": {service: aService("web"), objects: []client.Object{unjudged}},
		"a bad request": {service: aService("web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "x" }), objects: []client.Object{ranges},
			want:  write(`Warning InvalidRequest Service demo/web: spec.loadBalancerIP: "x" is not an IP address`),
			state: `False InvalidRequest: spec.loadBalancerIP: "x" is not an IP address`},
		"a bad request of a Service with one of two families": {service: aService("web", on("192.0.2.200"), func(s *corev1.Service) {
			s.Spec.LoadBalancerIP, s.Spec.IPFamilyPolicy = "x", new(corev1.IPFamilyPolicyPreferDualStack)
		}), objects: []client.Object{ranges},
			want:  write(`Warning InvalidRequest Service demo/web: spec.loadBalancerIP: "x" is not an IP address; the Service keeps 192.0.2.200`),
			state: `192.0.2.200 False InvalidRequest: spec.loadBalancerIP: "x" is not an IP address; the Service keeps 192.0.2.200`},
		"it keeps its addresses until it can get the requested one": {service: aService("web", on("192.0.2.200", "2001:db8::200"),
			func(s *corev1.Service) {
				s.Annotations = map[string]string{networkv1alpha1.LoadBalancerIPsAnnotation: "198.51.100.1"}
			}), objects: []client.Object{ranges},
			want: write("Warning AddressUnavailable Service demo/web: requested address 198.51.100.1 is not in LoadBalancerPool pool; " +
				"the Service keeps 192.0.2.200, 2001:db8::200"),
			state: "192.0.2.200 2001:db8::200 False AddressUnavailable: requested address 198.51.100.1 is not in LoadBalancerPool pool; " +
				"the Service keeps 192.0.2.200, 2001:db8::200"},
		"used as external IP": {service: aService("web"), objects: []client.Object{ranges, aService("other", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, []string{"192.0.2.200"}
		})}, want: write("Normal LoadBalancerIPAllocated Service demo/web: 192.0.2.201, 2001:db8::200 of LoadBalancerPool pool"),
			state: "192.0.2.201 2001:db8::200 True AsExpected"},
		"an external IP of an older Service does not take it away": {service: aService("web", on("192.0.2.200", "2001:db8::200")),
			objects: []client.Object{ranges, aService("other", func(s *corev1.Service) {
				s.CreationTimestamp = metav1.Unix(50, 0)
				s.Spec.Type, s.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, []string{"192.0.2.200"}
			})}, state: "192.0.2.200 2001:db8::200 True AsExpected"},
		"a pod on a segment has it": {service: aService("web"), objects: []client.Object{ranges, segment, underlay, held},
			want:  write("Normal LoadBalancerIPAllocated Service demo/web: 192.0.2.201, 2001:db8::200 of LoadBalancerPool pool"),
			state: "192.0.2.201 2001:db8::200 True AsExpected"},
		"a pod on a Network that only the cluster has": {service: aService("web"), objects: []client.Object{ranges, inside, underlay, held},
			want: write(given), state: "192.0.2.200 2001:db8::200 True AsExpected"},
		"a pod has it of a Network on a segment": {service: aService("web"), objects: []client.Object{ranges, subnet, held}, onNetwork: true,
			want:  write("Normal LoadBalancerIPAllocated Service demo/web: 192.0.2.201, 2001:db8::200 of LoadBalancerPool pool"),
			state: "192.0.2.201 2001:db8::200 True AsExpected"},
		"it requests the address of a pod on a segment": {service: aService("web", func(s *corev1.Service) {
			s.Annotations = map[string]string{networkv1alpha1.LoadBalancerIPsAnnotation: "192.0.2.200"}
		}), objects: []client.Object{ranges, subnet}, onNetwork: true,
			want:  write("Warning AddressUnavailable Service demo/web: requested address 192.0.2.200: pod demo/db on Network dc has it"),
			state: "False AddressUnavailable: requested address 192.0.2.200: pod demo/db on Network dc has it"},
		"a pod on a Network with it does not take it away": {service: aService("web", on("192.0.2.200", "2001:db8::200")),
			objects: []client.Object{ranges, subnet}, onNetwork: true, state: "192.0.2.200 2001:db8::200 True AsExpected"},
		"a pod on a segment does not take it away": {service: aService("web", on("192.0.2.200", "2001:db8::200")),
			objects: []client.Object{ranges, segment, underlay, held}, state: "192.0.2.200 2001:db8::200 True AsExpected"},
		"it becomes a ClusterIP": {service: aService("web", on("192.0.2.200", "2001:db8::200"), func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeClusterIP
		}), objects: []client.Object{ranges}, want: write()},
		"no pool serves it any more": {service: aService("web", on("192.0.2.200", "2001:db8::200")), objects: []client.Object{team},
			want: write(taken)},
		"its pool is gone": {service: aService("web", on("192.0.2.200", "2001:db8::200")), want: write(taken)},
		"its class has no pool any more": {service: aService("web", classed("weft.dev/load-balancer"), on("192.0.2.200", "2001:db8::200")),
			want:  write(taken, "Warning NoPool Service demo/web: "+noPool("weft.dev/load-balancer")),
			state: "False NoPool: " + noPool("weft.dev/load-balancer")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			for _, o := range append(slices.Clone(c.objects), client.Object(c.service)) {
				status := o.DeepCopyObject().(client.Object)
				b.Create(o.DeepCopyObject().(client.Object))
				b.Update(status)
			}
			b.Env.RestoreNetworks = func(context.Context) error {
				if !c.onNetwork {
					return nil
				}
				of := b.Env.NetworkAddresses.Of("dc")
				of.SetPools("*", []alloc.Pool{{Subnet: netip.MustParsePrefix("192.0.2.0/24")}})
				_, _ = of.Claim("*", "demo/db/u/net1/h", alloc.Assignment{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.200/24")}})
				return nil // at the second time, the owner has the address
			}
			kindtest.Expect(t, c.want, b.Reconcile("demo", "web"))
			if have := state(b, "web"); have != c.state {
				t.Errorf("status %q, want %q", have, c.state)
			}
			b.ExpectSettled("demo", "web")
		})
	}
}

// Two Services never get one address, even if the cache does not have the first Service's status yet.
func TestTheCacheIsBehind(t *testing.T) {
	b := newBed(t, nil, aPool("192.0.2.200-192.0.2.209", "2001:db8::200/120"), aService("a"), aService("b"))
	b.Reconcile("demo", "a")
	stale := kindtest.Get(b, aService("a"))
	stale.Status = corev1.ServiceStatus{}
	b.Update(stale) // as the cache has it
	b.Reconcile("demo", "b")
	if have := state(b, "b"); have != "192.0.2.201 2001:db8::201 True AsExpected" {
		t.Errorf("the second Service has %s", have)
	}
	b.Reconcile("demo", "a")
	if have := state(b, "a"); have != "192.0.2.200 2001:db8::200 True AsExpected" {
		t.Errorf("the first Service has %s", have)
	}
}

// poolState is the status of the pool as text: "<used>/<total> <address>@<node> ... <conditions>".
func poolState(b *kindtest.Bed) string {
	p := kindtest.Get(b, aPool())
	words := []string{fmt.Sprintf("%d/%d", p.Status.Used, p.Status.Total)}
	for _, a := range p.Status.Announcements {
		words = append(words, fmt.Sprintf("%s@%s", a.Address, a.Node))
	}
	for _, c := range p.Status.Conditions {
		text := c.Reason
		if c.Status != metav1.ConditionTrue {
			text += ": " + c.Message
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

func TestAnnouncement(t *testing.T) {
	const fine = " AsExpected AsExpected"
	rejected := &ovndb.RejectedError{Unit: pool, Err: errors.New("constraint violation")}
	ranges := func() *networkv1alpha1.LoadBalancerPool { return aPool("192.0.2.200-192.0.2.209", "2001:db8::200/120") }
	routed := func() *networkv1alpha1.LoadBalancerPool {
		p := ranges()
		p.Spec.AnnounceOnSegment = new(false)
		return p
	}
	advertisement := &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: networkv1alpha1.BGPAdvertisementSpec{LoadBalancers: &networkv1alpha1.BGPLoadBalancers{Pools: []string{"pool"}}}}
	older := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(50, 0)}
	}
	local := aService("web", on("192.0.2.200"), func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	slice := func() client.Object {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.7"}, NodeName: new("n1")}, {Addresses: []string{"10.244.2.7"}, NodeName: new("n2"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}}}
	}
	selecting := func(name, former string) *networkv1alpha1.LoadBalancerPool { // by label
		p := ranges()
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
		if former != "" {
			p.Status.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": former}}
		}
		return p
	}
	egress := &networkv1alpha1.EgressIP{ObjectMeta: older("out")}
	egress.Spec.EgressIPs = []networkv1alpha1.EgressAddress{"192.0.2.203"}
	ippool := &networkv1alpha1.IPPool{ObjectMeta: older("floating")}
	ippool.Spec.Location, ippool.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.204/30"}}
	overlay, yields := ippool.DeepCopy(), ippool.DeepCopy()
	overlay.Spec.Location = networkv1alpha1.LocationOverlay
	yields.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: networkv1alpha1.ReasonRangeOverlaps}}
	narrowed := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "narrowed", CreationTimestamp: metav1.Unix(1000, 0)}}
	narrowed.Spec.Location, narrowed.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.240/30"}}
	stranded := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "nat"}, Spec: networkv1alpha1.FloatingIPSpec{
		Address: "192.0.2.205", Pool: "narrowed", Holder: &networkv1alpha1.FloatingIPHolder{APIVersion: "v1", Kind: "Pod",
			Namespace: "demo", Name: "web", Pod: "web", PodUID: "uid-web"}}}
	other := &networkv1alpha1.LoadBalancerPool{ObjectMeta: older("first")}
	other.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.209-192.0.2.220"}
	overlap := func(text string) string {
		return "0/266 RangeOverlaps: range 192.0.2.200-192.0.2.209 of LoadBalancerPool pool overlaps " + text + " AsExpected"
	}
	for name, c := range map[string]struct {
		pool    *networkv1alpha1.LoadBalancerPool
		objects []client.Object
		silent  []string
		fails   error
		rows    []string // "<address>@<node>"
		state   string
		events  []string // a part of each
	}{
		"no Service": {pool: ranges(), state: "0/266" + fine},
		"an address that a pod still has of a NAT pool that was narrowed": {pool: ranges(),
			objects: []client.Object{narrowed, stranded}, state: overlap("192.0.2.205 of IPPool narrowed"),
			events: []string{"overlaps 192.0.2.205"}},
		"no node answers for a pool that BGP alone announces": {pool: routed(), objects: []client.Object{aService("web", on("192.0.2.200")),
			advertisement}, state: "1/266" + fine},
		"nothing announces a pool": {pool: routed(), objects: []client.Object{aService("web", on("192.0.2.200"))},
			state: "1/266 AsExpected NotAdvertised: spec.announceOnSegment is false, and no BGPAdvertisement selects the pool"},
		"one node answers for each address": {pool: ranges(), objects: []client.Object{aService("web", on("192.0.2.200", "2001:db8::200"))},
			rows: []string{"192.0.2.200@n2", "2001:db8::200@n1"}, state: "2/266 192.0.2.200@n2 2001:db8::200@n1" + fine,
			events: []string{"Announcing Service demo/web: node n2 answers for 192.0.2.200",
				"Announcing Service demo/web: node n1 answers for 2001:db8::200"}},
		"its agent does not respond": {pool: ranges(), objects: []client.Object{aService("web", on("192.0.2.200"))}, silent: []string{"n2"},
			rows: []string{"192.0.2.200@n1"}, state: "1/266 192.0.2.200@n1" + fine, events: []string{"node n1 answers for 192.0.2.200"}},
		"another's Service": {pool: ranges(), objects: []client.Object{aService("web", on("192.0.2.200"), func(s *corev1.Service) {
			s.Status.Conditions = nil
		})}, state: "0/266" + fine},
		"only nodes with endpoints": {pool: ranges(), objects: []client.Object{local.DeepCopy(), slice()}, rows: []string{"192.0.2.200@n1"},
			state: "1/266 192.0.2.200@n1" + fine, events: []string{"node n1 answers for 192.0.2.200"}},
		"no endpoints": {pool: ranges(), objects: []client.Object{local.DeepCopy()},
			state:  "1/266 AsExpected NoLocalEndpoints: 192.0.2.200: externalTrafficPolicy is Local, and no ready endpoint is on n1, n2",
			events: []string{"Warning NoLocalEndpoints Service demo/web: no node answers for 192.0.2.200"}},
		"a selector of no node": {pool: selecting("x", ""), objects: []client.Object{aService("web", on("192.0.2.200"))},
			state:  "1/266 AsExpected NoEligibleNode: 192.0.2.200: the pool's nodeSelector selects no node",
			events: []string{"Warning NoEligibleNode"}},
		"a selector of no node instead": {pool: selecting("x", "n1"), objects: []client.Object{aService("web", on("192.0.2.200"))},
			rows: []string{"192.0.2.200@n1"}, events: []string{"node n1 answers for 192.0.2.200"}, state: "1/266 192.0.2.200@n1 AsExpected " +
				"NoEligibleNode: spec.nodeSelector selects no node; the nodes of the former selector go on: name=n1"},
		"a selector of no node instead of none": {pool: withFormerAll(selecting("x", "")),
			state: "0/266 AsExpected NoEligibleNode: spec.nodeSelector selects no node; the nodes of the former selector go on: all"},
		"a selector of another node": {pool: selecting("n2", "n1"), objects: []client.Object{aService("web", on("192.0.2.200"))},
			rows: []string{"192.0.2.200@n2"}, events: []string{"node n2 answers for 192.0.2.200"}, state: "1/266 192.0.2.200@n2" + fine},
		"an address elsewhere": {pool: aPool("198.51.100.7"), objects: []client.Object{aService("web", on("198.51.100.7"))},
			state:  "1/1 AsExpected NotOnNodeNetwork: 198.51.100.7: it is in no network of the link to the outside of n1, n2",
			events: []string{"Warning NotOnNodeNetwork Service demo/web"}},
		"the database refuses it": {pool: ranges(), objects: []client.Object{aService("web", on("192.0.2.200"))}, fails: rejected,
			rows: []string{"192.0.2.200@n2"}, state: "1/266 AsExpected DatabaseRefused: " + rejected.Error()},
		"a node": {pool: aPool("192.0.2.1-192.0.2.9"), events: []string{"Warning RangeOverlaps"},
			state: "0/9 RangeOverlaps: range 192.0.2.1-192.0.2.9 of LoadBalancerPool pool overlaps 192.0.2.1 of node n1 AsExpected"},
		"a router": {pool: aPool("192.0.2.254"), events: []string{"Warning RangeOverlaps"},
			state: "0/1 RangeOverlaps: range 192.0.2.254 of LoadBalancerPool pool overlaps 192.0.2.254 of a router " +
				"that node n1 sends to AsExpected"},
		"all hosts": {pool: aPool("192.0.2.255"), events: []string{"Warning RangeOverlaps"},
			state: "0/1 RangeOverlaps: range 192.0.2.255 of LoadBalancerPool pool overlaps 192.0.2.255 of all hosts of 192.0.2.0/24, " +
				"the network of node n1's link outside AsExpected"},
		"pods": {pool: aPool("10.244.0.0/24"), events: []string{"Warning RangeOverlaps"},
			state: "0/256 RangeOverlaps: range 10.244.0.0-10.244.0.255 of LoadBalancerPool pool overlaps 10.244.0.0-10.244.255.255 of " +
				"ClusterNetwork's spec.clusterNetwork AsExpected"},
		"an EgressIP": {pool: ranges(), objects: []client.Object{egress}, events: []string{"Warning RangeOverlaps"},
			state: overlap("192.0.2.203 of EgressIP out")},
		"an IPPool": {pool: ranges(), objects: []client.Object{ippool}, events: []string{"Warning RangeOverlaps"},
			state: overlap("192.0.2.204-192.0.2.207 of IPPool floating")},
		"an Overlay IPPool":     {pool: ranges(), objects: []client.Object{overlay}, state: "0/266" + fine},
		"an IPPool that yields": {pool: ranges(), objects: []client.Object{yields}, state: "0/266" + fine},
		"another pool": {pool: ranges(), objects: []client.Object{other}, events: []string{"Warning RangeOverlaps"},
			state: overlap("192.0.2.209-192.0.2.220 of LoadBalancerPool first")},
		"an address of another pool": {pool: ranges(), objects: []client.Object{other.DeepCopy(), aService("web", on("192.0.2.200")),
			aService("shop", on("192.0.2.209"))}, rows: []string{"192.0.2.200@n2"},
			state:  "1/266 192.0.2.200@n2" + strings.TrimPrefix(overlap("192.0.2.209-192.0.2.220 of LoadBalancerPool first"), "0/266"),
			events: []string{"Service demo/web: node n2 answers for 192.0.2.200", "Warning RangeOverlaps"}},
		"a bad range": {pool: aPool("192.0.2.1/24"), events: []string{"Warning InvalidSpec"},
			state: `0/0 InvalidSpec: spec.addresses[0]: CIDR "192.0.2.1/24" has host bits, write 192.0.2.0/24 AsExpected`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.silent, append(slices.Clone(c.objects), client.Object(c.pool))...)
			if c.fails != nil {
				b.Database.Refusals[pool] = c.fails
			}
			have := b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool")
			var want []string
			for _, row := range c.rows {
				address, node, _ := strings.Cut(row, "@")
				want = append(want, "NAT 0 external_ip="+address+" logical_ip="+address+" match=0 type=snat",
					"Logical_Router GR_"+node+": nat += 0",
					"Address_Set "+names.RouterAddresses(node, names.Family(netip.MustParseAddr(address)))+": addresses += "+address)
			}
			slices.Sort(want)
			if rows := slices.Sorted(slices.Values(have.Units[pool])); !slices.Equal(rows, want) {
				t.Errorf("rows %v, want %v", rows, want)
			}
			if state := poolState(b); state != c.state {
				t.Errorf("status %s\nwant   %s", state, c.state)
			}
			if !slices.EqualFunc(have.Events, c.events, strings.Contains) {
				t.Errorf("events %v, want %v", have.Events, c.events)
			}
			again := b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool")
			if len(again.Writes) > 0 || len(again.Events) > 0 {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
}

// In Local mode the host of the chosen node answers, unless its agent is older.
func TestHostsAnswer(t *testing.T) {
	for _, able := range []bool{true, false} {
		b := newBed(t, nil, aPool("192.0.2.200-192.0.2.209"), aService("web", on("192.0.2.200")))
		for _, id := range []int{1, 2} {
			node, nn := kindtest.Node(t, id, "46")
			gateway := nn.Status.Gateway
			gateway.Mode, gateway.Bridge, gateway.MACAddress, gateway.AnswersForAddresses = networkv1alpha1.GatewayLocal, "", "", able
			b.Update(nn)
			read, err := facts.ParseGateway(nn, node)
			if err != nil {
				t.Fatal(err)
			}
			b.Seed(topology.GatewayUnit(read))
		}
		key := topology.LoadBalancerPoolKey("pool")
		rows := b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool").Units[key]
		want := []string{"Address_Set " + names.AnsweredAddresses("n2", "IPv4") + ": addresses += 192.0.2.200"}
		state := "1/10 192.0.2.200@n2 AsExpected AsExpected"
		if !able {
			want = nil
			state = "1/10 AsExpected NoEligibleNode: 192.0.2.200: n1, n2 have no gateway router, or no agent that can answer, yet"
		}
		if !slices.Equal(rows, want) || poolState(b) != state {
			t.Errorf("rows %v, status %s; want %v, %s", rows, poolState(b), want, state)
		}
	}
}

// A move is an event of the Service that names both nodes.
func TestMove(t *testing.T) {
	p := aPool("192.0.2.200-192.0.2.209")
	p.Status.Announcements = []networkv1alpha1.LoadBalancerAnnouncement{{Address: "192.0.2.200", Node: "n2"}}
	b := newBed(t, []string{"n2"}, p, aService("web", on("192.0.2.200")))
	have := b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool")
	want := []string{"Normal Announcing Service demo/web: node n1 answers for 192.0.2.200 instead of node n2"}
	if !slices.Equal(have.Events, want) {
		t.Errorf("events %v, want %v", have.Events, want)
	}
}

// A node in a zone answers too. Its zone's operator writes the rows, because its gateway router is in another database.
func TestNodesOfZonesAnswer(t *testing.T) {
	p := aPool("192.0.2.200-192.0.2.209")
	p.Status.Announcements = []networkv1alpha1.LoadBalancerAnnouncement{{Address: "192.0.2.200", Node: "n2"}}
	b := newBed(t, []string{"n1"}, p, aService("web", on("192.0.2.200")))
	_, nn := kindtest.Node(t, 2, "46")
	nn.Spec.Zone = "east"
	b.Update(nn)
	rows := b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool").Units[topology.LoadBalancerPoolKey("pool")]
	if state := poolState(b); !strings.Contains(state, "192.0.2.200@n2") || len(rows) > 0 {
		t.Errorf("with n2 in a zone: %s, rows %v", state, rows)
	}
}

// While the database is away, nothing is decided.
func TestDatabaseIsAway(t *testing.T) {
	b := newBed(t, nil, aPool("192.0.2.200-192.0.2.209"), aService("web", on("192.0.2.200")))
	b.Database.Away = true
	kindtest.Expect(t, kindtest.Outcome{}, b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool"))
}

func TestDeletion(t *testing.T) {
	p := aPool("192.0.2.200-192.0.2.209")
	b := newBed(t, nil, p)
	b.Delete(p)
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{pool: nil}}, b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool"))
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("demo", "gone"))
}

// The request for all enqueues each pool.
func TestAll(t *testing.T) {
	b := newBed(t, nil, aPool("192.0.2.200-192.0.2.209"))
	kindtest.Expect(t, kindtest.Outcome{Enqueued: []string{"loadbalancerpool pool"}}, b.ReconcileKind(topology.KindLoadBalancerPool, "", ""))
}

// Services keep the addresses that a pool gave them, and a node answers for them, whatever changes in the pool, until they give them
// up or a person confirms the loss. The pool's condition names them.
func TestServicesKeepAddressesOfANarrowedPool(t *testing.T) {
	for name, narrow := range map[string]func(*networkv1alpha1.LoadBalancerPool){
		"addresses": func(p *networkv1alpha1.LoadBalancerPool) {
			p.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.230", "2001:db8::230"}
		},
		"serviceSelector": func(p *networkv1alpha1.LoadBalancerPool) {
			p.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
		},
		"namespaceSelector": func(p *networkv1alpha1.LoadBalancerPool) {
			p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
		},
		"loadBalancerClass":    func(p *networkv1alpha1.LoadBalancerPool) { p.Spec.LoadBalancerClass = "weft.dev/inner" },
		"servicesWithoutClass": func(p *networkv1alpha1.LoadBalancerPool) { p.Spec.ServicesWithoutClass = false },
	} {
		t.Run(name, func(t *testing.T) {
			service := aService("web")
			if name == "loadBalancerClass" {
				service.Spec.LoadBalancerClass = new("weft.dev/load-balancer")
			}
			b := newBed(t, nil, aPool("192.0.2.200-192.0.2.209", "2001:db8::200/120"), service)
			settle := func() (last kindtest.Outcome) {
				for range 3 {
					last = b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool")
					if now := b.Reconcile("demo", "web"); last.Err+now.Err != "" {
						t.Fatal(last.Err, now.Err)
					}
				}
				return last
			}
			change := func(f func(*networkv1alpha1.LoadBalancerPool)) {
				p := kindtest.Get(b, aPool())
				f(p)
				p.Generation++
				b.Update(p)
			}
			settle()
			const had = "192.0.2.200 2001:db8::200 True AsExpected"
			if have := state(b, "web"); have != had {
				t.Fatalf("the Service has %s", have)
			}
			announced := strings.Join(strings.Fields(poolState(b))[1:3], " ")
			change(narrow)
			settle()
			if have := state(b, "web"); have != had {
				t.Errorf("then the Service has %s", have)
			}
			p := kindtest.Get(b, aPool())
			ready := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionReady)
			const kept = "keep 2 that it does not give any more: 192.0.2.200 of Service demo/web, 2001:db8::200 of Service demo/web"
			if ready.Reason != networkv1alpha1.ReasonAddressesKept || !strings.Contains(ready.Message, kept) || p.Status.Used != 2 {
				t.Errorf("%d used, %+v", p.Status.Used, ready)
			}
			if have := poolState(b); !strings.Contains(have, announced) {
				t.Errorf("nodes answered for %s, and now: %s", announced, have)
			}
			change(func(p *networkv1alpha1.LoadBalancerPool) {
				p.Annotations = map[string]string{networkv1alpha1.ConfirmLossAnnotation: "pool"}
			})
			settle()
			if have := state(b, "web"); strings.Contains(have, "192.0.2.200") {
				t.Errorf("after the confirmation the Service has %s", have)
			}
			if have := poolState(b); strings.Contains(have, networkv1alpha1.ReasonAddressesKept) {
				t.Errorf("after the confirmation: %s", have)
			}
		})
	}
}

// withFormerAll makes a pool's last selector that selected a node the selector of all nodes.
func withFormerAll(pool *networkv1alpha1.LoadBalancerPool) *networkv1alpha1.LoadBalancerPool {
	pool.Status.NodeSelector = &metav1.LabelSelector{}
	return pool
}

// For Services that share an address with externalTrafficPolicy Local, a node with endpoints of all answers, or else one of the first.
func TestNodesOfServicesThatShareAnAddress(t *testing.T) {
	local := func(namespace string, nodes ...string) (*corev1.Service, *discoveryv1.EndpointSlice) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
		for _, node := range nodes {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.244.0.9"}, NodeName: &node})
		}
		return s, slice
	}
	for name, c := range map[string]struct{ first, second, want []string }{
		"one of both":           {[]string{"n1", "n2"}, []string{"n2", "n3"}, []string{"n2"}},
		"none of both":          {[]string{"n1"}, []string{"n2"}, []string{"n1"}},
		"the second has none":   {[]string{"n1", "n2"}, nil, []string{"n1", "n2"}},
		"the first has none":    {nil, []string{"n2"}, nil},
		"the same":              {[]string{"n1", "n2"}, []string{"n1", "n2"}, []string{"n1", "n2"}},
		"the first is narrower": {[]string{"n1"}, []string{"n1", "n2"}, []string{"n1"}},
	} {
		a, ofA := local("demo", c.first...)
		b, ofB := local("shop", c.second...)
		bed := kindtest.New(t, Kinds, KindAddresses, nil, ofA, ofB)
		have, err := (&Pools{Client: bed.Env.Client}).localNodes(t.Context(), []*corev1.Service{a, b})
		if err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(maps.Keys(have)); !slices.Equal(names, c.want) || have == nil {
			t.Errorf("%s: %v, want %v", name, names, c.want)
		}
	}
}
