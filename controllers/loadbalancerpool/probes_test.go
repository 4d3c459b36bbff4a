package loadbalancerpool

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

const foreign = "02:aa:00:00:00:01"

// report writes the results of n1's probes: the MAC that answers, or "", by address.
func report(t *testing.T, b *kindtest.Bed, able bool, results map[networkv1alpha1.IP]networkv1alpha1.MACAddress) {
	t.Helper()
	_, nn := kindtest.Node(t, 1, "46")
	nn.Status.Gateway.ProbesAddresses = able
	for address, mac := range results {
		nn.Spec.ProbeAddresses = append(nn.Spec.ProbeAddresses,
			networkv1alpha1.AddressProbe{Address: address, RequestedAt: metav1.Unix(100, 0)})
		nn.Status.Probed = append(nn.Status.Probed,
			networkv1alpha1.ProbedAddress{Address: address, RequestedAt: metav1.Unix(100, 0), MACAddress: mac})
	}
	b.Update(nn)
}

// probes is what nodes must probe.
func probes(t *testing.T, b *kindtest.Bed) string {
	t.Helper()
	wanted, err := b.Env.ServiceProbes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(wanted, netip.Addr.Compare)
	return fmt.Sprint(wanted)
}

func ready(b *kindtest.Bed) string {
	p := kindtest.Get(b, aPool())
	c := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionReady)
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func only4(s *corev1.Service) {
	s.Spec.IPFamilies, s.Spec.ClusterIPs = s.Spec.IPFamilies[:1], s.Spec.ClusterIPs[:1]
}

// A Service gets an address when a node has found out that no foreign host has it. The pool names the addresses of foreign hosts.
func TestForeignHosts(t *testing.T) {
	type results = map[networkv1alpha1.IP]networkv1alpha1.MACAddress
	const (
		waits   = "False Probing: a node probes the segment for an IPv4 address of LoadBalancerPool pool"
		asked   = "False Probing: a node probes the segment for requested address 192.0.2.201"
		refused = "False AddressUnavailable: requested address 192.0.2.201: a host of the nodes' segment with MAC " + foreign + " has it"
		good    = "True AsExpected: Services can get addresses of the pool"
		named   = "True AddressInUse: Services can get addresses of the pool; they get none of 1 addresses that hosts outside of the " +
			"cluster have: "
	)
	request := func(s *corev1.Service) {
		s.Annotations = map[string]string{networkv1alpha1.LoadBalancerIPsAnnotation: "192.0.2.201"}
	}
	bgpOnly := func(p *networkv1alpha1.LoadBalancerPool) { p.Spec.AnnounceOnSegment = new(false) }
	type step struct {
		results             results
		state, probed, pool string
	}
	for name, c := range map[string]struct {
		service *corev1.Service
		old     bool
		pool    func(*networkv1alpha1.LoadBalancerPool)
		steps   []step
	}{
		"a new address": {service: aService("web", only4), steps: []step{
			{nil, waits, "[192.0.2.200]", good},
			{results{"192.0.2.200": ""}, "192.0.2.200 True AsExpected", "[]", good},
			{results{"192.0.2.200": foreign}, "192.0.2.200 True AsExpected", "[]", good},
		}},
		"a foreign host has the first": {service: aService("web", only4), steps: []step{
			{results{"192.0.2.200": foreign}, waits, "[192.0.2.200 192.0.2.201]", named + "192.0.2.200 (MAC " + foreign + ")"},
			{results{"192.0.2.200": foreign, "192.0.2.201": ""}, "192.0.2.201 True AsExpected", "[192.0.2.200]",
				named + "192.0.2.200 (MAC " + foreign + ")"},
			{results{"192.0.2.200": ""}, "192.0.2.201 True AsExpected", "[]", good},
		}},
		"a node answers": {service: aService("web", only4), steps: []step{
			{results{"192.0.2.200": "02:00:00:00:00:02"}, "192.0.2.200 True AsExpected", "[]", good},
		}},
		"a requested address": {service: aService("web", only4, request), steps: []step{
			{nil, asked, "[192.0.2.201]", good},
			{results{"192.0.2.201": foreign}, refused, "[192.0.2.201]", named + "192.0.2.201 (MAC " + foreign + ")"},
			{results{"192.0.2.201": ""}, "192.0.2.201 True AsExpected", "[]", good},
		}},
		"two families": {service: aService("web"), steps: []step{
			{results{"192.0.2.200": ""}, strings.ReplaceAll(waits, "IPv4", "IPv6"), "[192.0.2.200 2001:db8::200]", good},
			{results{"192.0.2.200": "", "2001:db8::200": ""}, "192.0.2.200 2001:db8::200 True AsExpected", "[]", good},
		}},
		"an address that it has": {service: aService("web", only4, on("192.0.2.203")), steps: []step{
			{nil, "192.0.2.203 True AsExpected", "[]", good},
			{results{"192.0.2.203": foreign}, "192.0.2.203 True AsExpected", "[]", good},
		}},
		"old agents": {service: aService("web", only4), old: true, steps: []step{{nil, "192.0.2.200 True AsExpected", "[]", good}}},
		"a pool that no node answers for": {service: aService("web", only4), pool: bgpOnly, steps: []step{
			{results{"192.0.2.200": foreign}, "192.0.2.200 True AsExpected", "[]", good},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := aPool("192.0.2.200-192.0.2.203", "2001:db8::200/120")
			if c.pool != nil {
				c.pool(p)
			}
			b := newBed(t, nil, p, c.service)
			for i, s := range c.steps {
				report(t, b, !c.old, s.results)
				have := b.Reconcile("demo", "web")
				b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool")
				if text := state(b, "web"); text != s.state || ready(b) != s.pool {
					t.Errorf("step %d: status %q, want %q; pool %q, want %q", i, text, s.state, ready(b), s.pool)
				}
				if wanted := probes(t, b); wanted != s.probed {
					t.Errorf("step %d: nodes must probe %s, want %s", i, wanted, s.probed)
				}
				if probes := b.Env.Triggers.Of(kind.AddressProbe).Take(); (len(probes) > 0) != strings.Contains(s.state, "Probing") {
					t.Errorf("step %d: requests to probe: %v", i, probes)
				}
				for _, event := range have.Events {
					if strings.Contains(event, "Probing") {
						t.Errorf("step %d: event %s", i, event)
					}
				}
				b.Env.Triggers.Of(kind.AddressProbe).Take()
				again, pool := b.Reconcile("demo", "web"), b.ReconcileKind(topology.KindLoadBalancerPool, "", "pool")
				if len(again.Writes)+len(pool.Writes) > 0 {
					t.Errorf("step %d: again: %v %v", i, again.Writes, pool.Writes)
				}
				b.Env.Triggers.Of(kind.AddressProbe).Take()
			}
		})
	}
}

// Services that wait at the same time wait for different addresses, so that a node probes them together.
func TestServicesWaitTogether(t *testing.T) {
	b := newBed(t, nil, aPool("192.0.2.200-192.0.2.209"), aService("a", only4), aService("b", only4), aService("c", only4, on("192.0.2.201")))
	report(t, b, true, nil)
	if have := probes(t, b); have != "[192.0.2.200 192.0.2.202]" {
		t.Errorf("nodes must probe %s", have)
	}
	report(t, b, true, map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.202": ""})
	b.Reconcile("demo", "a")
	if have := state(b, "a"); have != "192.0.2.202 True AsExpected" {
		t.Errorf("the first to be reconciled does not get what was probed first: %s", have)
	}
}

// All Services that wait are decided about together. Many Services of a namespace do not keep the addresses, nor the probes, from another.
func TestNoNamespaceLetsAnotherWait(t *testing.T) {
	b := newBed(t, nil, aPool("192.0.2.200-192.0.2.202"), aService("young", only4, func(s *corev1.Service) {
		s.Namespace, s.CreationTimestamp = "other", metav1.Unix(300, 0)
	}))
	b.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	for i := range 9 {
		b.Create(aService(fmt.Sprintf("s%d", i), only4))
	}
	report(t, b, true, nil)
	if have := probes(t, b); have != "[192.0.2.200 192.0.2.201 192.0.2.202]" {
		t.Errorf("nodes must probe %s", have)
	}
	report(t, b, true, map[networkv1alpha1.IP]networkv1alpha1.MACAddress{"192.0.2.200": "", "192.0.2.201": "", "192.0.2.202": ""})
	if have := b.Reconcile(All.Namespace, All.Name); have.Err != "" || len(have.Writes) != 10 {
		t.Errorf("%d Services are written: %v, %s", len(have.Writes), have.Writes, have.Err)
	}
	have := map[string]string{"other/young": "", "demo/s0": "", "demo/s1": "", "demo/s2": "", "demo/s8": ""}
	for name := range have {
		namespace, name, _ := strings.Cut(name, "/")
		s := kindtest.Get(b, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
		have[namespace+"/"+name] = strings.TrimSpace(fmt.Sprint(lbpool.AddressesOf(s), " ", c.Reason))
	}
	want := map[string]string{"demo/s0": "[192.0.2.200] AsExpected", "other/young": "[192.0.2.201] AsExpected",
		"demo/s1": "[192.0.2.202] AsExpected", "demo/s2": "[] PoolExhausted", "demo/s8": "[] PoolExhausted"}
	if !maps.Equal(have, want) {
		t.Errorf("the Services have %v, want %v", have, want)
	}
	if again := b.Reconcile(All.Namespace, All.Name); len(again.Writes) > 0 {
		t.Errorf("again: %v", again.Writes)
	}
	for i := range 2 * maxTogether {
		b.Create(aService(fmt.Sprintf("t%d", i), only4))
	}
	if many := b.Reconcile(All.Namespace, All.Name); len(many.Writes) != maxTogether || many.Result.RequeueAfter == 0 {
		t.Errorf("of many Services, %d are written, and the result is %+v", len(many.Writes), many.Result)
	}
}

// A Service passes over more foreign hosts than stay probed while no Service waits.
func TestManyForeignHosts(t *testing.T) {
	b := newBed(t, nil, aPool("192.0.2.100-192.0.2.249"), aService("web", only4))
	results := map[networkv1alpha1.IP]networkv1alpha1.MACAddress{}
	for n := range maxKnown + 1 {
		results[networkv1alpha1.IP(fmt.Sprintf("192.0.2.%d", 100+n))] = foreign
	}
	report(t, b, true, results)
	const next = "192.0.2.229"
	if have := strings.Fields(probes(t, b)); len(have) != maxKnown+2 || !strings.Contains(strings.Join(have, " "), next) {
		t.Errorf("nodes must probe %d addresses: %v", len(have), have)
	}
	results[next] = ""
	report(t, b, true, results)
	b.Reconcile("demo", "web")
	if have := state(b, "web"); have != next+" True AsExpected" {
		t.Errorf("status %q", have)
	}
	if have := strings.Fields(probes(t, b)); len(have) != maxKnown {
		t.Errorf("nodes must go on to probe %d addresses: %v", len(have), have)
	}
}
