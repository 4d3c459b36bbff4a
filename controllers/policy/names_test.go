package policy

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

// aPolicyForNames accepts packets of the pods of all namespaces to names.
func aPolicyForNames(names ...policyv1alpha2.DomainName) *policyv1alpha2.ClusterNetworkPolicy {
	p := aClusterPolicy()
	p.Spec.Egress[0].Action = policyv1alpha2.ClusterNetworkPolicyRuleActionAccept
	p.Spec.Egress[0].To[0] = policyv1alpha2.ClusterNetworkPolicyEgressPeer{DomainNames: names}
	return p
}

// makeName makes the set of a name, as its own reconciler does.
func makeName(b *kindtest.Bed, name string) unit.Key {
	b.Seed(topology.AddressSetUnit(topology.DNSKey(name), []netip.Addr{netip.MustParseAddr("192.0.2.7")}))
	return topology.DNSKey(name)
}

// A rule waits for the sets of its names, which it enqueues. A name that it drops is enqueued once the rule is without it.
func TestNamesOfAPolicy(t *testing.T) {
	policy := aPolicyForNames("www.example.org", "API.example.org.", "www.example.org")
	b := newBed(t, topology.KindClusterNetworkPolicy, aPod())
	b.Create(policy)
	kindtest.Expect(t, kindtest.Outcome{Enqueued: []string{"dns api.example.org", "dns www.example.org"}}, b.Reconcile("", "deny"))
	www := makeName(b, "www.example.org")
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("", "deny"))
	api := makeName(b, "api.example.org")
	have := b.Reconcile("", "deny")
	const match = "(ip4.dst == $dns_www.example.org_IPv4 || ip6.dst == $dns_www.example.org_IPv6 || " +
		"ip4.dst == $dns_api.example.org_IPv4 || ip6.dst == $dns_api.example.org_IPv6"
	if rules := strings.Join(have.Units[admin], "\n"); !strings.Contains(rules, match) || len(have.Enqueued) > 0 {
		t.Errorf("rules\n%s\nlack %s; enqueued %v", rules, match, have.Enqueued)
	}
	expectCondition(t, kindtest.Get(b, policy), inForce)
	for _, set := range []unit.Key{www, api} {
		if users := b.Env.PolicyNames.Of(set); !slices.Equal(users, []unit.Key{admin}) {
			t.Errorf("users of %s are %v", set, users)
		}
	}

	b.Update(aPolicyForNames("www.example.org"))
	b.Database.Refusals[admin] = &ovndb.RejectedError{Unit: admin, Err: errors.New("constraint violation")}
	if have := b.Reconcile("", "deny"); len(have.Enqueued) > 0 {
		t.Errorf("enqueued %v while the former rule may be in force", have.Enqueued)
	}
	delete(b.Database.Refusals, admin)
	if have := b.Reconcile("", "deny"); !slices.Equal(have.Enqueued, []string{"dns api.example.org"}) {
		t.Errorf("enqueued %v for a name that is dropped", have.Enqueued)
	}
	b.Delete(policy)
	if have := b.Reconcile("", "deny"); !slices.Equal(have.Enqueued, []string{"dns www.example.org"}) || len(have.Units[admin]) > 0 {
		t.Errorf("%+v for a policy that is deleted", have)
	}
}

// Names that cannot be had are named, with the reason.
func TestNamesThatCannotBeHad(t *testing.T) {
	for name, want := range map[policyv1alpha2.DomainName]string{
		"*.org":     `spec.egress[0].to[0].domainNames[0]: "*.org" is not a DNS name of two labels`,
		"10.0.0.1":  "spec.egress[0].to[0].domainNames[0]: 10.0.0.1 is an IP address",
		"localhost": `spec.egress[0].to[0].domainNames[0]: "localhost" is not a DNS name`,
	} {
		policy := aPolicyForNames(name)
		b := newBed(t, topology.KindClusterNetworkPolicy, aPod(), client.Object(policy))
		have := b.Reconcile("", "deny")
		if len(have.Events) != 1 || !strings.Contains(have.Events[0], want) || len(have.Enqueued) > 0 {
			t.Errorf("%s: %+v, want %s", name, have, want)
		}
	}
}
