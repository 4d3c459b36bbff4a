package egressfirewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var demo = topology.EgressFirewallKey("demo")

// aFirewall is the firewall of demo, which allows these destinations.
func aFirewall(to ...networkv1alpha1.EgressFirewallDestination) *networkv1alpha1.EgressFirewall {
	f := &networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "default", Generation: 4}}
	for _, destination := range to {
		rule := networkv1alpha1.EgressFirewallRule{Type: networkv1alpha1.EgressFirewallAllow, To: destination}
		f.Spec.Egress = append(f.Spec.Egress, rule)
	}
	return f
}

func toCIDR(cidr string) networkv1alpha1.EgressFirewallDestination {
	return networkv1alpha1.EgressFirewallDestination{CIDRSelector: cidr}
}

func toName(name string) networkv1alpha1.EgressFirewallDestination {
	return networkv1alpha1.EgressFirewallDestination{DNSName: name}
}

// answers are what the name servers respond. A name without addresses is an error.
type answers map[string][]string

func (a answers) lookup(_ context.Context, name string) (resolver.Answer, error) {
	answer := resolver.Answer{TTL: time.Minute}
	for _, text := range a[name] {
		answer.Addresses = append(answer.Addresses, netip.MustParseAddr(text))
	}
	if len(answer.Addresses) == 0 {
		return answer, errors.New("no such name")
	}
	return answer, nil
}

func newBed(t *testing.T, kindName string, a answers, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	return kindtest.New(t, Kinds, kindName, func(env *kind.Env) {
		env.Names = resolver.New(a.lookup, func() time.Time { return kindtest.Start })
	}, objects...)
}

func conditions(b *kindtest.Bed) string {
	var texts []string
	for _, c := range kindtest.Get(b, aFirewall()).Status.Conditions {
		text := fmt.Sprintf("%s %s of generation %d %s: %s", c.Type, c.Status, c.ObservedGeneration, c.Reason, c.Message)
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

const ns = "inport == @ns_demo && "

// acl is the text of an ACL of the firewall of demo, and of its place in the group of the namespace.
func acl(rule, action, match, end string) []string {
	return []string{
		"ACL EF:demo:" + rule + " action=" + action + " direction=from-lport external_ids=map[weft.dev/rule:" + rule +
			"] match=" + ns + match + " options=map[apply-after-lb:true] " + end,
		"Port_Group ns_demo: acls += EF:demo:" + rule,
	}
}

// filtered is the unit of the firewall with these lines, and the lines that every firewall has.
func filtered(inside string, more ...[]string) map[unit.Key][]string {
	return map[unit.Key][]string{demo: slices.Concat(slices.Concat(more...),
		acl("inside the cluster", "pass", "("+inside+" || ip4.mcast || ip6.mcast)", "priority=32000"),
		acl("no rule", "allow-related", "ip", "tier=3"), []string{"PortGroup ns_demo"})}
}

const (
	inside4 = "ip4.dst == 10.244.0.0/16 || ip6.dst == fe80::/10"
	inside6 = "ip6.dst == {fe80::/10, fd01::/48}"
	inside  = "ip4.dst == 10.244.0.0/16 || ip6.dst == {fe80::/10, fd01::/48}"
)

func TestReconcile(t *testing.T) {
	rejected := &ovndb.RejectedError{Unit: demo, Err: errors.New("constraint violation")}
	allow4 := acl("Allow cidrSelector 192.0.2.0/24", "pass", "ip4.dst == 192.0.2.0/24", "priority=1000")
	allow6 := acl("Allow cidrSelector 2001:db8::/64", "pass", "ip6.dst == 2001:db8::/64", "priority=1000")
	deny := acl("Deny everything: the firewall cannot be read", "drop", "ip", "priority=1000")
	inForce := func(rules int) string {
		return fmt.Sprintf("Ready True of generation 4 AsExpected: rules in force: %d", rules)
	}
	unreadable := "everything outside the cluster is denied: " +
		`spec.egress[0].to.cidrSelector: "bad" is not a CIDR without host bits`
	written := []string{"patch status EgressFirewall demo/default"}
	for name, c := range map[string]struct {
		firewall   *networkv1alpha1.EgressFirewall
		families   string // of the ClusterNetwork; empty: no ClusterNetwork exists
		fails      error  // of the database
		want       kindtest.Outcome
		conditions string
	}{
		"IPv4": {
			firewall: aFirewall(toCIDR("192.0.2.0/24")), families: "4", conditions: inForce(1),
			want: kindtest.Outcome{Units: filtered(inside4, allow4), Writes: written},
		},
		"IPv6": {
			firewall: aFirewall(toCIDR("2001:db8::/64")), families: "6", conditions: inForce(1),
			want: kindtest.Outcome{Units: filtered(inside6, allow6), Writes: written},
		},
		"dual stack": {
			firewall: aFirewall(toCIDR("192.0.2.0/24"), toCIDR("2001:db8::/64")), families: "46", conditions: inForce(2),
			want: kindtest.Outcome{Units: filtered(inside, allow4, allow6), Writes: written},
		},
		"without a ClusterNetwork the previous rules hold": {
			firewall: aFirewall(toCIDR("192.0.2.0/24")),
		},
		"a rule that cannot be read denies everything": {
			firewall: aFirewall(toCIDR("bad")), families: "4",
			conditions: "Ready False of generation 4 InvalidSpec: " + unreadable,
			want: kindtest.Outcome{Units: filtered(inside4, deny), Writes: written,
				Events: []string{"Warning InvalidSpec EgressFirewall demo/default: " + unreadable}},
		},
		"a rule waits for its set": {
			firewall: aFirewall(toName("example.org")), families: "4",
			want: kindtest.Outcome{Enqueued: []string{"dns example.org"}},
		},
		"the database refuses it": {
			firewall: aFirewall(toCIDR("192.0.2.0/24")), families: "4", fails: rejected,
			conditions: "Ready False of generation 4 DatabaseRefused: constraint violation",
			want: kindtest.Outcome{Units: filtered(inside4, allow4), Writes: written, Err: rejected.Error(),
				Events: []string{"Warning DatabaseRefused EgressFirewall demo/default: constraint violation"}},
		},
		"the database is away": { // the engine applies the unit, and enqueues the firewall, later
			firewall: aFirewall(toCIDR("192.0.2.0/24")), families: "4",
			fails: &ovndb.PendingError{Unit: demo, Reason: "database is not connected"},
			want:  kindtest.Outcome{Units: filtered(inside4, allow4)},
		},
		"the process ends": { // the next one writes the condition
			firewall: aFirewall(toCIDR("192.0.2.0/24")), families: "4", fails: context.Canceled,
			want: kindtest.Outcome{Units: filtered(inside4, allow4), Err: "context canceled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{c.firewall}
			if c.families != "" {
				objects = append(objects, kindtest.ClusterNetwork(c.families))
			}
			b := newBed(t, topology.KindEgressFirewall, nil, objects...)
			if c.fails != nil {
				b.Database.Refusals[demo] = c.fails
			}
			kindtest.Expect(t, c.want, b.Reconcile("demo", "default"))
			if have := conditions(b); have != c.conditions {
				t.Errorf("conditions %q, want %q", have, c.conditions)
			}
			// A second reconciliation writes nothing, and reports nothing again.
			again := kindtest.Outcome{Units: c.want.Units, Err: c.want.Err, Enqueued: c.want.Enqueued}
			kindtest.Expect(t, again, b.Reconcile("demo", "default"))
		})
	}
}

// An edit of the ClusterNetwork leaves the rules as they are until its networks are judged. Without Nodes they are never
// judged, and the rules are applied.
func TestNetworksAreAwaited(t *testing.T) {
	allow := acl("Allow cidrSelector 192.0.2.0/24", "pass", "ip4.dst == 192.0.2.0/24", "priority=1000")
	for name, c := range map[string]struct {
		change func(cn *networkv1alpha1.ClusterNetwork)
		want   map[unit.Key][]string
	}{
		"edited":       {change: func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.ClusterNetwork[0].CIDR = "10.245.0.0/16" }},
		"never judged": {change: func(cn *networkv1alpha1.ClusterNetwork) { cn.Status.Networks = nil }, want: filtered(inside4, allow)},
	} {
		t.Run(name, func(t *testing.T) {
			cn := kindtest.ClusterNetwork("4")
			c.change(cn)
			b := newBed(t, topology.KindEgressFirewall, nil, aFirewall(toCIDR("192.0.2.0/24")), cn)
			have := b.Reconcile("demo", "default")
			kindtest.Expect(t, kindtest.Outcome{Units: c.want, Writes: have.Writes}, have)
		})
	}
}

func TestDeletion(t *testing.T) {
	firewall := aFirewall(toCIDR("192.0.2.0/24"))
	b := newBed(t, topology.KindEgressFirewall, nil, firewall, kindtest.ClusterNetwork("4"))
	b.Reconcile("demo", "default")
	b.Delete(firewall)
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{demo: nil}}, b.Reconcile("demo", "default"))
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("demo", "other")) // the API server refuses this name
}

// The set of a DNS name has the addresses that name servers answer. The firewalls that name it are enqueued when it is
// made, and when an answer changes what they report.
func TestReconcileDNS(t *testing.T) {
	const name = "example.org"
	key, user := topology.DNSKey(name), []string{"egressfirewall demo/default"}
	next, soon := ctrl.Result{RequeueAfter: time.Minute}, ctrl.Result{RequeueAfter: 5 * time.Second}
	unresolved := "Resolved False of generation 4 UnresolvedNames: spec.egress[0].to.dnsName: example.org: no such name"
	for what, c := range map[string]struct {
		answers    answers
		known      []string // what a former process knew, in the database
		addresses  []string
		result     ctrl.Result
		conditions string // of the firewall afterwards
	}{
		"IPv4": {answers: answers{name: {"192.0.2.7"}}, addresses: []string{"192.0.2.7"}, result: next},
		"IPv6": {answers: answers{name: {"2001:db8::7"}}, addresses: []string{"2001:db8::7"}, result: next},
		"dual stack": {answers: answers{name: {"192.0.2.7", "2001:db8::7"}},
			addresses: []string{"192.0.2.7", "2001:db8::7"}, result: next},
		"no answer": {result: soon, conditions: unresolved},
		"no answer to this process": {known: []string{"192.0.2.8"}, addresses: []string{"192.0.2.8"}, result: soon,
			conditions: unresolved},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, topology.KindDNS, c.answers, aFirewall(toName(name)), kindtest.ClusterNetwork("46"))
			rows := topology.AddressSetRows(key)
			b.Database.Sets[rows[0]] = append(b.Database.Sets[rows[0]], c.known...)
			var addresses []netip.Addr
			for _, address := range c.addresses {
				addresses = append(addresses, netip.MustParseAddr(address))
			}
			text := b.Text(topology.AddressSetUnit(key, addresses))
			for _, address := range c.addresses {
				if len(kindtest.Pick(text, address)) != 1 {
					t.Errorf("the set %q lacks %s", text, address)
				}
			}
			want := kindtest.Outcome{Units: map[unit.Key][]string{key: text}, Enqueued: user, Result: c.result}
			kindtest.Expect(t, want, b.Reconcile("", name))
			want.Enqueued = nil // the answer has not changed
			kindtest.Expect(t, want, b.Reconcile("", name))
			if c.conditions == "" {
				c.conditions = "Resolved True of generation 4 AsExpected: every DNS name has an address"
			}
			b.ReconcileKind(topology.KindEgressFirewall, "demo", "default")
			if have := conditions(b); !strings.HasSuffix(have, c.conditions) {
				t.Errorf("conditions %q, want %q", have, c.conditions)
			}
		})
	}
}

// The set of a name that a policy names exists, and the policy is enqueued like a firewall.
func TestNameOfAPolicy(t *testing.T) {
	const name = "example.org"
	key, policy := topology.DNSKey(name), unit.NewKey(topology.KindClusterNetworkPolicy, "allow")
	b := newBed(t, topology.KindDNS, answers{name: {"192.0.2.7"}}, kindtest.ClusterNetwork("4"))
	b.Env.PolicyNames.Add(policy, []unit.Key{key})
	set := b.Text(topology.AddressSetUnit(key, []netip.Addr{netip.MustParseAddr("192.0.2.7")}))
	want := kindtest.Outcome{Units: map[unit.Key][]string{key: set}, Enqueued: []string{"clusternetworkpolicy allow"},
		Result: ctrl.Result{RequeueAfter: time.Minute}}
	kindtest.Expect(t, want, b.Reconcile("", name))
	want.Enqueued = nil // the answer has not changed
	kindtest.Expect(t, want, b.Reconcile("", name))
	b.Env.PolicyNames.Keep(policy, nil)
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{key: nil}}, b.Reconcile("", name))
}

// A name that cannot be resolved is named by the condition, whatever name servers answer.
func TestNameThatIsNoDNSName(t *testing.T) {
	servers := answers{"10.1": {"192.0.2.7"}}
	b := newBed(t, topology.KindDNS, servers, aFirewall(toName("10.1")), kindtest.ClusterNetwork("4"))
	b.Reconcile("", "10.1")
	have := b.ReconcileKind(topology.KindEgressFirewall, "demo", "default")
	want := "Warning InvalidSpec EgressFirewall demo/default: spec.egress[0].to.dnsName: "
	if len(have.Events) != 1 || !strings.Contains(have.Events[0], want) {
		t.Errorf("events %q, want one that names the field", have.Events)
	}
}

// A set that no firewall names any more goes, and what was known of it.
func TestUnusedSets(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	firewall := aFirewall(toName("example.org"), networkv1alpha1.EgressFirewallDestination{NodeSelector: selector})
	nodes := SetsOf(firewall)[1]
	b := newBed(t, topology.KindDNS, answers{"example.org": {"192.0.2.7"}}, firewall, kindtest.ClusterNetwork("4"))
	b.Reconcile("", "example.org")
	b.ReconcileKind(topology.KindNodes, "", nodes.Name())
	b.Delete(firewall)
	want := kindtest.Outcome{Units: map[unit.Key][]string{topology.DNSKey("example.org"): nil}}
	kindtest.Expect(t, want, b.Reconcile("", "example.org"))
	if b.Env.Names.Remembers("example.org") {
		t.Error("the answer is remembered")
	}
	want = kindtest.Outcome{Units: map[unit.Key][]string{nodes: nil}}
	kindtest.Expect(t, want, b.ReconcileKind(topology.KindNodes, "", nodes.Name()))
}

// The set of a node selector has the addresses of the nodes that it selects, and follows them.
func TestReconcileNodes(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	firewall := aFirewall(networkv1alpha1.EgressFirewallDestination{NodeSelector: selector})
	key := SetsOf(firewall)[0]
	node, _ := kindtest.Node(t, 1, "46")
	other, _ := kindtest.Node(t, 2, "46")
	node.Labels = selector.MatchLabels
	b := newBed(t, topology.KindNodes, nil, firewall, node, other)
	set := func(addresses ...netip.Addr) map[unit.Key][]string {
		return map[unit.Key][]string{key: b.Text(topology.AddressSetUnit(key, addresses))}
	}
	n1 := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	want := kindtest.Outcome{Units: set(n1...), Enqueued: []string{"egressfirewall demo/default"}}
	kindtest.Expect(t, want, b.Reconcile("", key.Name()))
	b.ExpectSettled("", key.Name())
	node.Labels = nil
	b.Update(node)
	kindtest.Expect(t, kindtest.Outcome{Units: set()}, b.Reconcile("", key.Name()))
}
