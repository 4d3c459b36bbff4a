package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var admin = unit.NewKey(topology.KindClusterNetworkPolicy, "deny")

// aClusterPolicy denies packets from the pods of all namespaces to these networks.
func aClusterPolicy(networks ...policyv1alpha2.CIDR) *policyv1alpha2.ClusterNetworkPolicy {
	p := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny", Generation: 3}}
	p.Spec.Tier, p.Spec.Subject.Namespaces = policyv1alpha2.AdminTier, &metav1.LabelSelector{}
	p.Spec.Egress = []policyv1alpha2.ClusterNetworkPolicyEgressRule{{
		Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
		To:     []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Networks: networks}}}}
	return p
}

// denied is the unit of the policy, which denies what matches.
func denied(match string) map[unit.Key][]string {
	const group = "pods_15af5d4acd7c612965b2" // of all pods
	return map[unit.Key][]string{admin: {
		"ACL CNP:deny:egress[0] action=drop direction=from-lport external_ids=map[weft.dev/rule:egress[0]] " +
			"match=inport == @" + group + " && " + match + " options=map[apply-after-lb:true] priority=32030 tier=1",
		"ACL CNP:deny:tracking action=allow-related direction=to-lport external_ids=map[weft.dev/rule:tracking] " +
			"match=outport == @" + group + " && ip priority=1 tier=3",
		"Port_Group " + group + ": acls += CNP:deny:egress[0]",
		"Port_Group " + group + ": acls += CNP:deny:tracking",
	}}
}

// inForce is the condition of a policy with one egress rule.
const inForce = "Ready True of generation 3 AsExpected: rules in force: 0 of ingress, 1 of egress"

func TestReconcileCluster(t *testing.T) {

	rejected := &ovndb.RejectedError{Unit: admin, Err: errors.New("constraint violation")}
	pending := &ovndb.PendingError{Unit: admin, Reason: "database is not connected"}
	unreadable := "a rule that cannot be read accepts nothing, or denies everything: " +
		`spec.egress[0].to[0].networks[0]: netip.ParsePrefix("bad"): no '/'`
	written := []string{"patch status ClusterNetworkPolicy deny"}
	for name, c := range map[string]struct {
		policy    *policyv1alpha2.ClusterNetworkPolicy
		fails     error // of the database
		want      kindtest.Outcome
		condition string
	}{
		"IPv4": {
			policy: aClusterPolicy("192.0.2.0/24"), condition: inForce,
			want: kindtest.Outcome{Units: denied("ip4.dst == 192.0.2.0/24"), Writes: written},
		},
		"IPv6": {
			policy: aClusterPolicy("2001:db8::/64"), condition: inForce,
			want: kindtest.Outcome{Units: denied("ip6.dst == 2001:db8::/64"), Writes: written},
		},
		"dual stack": {
			policy: aClusterPolicy("192.0.2.0/24", "2001:db8::/64"), condition: inForce,
			want: kindtest.Outcome{Units: denied("(ip4.dst == 192.0.2.0/24 || ip6.dst == 2001:db8::/64)"), Writes: written},
		},
		"a rule that cannot be read denies everything": {
			policy: aClusterPolicy("bad"), condition: "Ready False of generation 3 InvalidSpec: " + unreadable,
			want: kindtest.Outcome{Units: denied("ip"), Writes: written,
				Events: []string{"Warning InvalidSpec ClusterNetworkPolicy deny: " + unreadable}},
		},
		"the database refuses it": {
			policy: aClusterPolicy("192.0.2.0/24"), fails: rejected,
			condition: "Ready False of generation 3 DatabaseRefused: constraint violation",
			want: kindtest.Outcome{Units: denied("ip4.dst == 192.0.2.0/24"), Writes: written, Err: rejected.Error(),
				Events: []string{"Warning DatabaseRefused ClusterNetworkPolicy deny: constraint violation"}},
		},
		"the process ends": { // the next one writes the condition
			policy: aClusterPolicy("192.0.2.0/24"), fails: context.Canceled,
			want: kindtest.Outcome{Units: denied("ip4.dst == 192.0.2.0/24"), Err: "context canceled"},
		},
		"the database is away": { // the engine applies the unit later
			policy: aClusterPolicy("192.0.2.0/24"), fails: pending, condition: inForce,
			want: kindtest.Outcome{Units: denied("ip4.dst == 192.0.2.0/24"), Writes: written},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, topology.KindClusterNetworkPolicy, c.policy, aPod())
			created := topology.SelectorUnit("podgroup/15af5d4acd7c612965b2")
			first := kindtest.Outcome{Units: maps.Clone(c.want.Units), Events: c.want.Events, Writes: c.want.Writes, Err: c.want.Err}
			first.Units[created.Key] = b.Text(created)
			if c.fails != nil {
				b.Database.Refusals[admin] = c.fails
			}
			kindtest.Expect(t, first, b.Reconcile("", "deny"))
			expectCondition(t, kindtest.Get(b, c.policy), c.condition)
			// A second reconciliation writes and reports nothing.
			again := kindtest.Outcome{Units: c.want.Units, Err: c.want.Err}
			if errors.Is(c.fails, context.Canceled) { // whether the group exists is unknown
				again.Units = first.Units
			}
			kindtest.Expect(t, again, b.Reconcile("", "deny"))
		})
	}
}

func expectCondition(t *testing.T, policy client.Object, want string) {
	t.Helper()
	var have []string
	for _, c := range *conditionsOf(policy) {
		text := fmt.Sprintf("%s %s of generation %d %s: %s", c.Type, c.Status, c.ObservedGeneration, c.Reason, c.Message)
		have = append(have, text)
	}
	if !slices.Equal(have, []string{want}) && (len(have) > 0 || want != "") {
		t.Errorf("conditions %q, want %q", have, want)
	}
}

// Until its group is created, a new policy is not in force, and its condition does not claim that it is.
func TestClusterPolicyWaitsForItsGroup(t *testing.T) {
	b := newBed(t, topology.KindClusterNetworkPolicy, aPod())
	b.Create(aClusterPolicy("192.0.2.0/24"))
	web := topology.PodKey("demo", "web")
	b.Env.Selectors.Started(web)
	kindtest.Expect(t, kindtest.Outcome{Enqueued: []string{"pod demo/web"}}, b.Reconcile("", "deny"))
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("", "deny"))
	b.Env.Selectors.Reconciled(web)
	b.Env.Selectors.Started(web)
	b.Env.Selectors.Reconciled(web)
	makeSets(b)
	kindtest.Expect(t, kindtest.Outcome{Units: denied("ip4.dst == 192.0.2.0/24"),
		Writes: []string{"patch status ClusterNetworkPolicy deny"}}, b.Reconcile("", "deny"))
}

// The older kinds of cluster-wide policies are reconciled like the newer kind.
func TestReconcileOlderKinds(t *testing.T) {
	subject := policyv1alpha1.AdminNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}
	anp := &policyv1alpha1.AdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny", Generation: 3}}
	anp.Spec.Subject, anp.Spec.Egress = subject, []policyv1alpha1.AdminNetworkPolicyEgressRule{{
		Action: policyv1alpha1.AdminNetworkPolicyRuleActionDeny,
		To:     []policyv1alpha1.AdminNetworkPolicyEgressPeer{{Networks: []policyv1alpha1.CIDR{"192.0.2.0/24"}}}}}
	banp := &policyv1alpha1.BaselineAdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3}}
	banp.Spec.Subject, banp.Spec.Egress = subject, []policyv1alpha1.BaselineAdminNetworkPolicyEgressRule{{
		Action: policyv1alpha1.BaselineAdminNetworkPolicyRuleActionDeny,
		To:     []policyv1alpha1.BaselineAdminNetworkPolicyEgressPeer{{Networks: []policyv1alpha1.CIDR{"192.0.2.0/24"}}}}}
	for name, c := range map[string]struct {
		policy client.Object
		acl    string
	}{
		topology.KindAdminNetworkPolicy:         {anp, "ACL ANP:deny:egress[0] action=drop"},
		topology.KindBaselineAdminNetworkPolicy: {banp, "ACL BANP:default:egress[0] action=drop"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, name, c.policy, aPod())
			b.Serve(name, c.policy)
			have := b.Reconcile("", c.policy.GetName())
			lines := have.Units[unit.NewKey(name, c.policy.GetName())]
			if len(kindtest.Pick(lines, c.acl)) != 1 {
				t.Errorf("lines %q, want %s", lines, c.acl)
			}
			expectCondition(t, kindtest.Get(b, c.policy), inForce)
		})
	}
}

// A deleted policy loses its rules, and so does each policy of a kind that the API server no longer serves.
func TestClusterDeletion(t *testing.T) {
	gone := kindtest.Outcome{Units: map[unit.Key][]string{admin: nil, "podgroup/15af5d4acd7c612965b2": nil}}
	for name, remove := range map[string]func(*kindtest.Bed, *policyv1alpha2.ClusterNetworkPolicy){
		"deleted": func(b *kindtest.Bed, p *policyv1alpha2.ClusterNetworkPolicy) { b.Delete(p) },
		"unserved": func(b *kindtest.Bed, p *policyv1alpha2.ClusterNetworkPolicy) {
			b.Unserve(topology.KindClusterNetworkPolicy, p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := aClusterPolicy("192.0.2.0/24")
			b := newBed(t, topology.KindClusterNetworkPolicy, policy, aPod())
			b.Reconcile("", "deny")
			remove(b, policy)
			kindtest.Expect(t, gone, b.Reconcile("", "deny"))
		})
	}
}

// A policy is published at its first reconciliation, when the cache has other conditions, and when it is deleted.
func TestClusterPoliciesArePublishedOnChange(t *testing.T) {
	policy := aClusterPolicy("192.0.2.0/24")
	b := newBed(t, topology.KindClusterNetworkPolicy, policy, aPod())
	published := 0
	b.Env.PoliciesReported.Subscribe(func(struct{}) { published++ })
	for i, want := range []int{1, 2, 2, 2} { // the first one writes the condition, the second reads it
		if b.Reconcile("", "deny"); published != want {
			t.Errorf("reconciliation %d: published %d times, want %d", i+1, published, want)
		}
	}
	b.Delete(policy)
	if b.Reconcile("", "deny"); published != 3 {
		t.Errorf("after the deletion: published %d times", published)
	}
}

// watches is a controller that counts its watches.
type watches struct {
	controller.Controller
	begun int
}

func (w *watches) Watch(source.TypedSource[reconcile.Request]) error {
	w.begun++
	return nil
}

// A kind is watched when its CRD serves the version that is read. When the CRD is deleted, the policies of the kind
// are reconciled once more.
func TestDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		crd       map[string]any // status and spec; nil without a CRD
		unserved  bool           // before
		want      kindtest.Outcome
		served    bool // afterwards
		watchings int
	}{
		"gone":            {want: kindtest.Outcome{Enqueued: []string{"clusternetworkpolicy deny"}}},
		"never there":     {unserved: true},
		"new":             {unserved: true, crd: definition("v1alpha2", "True"), served: true, watchings: 1},
		"another version": {unserved: true, crd: definition("v1", "True")},
		"not established": {unserved: true, crd: definition("v1alpha2", "False")},
		"known already":   {crd: definition("v1alpha2", "True"), served: true},
	} {
		t.Run(name, func(t *testing.T) {
			const crd = "clusternetworkpolicies.policy.networking.k8s.io"
			policy := aClusterPolicy("192.0.2.0/24")
			b := newBed(t, "policy-kinds", policy)
			if c.unserved {
				b.Unserve(topology.KindClusterNetworkPolicy, policy)
			}
			if c.crd != nil {
				object := &unstructured.Unstructured{Object: c.crd}
				object.SetGroupVersionKind(customResourceDefinition)
				object.SetName(crd)
				b.Create(object)
			}
			at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == "policy-kinds" })
			definitions, watching := b.Kinds[at].Reconciler.(*Definitions), &watches{}
			definitions.cache, definitions.of(crd).controller = kindtest.Cache(), watching
			kindtest.Expect(t, c.want, b.Reconcile("", crd))
			if have := b.Env.Served.Has(topology.KindClusterNetworkPolicy); have != c.served || watching.begun != c.watchings {
				t.Errorf("the kind is served: %t, and %d watches have begun; want %t, %d", have, watching.begun, c.served, c.watchings)
			}
		})
	}
}

func definition(version, established string) map[string]any {
	return map[string]any{
		"spec":   map[string]any{"versions": []any{map[string]any{"name": version, "served": true}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": established}}},
	}
}
