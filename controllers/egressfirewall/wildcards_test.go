package egressfirewall

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

const wildcard = "*.example.org"

// aNodeThatObserved is a node that reports addresses of the wildcard.
func aNodeThatObserved(name string, addresses ...networkv1alpha1.IP) *networkv1alpha1.NodeNetwork {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	nn.Status.Wildcards = []networkv1alpha1.ObservedWildcard{{Name: "*.example.com", Addresses: []networkv1alpha1.IP{"192.0.2.99"}},
		{Name: wildcard, Addresses: addresses}}
	return nn
}

func aDNSService(addresses ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"},
		Spec: corev1.ServiceSpec{ClusterIP: addresses[0], ClusterIPs: addresses}}
}

func setWith(b *kindtest.Bed, key unit.Key, addresses ...string) map[unit.Key][]string {
	var parsed []netip.Addr
	for _, text := range addresses {
		parsed = append(parsed, netip.MustParseAddr(text))
	}
	return map[unit.Key][]string{key: b.Text(topology.AddressSetUnit(key, parsed))}
}

// The set of a wildcard has what all nodes report, and follows the reports. Name servers are not queried.
func TestReconcileWildcard(t *testing.T) {
	key, user := topology.DNSKey(wildcard), []string{"egressfirewall demo/default"}
	n1, n2 := aNodeThatObserved("n1", "192.0.2.1", "2001:db8::1"), aNodeThatObserved("n2", "192.0.2.1", "192.0.2.2", "bad")
	b := newBed(t, topology.KindDNS, nil, aFirewall(toName("*.Example.ORG.")), kindtest.ClusterNetwork("46"),
		aDNSService("10.96.0.10"), n1, n2)
	changes := 0
	b.Env.WildcardsChanged.Subscribe(func(struct{}) { changes++ })
	want := kindtest.Outcome{Units: setWith(b, key, "192.0.2.1", "192.0.2.2", "2001:db8::1"), Enqueued: user}
	kindtest.Expect(t, want, b.Reconcile("", wildcard))
	want.Enqueued = nil
	kindtest.Expect(t, want, b.Reconcile("", wildcard))
	if names, err := b.Env.Wildcards(t.Context()); err != nil || !slices.Equal(names, []string{wildcard}) || changes != 0 {
		t.Errorf("wildcards %v, %v; %d changes of a list that the cache had at the start", names, err, changes)
	}
	b.ReconcileKind(topology.KindEgressFirewall, "demo", "default")
	if have := conditions(b); !strings.HasSuffix(have, "Resolved True of generation 4 AsExpected: every DNS name has an address") {
		t.Errorf("conditions %q", have)
	}
	for _, nn := range []*networkv1alpha1.NodeNetwork{n1, n2} {
		nn.Status.Wildcards = nil
		b.Update(nn)
	}
	want = kindtest.Outcome{Units: setWith(b, key), Enqueued: user} // the condition says that no pod has resolved a name
	kindtest.Expect(t, want, b.Reconcile("", wildcard))
	b.ReconcileKind(topology.KindEgressFirewall, "demo", "default")
	if have := conditions(b); !strings.Contains(have, "Resolved True of generation 4 AsExpected: no pod has resolved a name of "+wildcard) {
		t.Errorf("conditions %q", have)
	}
	b.Delete(aFirewall())
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{key: nil}}, b.Reconcile("", wildcard))
	if names, err := b.Env.Wildcards(t.Context()); err != nil || len(names) > 0 || changes != 1 {
		t.Errorf("wildcards %v, %v; %d changes", names, err, changes)
	}
	if b.Env.Names.Remembers(wildcard) {
		t.Error("the addresses are remembered")
	}
}

// A policy's wildcard is one of the list, and the policy is enqueued when its set exists.
func TestWildcardOfAPolicy(t *testing.T) {
	key, policy := topology.DNSKey(wildcard), unit.NewKey(topology.KindClusterNetworkPolicy, "allow")
	b := newBed(t, topology.KindDNS, nil, kindtest.ClusterNetwork("4"), aDNSService("10.96.0.10"), aNodeThatObserved("n1", "192.0.2.1"))
	var seen []string
	b.Env.WildcardsChanged.Subscribe(func(struct{}) { seen, _ = b.Env.Wildcards(context.Background()) })
	if names, err := b.Env.Wildcards(t.Context()); err != nil || len(names) > 0 {
		t.Fatalf("wildcards %v, %v", names, err)
	}
	b.Env.PolicyNames.Add(policy, []unit.Key{key})
	kindtest.Expect(t, kindtest.Outcome{Units: setWith(b, key, "192.0.2.1"), Enqueued: []string{"clusternetworkpolicy allow"}},
		b.Reconcile("", wildcard))
	if !slices.Equal(seen, []string{wildcard}) {
		t.Errorf("who subscribes reads %v", seen)
	}
	other := newBed(t, topology.KindDNS, nil, kindtest.ClusterNetwork("4"))
	other.Env.PolicyNames.Add(policy, []unit.Key{key, topology.DNSKey("www.example.org")})
	if names, err := other.Env.Wildcards(t.Context()); err != nil || !slices.Equal(names, []string{wildcard}) {
		t.Errorf("at a start, wildcards %v, %v", names, err)
	}
}

// The condition says why nodes cannot observe a name.
func TestUnobservedWildcards(t *testing.T) {
	configured := kindtest.ClusterNetwork("4")
	configured.Spec.DNS.Nameservers = []networkv1alpha1.IP{"10.96.0.10"}
	for name, c := range map[string]struct {
		cn     *networkv1alpha1.ClusterNetwork
		others int // names with wildcards before this one
		want   string
	}{
		"name servers are unknown": {kindtest.ClusterNetwork("4"), 0, "False of generation 4 UnresolvedNames: spec.egress[0].to.dnsName: " +
			"*.example.org: the cluster's name servers are unknown: there is no Service kube-system/kube-dns"},
		"configured": {configured, 0, "True of generation 4 AsExpected: no pod has resolved a name of *.example.org in the last hour"},
		"too many":   {configured, networkv1alpha1.MaxWildcards, "the cluster uses more than 256 names with wildcards"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, topology.KindDNS, nil, aFirewall(toName(wildcard)), c.cn)
			for i := range c.others {
				b.Env.PolicyNames.Add(unit.NewKey("policy", "p"), []unit.Key{topology.DNSKey(fmt.Sprintf("*.a%03d.example.com", i))})
			}
			b.Reconcile("", wildcard)
			b.ReconcileKind(topology.KindEgressFirewall, "demo", "default")
			if have := conditions(b); !strings.Contains(have, c.want) {
				t.Errorf("conditions %q, want %q in them", have, c.want)
			}
		})
	}
}

// A report of a node enqueues the names in it before and after, and only if the report changes.
func TestReportsEnqueueTheirNames(t *testing.T) {
	before, after := aNodeThatObserved("n1", "192.0.2.1"), aNodeThatObserved("n1", "192.0.2.1")
	if observationsChanged(before, after) {
		t.Error("equal reports are passed")
	}
	after.Status.Wildcards[1].Addresses = []networkv1alpha1.IP{"192.0.2.2"}
	if !observationsChanged(before, after) {
		t.Error("a report with another address is not passed")
	}
	var names []string
	for _, r := range observed(t.Context(), after) {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"*.example.com", wildcard}) {
		t.Errorf("enqueued are %v", names)
	}
}
