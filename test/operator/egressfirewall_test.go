package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/pkg/topology"
)

type egressRule = networkv1alpha1.EgressFirewallRule

func denyCIDR(cidr string) egressRule {
	return egressRule{Type: networkv1alpha1.EgressFirewallDeny, To: networkv1alpha1.EgressFirewallDestination{CIDRSelector: cidr}}
}

func allowCIDR(cidr string) egressRule {
	return egressRule{Type: networkv1alpha1.EgressFirewallAllow, To: networkv1alpha1.EgressFirewallDestination{CIDRSelector: cidr}}
}

func allowName(name string) egressRule {
	return egressRule{Type: networkv1alpha1.EgressFirewallAllow, To: networkv1alpha1.EgressFirewallDestination{DNSName: name}}
}

func allowNodes(labels map[string]string) egressRule {
	return egressRule{Type: networkv1alpha1.EgressFirewallAllow,
		To: networkv1alpha1.EgressFirewallDestination{NodeSelector: &metav1.LabelSelector{MatchLabels: labels}}}
}

func firewallObject(namespace string, rules ...egressRule) *networkv1alpha1.EgressFirewall {
	return &networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: networkv1alpha1.EgressFirewallName},
		Spec: networkv1alpha1.EgressFirewallSpec{Egress: append([]egressRule{}, rules...)}}
}

// firewall creates or updates a namespace's firewall, and waits until its status is of this generation.
func (w *world) firewall(namespace string, rules ...egressRule) *networkv1alpha1.EgressFirewall {
	w.Helper()
	object := firewallObject(namespace, rules...)
	if err := api.Create(w.Context(), object); apierrors.IsAlreadyExists(err) {
		w.must(api.Get(w.Context(), keyOf(object), object))
		object.Spec.Egress = rules
		w.must(api.Update(w.Context(), object))
	} else {
		w.must(err)
	}
	w.until(func() error {
		c, err := w.firewallSays(namespace, networkv1alpha1.ConditionReady)
		if err == nil && c.ObservedGeneration != object.Generation {
			err = fmt.Errorf("condition %+v is not of generation %d", c, object.Generation)
		}
		return err
	})
	return object
}

func (w *world) firewallSays(namespace, kind string) (*metav1.Condition, error) {
	object := firewallObject(namespace)
	if err := api.Get(w.Context(), keyOf(object), object); err != nil {
		return nil, err
	}
	if c := meta.FindStatusCondition(object.Status.Conditions, kind); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("the firewall of %s has conditions %+v, want %s", namespace, object.Status.Conditions, kind)
}

// resolved waits for the condition Resolved with a status and words in its message.
func (w *world) resolved(namespace string, status metav1.ConditionStatus, words ...string) {
	w.Helper()
	w.until(func() error {
		c, err := w.firewallSays(namespace, networkv1alpha1.ConditionResolved)
		if err == nil && (c.Status != status || slices.ContainsFunc(words, func(word string) bool {
			return !strings.Contains(c.Message, word)
		})) {
			err = fmt.Errorf("condition %+v, want %s and %q", c, status, words)
		}
		return err
	})
}

func (w *world) clearFirewalls(ctx context.Context) {
	w.Helper()
	var list networkv1alpha1.EgressFirewallList
	w.must(api.List(ctx, &list))
	for i := range list.Items {
		w.must(client.IgnoreNotFound(api.Delete(ctx, &list.Items[i])))
	}
	for _, namespace := range firewalled {
		w.must(api.DeleteAllOf(ctx, &eventsv1.Event{}, client.InNamespace(namespace)))
	}
}

// firewalled are namespaces in addition to default.
var firewalled = []string{"egress-a", "egress-b"}

// namespaces creates the namespaces. They stay, because this API server never finishes deleting one.
func (w *world) namespaces() {
	w.Helper()
	for _, name := range firewalled {
		if err := api.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); !apierrors.IsAlreadyExists(err) {
			w.must(err)
		}
	}
}

// rulesOf lists the ACLs by UUID, and the ports and ACLs of a namespace's group.
func (w *world) rulesOf(group string) (acls map[string]string, ports, members []string) {
	w.Helper()
	found := w.selectRows()
	acls = map[string]string{}
	for id, row := range found[nbdb.ACLTable] {
		if slices.Contains(row["external_ids"], "weft.dev/unit=network/default") { // shared by all EgressIPs
			continue
		}
		acls[id] = fmt.Sprint(row["priority"], row["match"])
	}
	for _, row := range found[nbdb.PortGroupTable] {
		if slices.Equal(row["name"], []string{group}) {
			ports, members = row["ports"], row["acls"]
		}
	}
	return acls, ports, members
}

// set waits until an address set has exactly these addresses; nil: until it does not exist.
func (w *world) set(name string, want ...string) {
	w.Helper()
	w.until(func() error {
		for _, row := range w.selectRows()[nbdb.AddressSetTable] {
			if slices.Equal(row["name"], []string{name}) {
				if have := slices.Sorted(slices.Values(row["addresses"])); want == nil || !slices.Equal(have, want) {
					return fmt.Errorf("set %s has %v, want %v", name, have, want)
				}
				return nil
			}
		}
		if want != nil {
			return fmt.Errorf("set %s does not exist", name)
		}
		return nil
	})
}

// changes counts the operator's transactions during do.
func (o *operator) changes(do func()) int {
	o.settle()
	before := o.transactions()
	do()
	o.settle()
	return o.transactions() - before
}

// TestWhatAFirewallCosts checks that each change costs one transaction, whatever the number of rules and pods, and
// writes only the changed rows.
func TestWhatAFirewallCosts(t *testing.T) {
	w := newWorld(t)
	o, pods := w.settled([]string{"n1"}, 10)
	var rules []egressRule
	for i := range 200 {
		rules = append(rules, allowCIDR(fmt.Sprintf("192.0.%d.0/24", i)))
	}
	rules = append(rules, denyCIDR("0.0.0.0/0"))
	once := func(what string, do func()) {
		t.Helper()
		if got := o.changes(do); got != 1 {
			t.Errorf("%s cost %d transactions, want 1", what, got)
		}
	}
	once("a firewall", func() { w.firewall("default", rules...) })
	before, ports, members := w.rulesOf("ns_default")
	if len(ports) != len(pods) || len(members) != len(rules)+2 {
		t.Errorf("the group has %d ports and %d ACLs, want %d and %d", len(ports), len(members), len(pods), len(rules)+2)
	}
	once("a pod", func() { w.port(w.create("n1", "late")[0]) })
	if _, ports, _ := w.rulesOf("ns_default"); len(ports) != len(pods)+1 {
		t.Errorf("the group has %d ports, want %d", len(ports), len(pods)+1)
	}
	for _, step := range []struct {
		what   string
		acls   int
		change func()
	}{
		{"a changed rule", 2, func() { rules[100] = allowCIDR("198.51.100.0/24") }}, // one is deleted, one inserted
		{"a new first rule", 1, func() { rules = slices.Insert(rules, 0, allowCIDR("203.0.113.0/24")) }},
		{"a removed rule", 1, func() { rules = slices.Delete(rules, 50, 51) }},
		{"a repeated rule", 0, func() { rules = append(rules, rules[3]) }},
	} {
		step.change()
		got := o.changes(func() { w.firewall("default", rules...) })
		after, _, _ := w.rulesOf("ns_default")
		changed := 0
		for id := range union(before, after) {
			if before[id] != after[id] {
				changed++
			}
		}
		if changed != step.acls || got != min(changed, 1) {
			t.Errorf("%s changed %d ACLs in %d transactions, want %d", step.what, changed, got, step.acls)
		}
		before = after
	}
	once("the firewall's end", func() {
		w.must(api.Delete(w.Context(), firewallObject("default")))
		w.until(func() error {
			if acls, _, _ := w.rulesOf("ns_default"); len(acls) > 0 {
				return fmt.Errorf("%d ACLs remain", len(acls))
			}
			return nil
		})
	})
	if got := o.drifted(); len(got) > 0 {
		t.Errorf("reported as drift: %v", got)
	}
}

// server is a name server whose answers a test sets.
type server struct {
	mu      sync.Mutex
	answers map[string][]string
	queries map[string]int
	down    bool
}

func (s *server) lookup(_ context.Context, name string) (resolver.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queries == nil {
		s.queries = map[string]int{}
	}
	s.queries[name]++
	if s.down {
		return resolver.Answer{}, errors.New("no name server answers")
	}
	answer := resolver.Answer{TTL: resolver.MaxTTL}
	for _, text := range s.answers[name] {
		answer.Addresses = append(answer.Addresses, netip.MustParseAddr(text))
	}
	if len(answer.Addresses) == 0 {
		return answer, resolver.ErrAbsent
	}
	return answer, nil
}

func (s *server) times(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[name]
}

// TestANameIsQueriedOnce checks that firewalls share a name's set, which exists as long as one of them names it. A
// new operator without a name server continues with the set in the database.
func TestANameIsQueriedOnce(t *testing.T) {
	names := &server{answers: map[string][]string{"www.example.org": {"192.0.2.1", "2001:db8::1", "192.0.2.2"}}}
	w := newWorld(t)
	w.lookup = names.lookup
	o, _ := w.settled([]string{"n1"}, 1)
	owners := append([]string{"default"}, firewalled...)
	w.namespaces()
	for _, namespace := range owners {
		w.firewall(namespace, allowName("www.example.org"), allowName("WWW.Example.org."), denyCIDR("::/0"))
		w.resolved(namespace, metav1.ConditionTrue)
	}
	if got := names.times("www.example.org"); got != 1 {
		t.Errorf("the name was queried %d times, want once", got)
	}
	w.set("dns_www.example.org_IPv4", "192.0.2.1", "192.0.2.2")
	w.set("dns_www.example.org_IPv6", "2001:db8::1")

	w.firewall("default", allowName("www.example.org"), allowCIDR("192.0.2.0/24"), allowName("none.example.org"))
	w.resolved("default", metav1.ConditionFalse, "spec.egress[2].to.dnsName: none.example.org: no such name")
	w.says(w.event(networkv1alpha1.EgressFirewallName, networkv1alpha1.ReasonUnresolvedNames), "spec.egress[2]")

	o.settle()
	o.stop()
	before := w.dump()
	names.mu.Lock()
	names.down, names.queries = true, nil
	names.mu.Unlock()
	o = w.start()
	w.resolved("egress-a", metav1.ConditionFalse, "spec.egress[0].to.dnsName: www.example.org: no name server answers")
	w.resolved("default", metav1.ConditionFalse, "spec.egress[0].to.dnsName: www.example.org: no name server answers")
	o.settle()
	if got := o.transactions(); got != 0 {
		t.Errorf("the restart wrote %d transactions", got)
	}
	if after := w.dump(); !slices.Equal(before, after) {
		t.Errorf("rows differ:\n%s", difference(before, after))
	}
	w.set("dns_www.example.org_IPv4", "192.0.2.1", "192.0.2.2")

	for i, namespace := range owners {
		w.set("dns_www.example.org_IPv6", "2001:db8::1")
		if i == 0 {
			w.firewall(namespace, denyCIDR("::/0"))
			w.set("dns_none.example.org_IPv4")
			continue
		}
		w.must(api.Delete(w.Context(), firewallObject(namespace)))
	}
	w.set("dns_www.example.org_IPv6")
	if _, err := w.firewallSays("default", networkv1alpha1.ConditionResolved); err == nil {
		t.Error("a firewall without names has the condition Resolved")
	}
}

// TestSetsFollowNodes changes the labels and addresses of nodes, and creates and deletes nodes.
func TestSetsFollowNodes(t *testing.T) {
	w := newWorld(t)
	w.settled([]string{"n1", "n2"}, 0)
	addresses := map[string][]string{"n1": {"172.18.0.11", "fd00:18::11"}, "n2": {"172.18.0.12"}}
	for name, texts := range addresses {
		node := w.node(name)
		for _, text := range texts {
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
		}
		w.must(api.Status().Update(w.Context(), node))
	}
	w.firewall("default", allowNodes(map[string]string{"zone": "a"}), allowNodes(nil))
	var zone, all string
	for _, row := range w.selectRows()[nbdb.ACLTable] {
		for word := range strings.FieldsSeq(strings.Trim(row["match"][0], "()")) {
			if set, ok := strings.CutPrefix(word, "$"); ok && strings.HasSuffix(set, "_IPv4") {
				if strings.Contains(fmt.Sprint(row["external_ids"]), "zone") {
					zone = set
				} else {
					all = set
				}
			}
		}
	}
	w.set(zone, []string{}...)
	w.set(all, "172.18.0.11", "172.18.0.12")
	label := func(name string, labels map[string]string) {
		node := w.node(name)
		patch := client.MergeFrom(node.DeepCopy())
		node.Labels = labels
		w.must(api.Patch(w.Context(), node, patch))
	}
	label("n2", map[string]string{"zone": "a"})
	w.set(zone, "172.18.0.12")
	label("n1", map[string]string{"zone": "a"})
	w.set(zone, "172.18.0.11", "172.18.0.12")
	w.set(strings.Replace(zone, "IPv4", "IPv6", 1), "fd00:18::11")
	label("n2", nil)
	w.set(zone, "172.18.0.11")
	w.delete(w.node("n1"))
	w.set(zone, []string{}...)
	w.set(all, "172.18.0.12")
	w.must(api.Delete(w.Context(), firewallObject("default")))
	w.set(zone)
	w.set(all)
}

// TestAFirewallThatCannotBeRead denies everything, and reports why.
func TestAFirewallThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.settled([]string{"n1"}, 1)
	near := allowNodes(nil)
	near.To.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Near"}}
	w.firewall("default", allowCIDR("0.0.0.0/0"), near)
	c, err := w.firewallSays("default", networkv1alpha1.ConditionReady)
	w.must(err)
	if c.Status != metav1.ConditionFalse || c.Reason != networkv1alpha1.ReasonInvalidSpec {
		t.Errorf("condition %+v", c)
	}
	w.says(c.Message, "spec.egress[1].to.nodeSelector", "Near")
	w.says(w.event(networkv1alpha1.EgressFirewallName, networkv1alpha1.ReasonInvalidSpec), "spec.egress[1].to.nodeSelector")
	drops := 0
	for _, row := range w.selectRows()[nbdb.ACLTable] {
		if row["action"][0] == nbdb.ACLActionDrop && strings.HasSuffix(row["match"][0], "@ns_default && ip") {
			drops++
		}
	}
	if drops != 1 {
		t.Errorf("%d ACLs drop everything, want 1", drops)
	}
}

// TestPlanOfAFirewall checks that a plan equals the later change, for the firewall, its sets and the affected pods.
func TestPlanOfAFirewall(t *testing.T) {
	names := &server{answers: map[string][]string{"www.example.org": {"192.0.2.1"}}}
	w := newWorld(t)
	w.lookup = names.lookup
	o, _ := w.settled([]string{"n1"}, 2)
	w.namespaces()
	w.firewall("egress-a", allowName("www.example.org"))
	w.resolved("egress-a", metav1.ConditionTrue)
	object := w.dryRun(firewallObject("default", allowName("www.example.org"), allowNodes(nil), denyCIDR("0.0.0.0/0")))
	w.comesTrue(o.plan([]string{"plan"}, object), func() string {
		w.firewall("default", allowName("www.example.org"), allowNodes(nil), denyCIDR("0.0.0.0/0"))
		return ""
	})
	w.resolved("default", metav1.ConditionTrue)
	w.comesTrue(o.plan([]string{"plan"}, w.dryRun(pod("more", "n1"))), func() string { return string(w.create("n1", "more")[0].UID) })
	w.comesTrue(o.plan([]string{"plan", "--delete"}, firewallObject("default")), func() string {
		w.must(api.Delete(w.Context(), firewallObject("default")))
		return ""
	})
	if o.engine.Wanted(topology.EgressFirewallKey("default")) {
		t.Error("the firewall's unit remains")
	}
}
