package floatingip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/test/kindtest"
)

// aPool returns an IPPool that was created at second 100.
func aPool(location networkv1alpha1.IPPoolLocation, ranges ...string) *networkv1alpha1.IPPool {
	p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-web", Generation: 3}}
	p.CreationTimestamp = metav1.Unix(100, 0)
	p.Spec.Location, p.Spec.Namespaces = location, &metav1.LabelSelector{}
	for _, r := range ranges {
		p.Spec.Ranges = append(p.Spec.Ranges, networkv1alpha1.IPPoolRange{Addresses: r})
	}
	return p
}

// ready returns the condition Ready of the IPPool "web" as text.
func ready(b *kindtest.Bed) string {
	p := kindtest.Get(b, &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	text := ""
	for _, c := range p.Status.Conditions {
		text += string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return text
}

// Of a NAT pool and an EgressIP or a LoadBalancerPool with one of its addresses, the younger one yields. A Service with such an address
// yields only at an address that the pool has in force. The pool's condition names both.
func TestPoolsAndOtherObjects(t *testing.T) {
	egress := func(second int64, addresses ...networkv1alpha1.EgressAddress) client.Object {
		e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out", CreationTimestamp: metav1.Unix(second, 0)}}
		e.Spec.EgressIPs = addresses
		return e
	}
	service := func(second int64, change func(*corev1.Service)) client.Object {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", CreationTimestamp: metav1.Unix(second, 0)}}
		s.Spec.ClusterIPs, s.Spec.Ports = []string{"10.96.0.9", "fd00:10:96::9"}, []corev1.ServicePort{{Port: 80}}
		change(s)
		return s
	}
	external := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"2001:db8::15"} }
	balanced := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.15"}}
	}
	balancers := func(second int64, change ...func(*networkv1alpha1.LoadBalancerPool)) client.Object {
		p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", Generation: 1,
			CreationTimestamp: metav1.Unix(second, 0)}}
		p.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.16/28"}
		for _, c := range change {
			c(p)
		}
		return p
	}
	refused := func(p *networkv1alpha1.LoadBalancerPool) {
		p.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
			Reason: networkv1alpha1.ReasonRangeOverlaps, ObservedGeneration: 1}}
	}
	const inForce = "True AsExpected: pods can get addresses of the pool"
	const four = "False RangeOverlaps: range 192.0.2.10-192.0.2.19 of IPPool web overlaps "
	const six = "False RangeOverlaps: range 2001:db8::10-2001:db8::1f of IPPool web overlaps "
	for name, c := range map[string]struct {
		other client.Object
		want  string
	}{
		"an older EgressIP":                    {egress(50, "192.0.2.1", "192.0.2.12"), four + "192.0.2.12 of EgressIP out"},
		"an EgressIP of the same second":       {egress(100, "2001:db8::12"), six + "2001:db8::12 of EgressIP out"},
		"a younger EgressIP":                   {egress(150, "192.0.2.12"), inForce},
		"an external IP of an older Service":   {service(50, external), six + "2001:db8::15 of Service demo/shop"},
		"an external IP of a younger Service":  {service(150, external), six + "2001:db8::15 of Service demo/shop"},
		"a balancer of an older Service":       {service(50, balanced), four + "192.0.2.15 of Service demo/shop"},
		"a load balancer of a younger Service": {service(150, balanced), four + "192.0.2.15 of Service demo/shop"},
		"an older LoadBalancerPool":            {balancers(50), four + "192.0.2.16-192.0.2.31 of LoadBalancerPool edge"},
		"an older refused LoadBalancerPool":    {balancers(50, refused), inForce},
		"an older refused LoadBalancerPool in use": {balancers(50, refused, func(p *networkv1alpha1.LoadBalancerPool) { p.Status.Used = 1 }),
			four + "192.0.2.16-192.0.2.31 of LoadBalancerPool edge"},
		"what a Service keeps of an older LoadBalancerPool": {balancers(50, func(p *networkv1alpha1.LoadBalancerPool) {
			p.Spec.Addresses, p.Status.InUse = []networkv1alpha1.LoadBalancerRange{"192.0.2.240"}, []networkv1alpha1.IP{"192.0.2.15"}
		}), four + "192.0.2.15 of LoadBalancerPool edge"},
		"a LoadBalancerPool of the same second":   {balancers(100), inForce},
		"a younger LoadBalancerPool":              {balancers(150), inForce},
		"an older Service without such addresses": {service(50, func(*corev1.Service) {}), inForce},
	} {
		t.Run(name, func(t *testing.T) {
			pool := aPool(networkv1alpha1.LocationNAT, "192.0.2.10-192.0.2.19", "2001:db8::10-2001:db8::1f")
			b := kindtest.New(t, Kinds, KindIPPool, nil, kindtest.ClusterNetwork("46"), pool, c.other)
			if have := b.Reconcile("", "web"); have.Err != "" {
				t.Fatal(have.Err)
			}
			if have := ready(b); have != c.want {
				t.Errorf("condition %q, want %q", have, c.want)
			}
			if have := b.Reconcile("", "web"); len(have.Writes) > 0 {
				t.Errorf("a second reconciliation writes %v", have.Writes)
			}
		})
	}
}

// The ranges in force are the ranges of the last accepted spec. In them, no Service makes the pool not ready, nor another pool.
func TestRangesInForce(t *testing.T) {
	const former, wider = "192.0.2.10-192.0.2.19", "192.0.2.10-192.0.2.29"
	pool := aPool(networkv1alpha1.LocationNAT, former)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", CreationTimestamp: metav1.Unix(50, 0)}}
	s.Spec.ClusterIPs, s.Spec.Ports = []string{"10.96.0.9"}, []corev1.ServicePort{{Port: 80}}
	b := kindtest.New(t, Kinds, KindIPPool, nil, kindtest.ClusterNetwork("46"), pool, s,
		anAddress("192.0.2.11", "db", "uid-db", nil))
	for _, step := range []struct {
		name, externalIP, ranges string
		want                     string // <status> <reason>
		inForce                  []string
	}{
		{"a new pool", "", former, "True AsExpected", []string{former}},
		{"an external IP in its ranges", "192.0.2.15", former, "True AsExpected", []string{former}},
		{"an external IP beside them", "192.0.2.25", former, "True AsExpected", []string{former}},
		{"a range with the external IP", "192.0.2.25", wider, "False RangeOverlaps", []string{former}},
		{"the Service lets go", "", wider, "True AsExpected", []string{wider}},
		{"the external IP comes back", "192.0.2.25", wider, "True AsExpected", []string{wider}},
		{"a range without an address in use", "192.0.2.25", "192.0.2.12-192.0.2.19", "False RangeInUse", []string{wider}},
		{"a range of the cluster", "192.0.2.25", "10.244.0.0/24", "False RangeOverlaps", []string{wider}},
		{"the former range", "192.0.2.25", former, "True AsExpected", []string{former}},
	} {
		changed, service := kindtest.Get(b, aPool("")), kindtest.Get(b, s)
		if changed.Spec.Ranges[0].Addresses != step.ranges {
			changed.Generation++
		}
		changed.Spec.Ranges[0].Addresses, service.Spec.ExternalIPs = step.ranges, nil
		if step.externalIP != "" {
			service.Spec.ExternalIPs = []string{step.externalIP}
		}
		b.Update(changed)
		b.Update(service)
		if have := b.Reconcile("", "web"); have.Err != "" {
			t.Fatal(have.Err)
		}
		if have := ready(b); !strings.HasPrefix(have, step.want) || step.want == "False RangeOverlaps" && step.ranges == wider &&
			!strings.Contains(have, "192.0.2.25 of Service demo/shop") {
			t.Errorf("%s: condition %q, want %s", step.name, have, step.want)
		}
		if have := kindtest.Get(b, aPool("")).Status.Ranges; !slices.Equal(have, step.inForce) {
			t.Errorf("%s: %v is in force, want %v", step.name, have, step.inForce)
		}
		if have := b.Reconcile("", "web"); len(have.Writes) > 0 {
			t.Errorf("%s: a second reconciliation writes %v", step.name, have.Writes)
		}
	}
}

// The FloatingIPs of a deleted pool, and their pods, are enqueued once: each enqueues the pool again.
func TestADeletedPoolIsForgottenOnce(t *testing.T) {
	held := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.10"}}
	held.Spec = networkv1alpha1.FloatingIPSpec{Address: "192.0.2.10", Pool: "web", Holder: &networkv1alpha1.FloatingIPHolder{
		APIVersion: "v1", Kind: "Pod", Namespace: "demo", Name: "shop", UID: "uid-shop", Pod: "shop", PodUID: "uid-shop"}}
	pool := aPool(networkv1alpha1.LocationNAT, "192.0.2.10-192.0.2.19")
	b := kindtest.New(t, Kinds, KindIPPool, nil, kindtest.ClusterNetwork("46"), pool, held)
	b.Reconcile("", "web")
	b.Delete(pool)
	for i, want := range []bool{true, false} {
		have := b.Reconcile("", "web")
		if enqueued := len(have.Enqueued) > 0; enqueued != want || have.Err != "" {
			t.Errorf("reconciliation %d after the deletion enqueues %v, %s", i+1, have.Enqueued, have.Err)
		}
	}
}

// An Underlay pool skips what its Network excludes and what the segment's nodes, routers, EgressIPs and load balancers have.
// The status lists it, and the condition names the reasons.
func TestUnderlayPoolsSkipAddressesOfOthers(t *testing.T) {
	network := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "rack"}}
	network.Spec = networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLocalnet, PhysicalNetwork: "physnet",
		Subnets:        []networkv1alpha1.NetworkSubnet{{CIDR: "192.0.2.0/28"}, {CIDR: "2001:db8::/64"}},
		ExcludeSubnets: []networkv1alpha1.CIDR{"192.0.2.8/30"}}
	pool := aPool(networkv1alpha1.LocationUnderlay, "192.0.2.0/28", "2001:db8::-2001:db8::7")
	pool.Spec.Network = "rack"
	node, nn := kindtest.Node(t, 1, "46")
	nn.Status.Gateway.NextHops = []networkv1alpha1.IP{"192.0.2.4"}
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "out", CreationTimestamp: metav1.Unix(150, 0)}}
	e.Spec.EgressIPs = []networkv1alpha1.EgressAddress{"192.0.2.6", "192.0.2.13", "2001:db8::5"}
	e.Status.Former = []networkv1alpha1.IP{"192.0.2.7"}
	balancers := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: metav1.Unix(150, 0)}}
	balancers.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{"192.0.2.12-192.0.2.14"}
	balancers.Status.InUse = []networkv1alpha1.IP{"192.0.2.12"}
	b := kindtest.New(t, Kinds, KindIPPool, nil, kindtest.ClusterNetwork("46"), network, pool, node, nn, e, balancers,
		anAddress("192.0.2.13", "db", "uid-db", nil)) // a pod has it, so that the EgressIP does not get it
	if have := b.Reconcile("", "web"); have.Err != "" {
		t.Fatal(have.Err)
	}
	status := kindtest.Get(b, aPool("")).Status
	want := []string{"192.0.2.0-192.0.2.1", "192.0.2.4", "192.0.2.6-192.0.2.12", "192.0.2.15", "2001:db8::-2001:db8::1",
		"2001:db8::5"}
	if diff := cmp.Diff(want, status.Skipped); diff != "" {
		t.Errorf("skipped (-want +have):\n%s", diff)
	}
	if status.Total != 16-11+8-3 {
		t.Errorf("%d addresses", status.Total)
	}
	for _, part := range []string{"True AsExpected", "192.0.2.1 of node n1", "192.0.2.4 of a router", "192.0.2.15 of all hosts",
		"192.0.2.8-192.0.2.11 of spec.excludeSubnets of Network rack", "192.0.2.6 of EgressIP out", "192.0.2.7 of EgressIP out",
		"192.0.2.12 of LoadBalancerPool edge"} {
		if have := ready(b); !strings.Contains(have, part) {
			t.Errorf("condition %q lacks %q", have, part)
		}
	}
	if have := b.Reconcile("", "web"); len(have.Writes) > 0 {
		t.Errorf("a second reconciliation writes %v", have.Writes)
	}
	read, err := floating.ParseEffective(kindtest.Get(b, aPool("")))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"192.0.2.0", "192.0.2.1", "192.0.2.4", "192.0.2.6", "192.0.2.7", "192.0.2.9", "192.0.2.12",
		"192.0.2.15", "2001:db8::1"} {
		if _, has := read.SegmentOf(netip.MustParseAddr(address)); has {
			t.Errorf("a pod can get %s", address)
		}
	}
}

// anAddress returns a FloatingIP of IPPool "web". A pod has it if uid is not empty, else a workload keeps it if name is not empty.
func anAddress(address, name, uid string, labels map[string]string) *networkv1alpha1.FloatingIP {
	f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: address, UID: types.UID("uid-" + address), Labels: labels}}
	f.Spec = networkv1alpha1.FloatingIPSpec{Address: networkv1alpha1.EgressAddress(address), Pool: "web"}
	if name != "" {
		f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "demo", Name: name,
			Pod: name + "-0", PodUID: types.UID(uid), ReleasePolicy: networkv1alpha1.ReleaseNever}
	}
	return f
}

// A reservation survives every edit of its pool: other ranges, the pool's deletion and its return. It ends with its label.
func TestReservationsSurviveTheirPool(t *testing.T) {
	pool := aPool(networkv1alpha1.LocationNAT, "192.0.2.10-192.0.2.19")
	reserved := anAddress("192.0.2.12", "", "", map[string]string{networkv1alpha1.ReservedLabel: "firewall"})
	b := kindtest.New(t, Kinds, KindIPPool, nil, kindtest.ClusterNetwork("46"), pool, reserved, anAddress("192.0.2.13", "", "", nil))
	exists := func(when string, want bool) {
		t.Helper()
		for _, have := range []kindtest.Outcome{b.Reconcile("", "web"), b.ReconcileKind(KindFloatingIP, "", "192.0.2.12")} {
			if have.Err != "" {
				t.Fatal(have.Err)
			}
		}
		err := b.API.Get(t.Context(), client.ObjectKeyFromObject(reserved), &networkv1alpha1.FloatingIP{})
		if have := err == nil; have != want {
			t.Errorf("%s: the reserved FloatingIP exists: %t, want %t", when, have, want)
		}
	}
	ranges := func(addresses string) {
		changed := kindtest.Get(b, aPool(""))
		changed.Spec.Ranges[0].Addresses = addresses
		b.Update(changed)
	}
	exists("at first", true)
	ranges("192.0.2.18-192.0.2.19")
	exists("in a smaller pool", true)
	if have := ready(b); !strings.Contains(have, "reserved outside of its ranges: 192.0.2.12") {
		t.Errorf("condition %q does not name the reservation", have)
	}
	if err := b.API.Get(t.Context(), client.ObjectKey{Name: "192.0.2.13"}, &networkv1alpha1.FloatingIP{}); err == nil {
		t.Error("a FloatingIP that nobody has or reserved stays outside of the ranges")
	}
	ranges("192.0.2.10-192.0.2.19")
	exists("in the former pool", true)
	b.Delete(kindtest.Get(b, aPool("")))
	exists("without the pool", true)
	b.Create(aPool(networkv1alpha1.LocationNAT, "192.0.2.10-192.0.2.19"))
	exists("after the pool's return", true)
	ranges("192.0.2.18-192.0.2.19")
	freed := kindtest.Get(b, reserved)
	freed.Labels = nil
	b.Update(freed)
	b.ReconcileKind(KindFloatingIP, "", "192.0.2.12")
	exists("without its label", false)
}

// The condition of a pool that shrank names every address in use outside of its ranges, with its holder.
func TestAPoolThatShrankNamesTheHolders(t *testing.T) {
	pool := aPool(networkv1alpha1.LocationNAT, "192.0.2.18-192.0.2.19")
	b := kindtest.New(t, Kinds, KindIPPool, nil, kindtest.ClusterNetwork("46"), pool,
		anAddress("192.0.2.11", "db", "uid-db", nil), anAddress("192.0.2.12", "shop", "", nil), anAddress("192.0.2.18", "web", "", nil))
	if have := b.Reconcile("", "web"); have.Err != "" {
		t.Fatal(have.Err)
	}
	want := "False RangeInUse: IPPool web gives no further addresses until the following, which are in none of its ranges, are " +
		"released or in a range again: 192.0.2.11 of pod demo/db-0, 192.0.2.12 kept for StatefulSet demo/shop"
	if have := ready(b); have != want {
		t.Errorf("condition\n%s, want\n%s", have, want)
	}
}
