package topology_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

func parseClusterPolicy(policy metav1.Object) (facts.ClusterPolicy, error) {
	return facts.ParseClusterPolicy(policy, func(facts.PodSelector, facts.NamedPort) []uint16 { return nil },
		func(labels.Selector) []netip.Addr { return nil })
}

// adminPolicy has egress rules with these actions. Rule n is for port n+1.
func adminPolicy(priority int32, actions ...policyv1alpha1.AdminNetworkPolicyRuleAction) *policyv1alpha1.AdminNetworkPolicy {
	p := &policyv1alpha1.AdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Priority, p.Spec.Subject.Namespaces = priority, &metav1.LabelSelector{}
	for i, action := range actions {
		p.Spec.Egress = append(p.Spec.Egress, policyv1alpha1.AdminNetworkPolicyEgressRule{Action: action,
			To:    []policyv1alpha1.AdminNetworkPolicyEgressPeer{{Networks: []policyv1alpha1.CIDR{"0.0.0.0/0"}}},
			Ports: &[]policyv1alpha1.AdminNetworkPolicyPort{{PortNumber: &policyv1alpha1.Port{Port: int32(i + 1)}}}})
	}
	return p
}

// egressPriorities returns the priorities of a policy's ACLs, in the order of its rules.
func egressPriorities(t *testing.T, policy metav1.Object) (priorities []int) {
	t.Helper()
	read, err := parseClusterPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range topology.ClusterPolicyUnit(read).Rows {
		if acl := row.Model.(*nbdb.ACL); acl.Direction == nbdb.ACLDirectionFromLport {
			priorities = append(priorities, acl.Priority)
		}
	}
	return priorities
}

const (
	allow = policyv1alpha1.AdminNetworkPolicyRuleActionAllow
	deny  = policyv1alpha1.AdminNetworkPolicyRuleActionDeny
)

// Each rule has a place of its own while there are enough. Beyond that, adjacent rules with the same action share a
// place, and the order is kept.
func TestPlacesOfRules(t *testing.T) {
	if got := egressPriorities(t, adminPolicy(1000, allow, allow, deny)); !slices.Equal(got, []int{1002, 1001, 1000}) {
		t.Errorf("three rules of the last priority: %v", got)
	}
	var many []policyv1alpha1.AdminNetworkPolicyRuleAction
	for i := range 100 {
		many = append(many, []policyv1alpha1.AdminNetworkPolicyRuleAction{allow, deny}[i/4%2])
	}
	got := egressPriorities(t, adminPolicy(0, many...))
	if len(got) != 100 || got[0] != 32024 || got[3] != 32024 || got[4] != 32023 || got[99] != 32000 {
		t.Errorf("a hundred rules of the first priority: %v", got)
	}
	if next := egressPriorities(t, adminPolicy(1,
		slices.Repeat([]policyv1alpha1.AdminNetworkPolicyRuleAction{allow, deny}, 15)...)); next[0] >= got[99] {
		t.Errorf("the first rule of priority 1 has %d, the last one of 0 has %d", next[0], got[99])
	}
	read, err := parseClusterPolicy(adminPolicy(0, slices.Repeat([]policyv1alpha1.AdminNetworkPolicyRuleAction{allow, deny}, 16)...))
	if err == nil || !strings.Contains(err.Error(), "more than 30 times") || len(read.Egress) > 0 ||
		len(topology.ClusterPolicyUnit(read).Rows) > 0 {
		t.Errorf("rules without a place: %v, %d rules are left", err, len(read.Egress))
	}
	var newer policyv1alpha2.ClusterNetworkPolicy
	newer.Spec.Tier, newer.Spec.Subject.Namespaces = policyv1alpha2.AdminTier, &metav1.LabelSelector{}
	newer.Spec.Egress = []policyv1alpha2.ClusterNetworkPolicyEgressRule{{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
		To: []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Networks: []policyv1alpha2.CIDR{"::/0"}}}}}
	if first := egressPriorities(t, &newer); len(first) != 1 || first[0] <= got[0] || first[0] > 32767 {
		t.Errorf("a ClusterNetworkPolicy has %v, an AdminNetworkPolicy of the same priority begins with %d", first, got[0])
	}
}

// An unreadable field is named in the error, and fails closed.
func TestAdminPoliciesThatCannotBeRead(t *testing.T) {
	for _, test := range []struct {
		edit func(p *policyv1alpha1.AdminNetworkPolicySpec)
		want string
		rows int // for one rule
	}{
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) { p.Priority = 1001 }, "spec.priority: 1001 is not in 0..1000", 0},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) { p.Subject.Namespaces = nil }, "spec.subject.namespaces, pods: ", 0},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) {
			p.Egress[0].Action = "Reject"
		}, `spec.egress[0].action: "Reject" is not an action of this tier`, 1},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) { p.Egress[0].To = nil }, "spec.egress[0].to: a peer is needed", 1},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) {
			p.Egress[0].To[0].Networks[0] = "10/8"
		}, "spec.egress[0].to[0].networks[0]: ", 1},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) {
			(*p.Egress[0].Ports)[0].PortNumber.Port = 0
		}, "spec.egress[0].ports[0]: port: 0 to 0 is not a range in 1..65535", 1},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) {
			(*p.Egress[0].Ports)[0].PortNumber.Protocol = "GRE"
		}, `spec.egress[0].ports[0]: protocol: "GRE" is not TCP, UDP or SCTP`, 1},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) {
			(*p.Egress[0].Ports)[0].PortNumber = nil
		}, "spec.egress[0].ports[0]: no supported field is set", 1},
		{func(p *policyv1alpha1.AdminNetworkPolicySpec) {
			p.Egress[0].Action, p.Egress[0].To[0] = allow,
				policyv1alpha1.AdminNetworkPolicyEgressPeer{DomainNames: []policyv1alpha1.DomainName{"*.org"}}
		}, `spec.egress[0].to[0].domainNames[0]: "*.org" is not a DNS name of two labels`, 0},
	} {
		policy := adminPolicy(5, deny)
		test.edit(&policy.Spec)
		read, err := parseClusterPolicy(policy)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
		denied := 0
		for _, row := range topology.ClusterPolicyUnit(read).Rows {
			if acl := row.Model.(*nbdb.ACL); acl.Action == nbdb.ACLActionDrop && strings.HasSuffix(acl.Match, "&& ip") {
				denied++
			}
		}
		if denied != test.rows {
			t.Errorf("%s: %d rules deny everything, want %d", test.want, denied, test.rows)
		}
	}
	if _, err := parseClusterPolicy(&metav1.ObjectMeta{}); err == nil {
		t.Error("an object of another kind was read")
	}
}
