package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/resolver"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// firewalls is the resource of EgressFirewalls.
const firewalls = "egressfirewalls"

// firewallChoices are the steps of firewalls, drawn separately from the others.
var firewallChoices = []choice{
	{10, func(r *rand.Rand) Step { return Step{Do: "firewall", Name: oneOf(r, "a", "b"), N: r.IntN(10_000)} }},
	{4, func(r *rand.Rand) Step { return Step{Do: "delete-firewall", Name: oneOf(r, "a", "b")} }},
	{5, func(r *rand.Rand) Step {
		return Step{Do: "describe-node", Name: aNode(r), What: oneOf(r, "x", "y", ""), N: r.IntN(3)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "observe", Name: aNode(r), N: r.IntN(8)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: firewalls} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: firewalls} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: firewalls} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "double", Name: firewalls} }},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-Port_Group", "delete-Address_Set", "priority", "match"), N: r.IntN(100)}
	}},
}

// withFirewalls inserts steps of firewalls into two of three histories.
func withFirewalls(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 2))
	if r.IntN(3) == 0 {
		return p
	}
	for range 3 + r.IntN(10) {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), draw(r, firewallChoices))
	}
	return p
}

// doFirewall executes steps of namespace administrators, and of kubelets that describe their nodes.
func (w *world) doFirewall(ctx context.Context, s Step) (handled bool, err error) {
	key := types.NamespacedName{Namespace: s.Name, Name: networkv1alpha1.EgressFirewallName}
	firewall := &networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	switch s.Do {
	case "firewall":
		firewall.Spec = rulesOf(s.N)
		if err := w.api.Create(ctx, firewall); !apierrors.IsAlreadyExists(err) {
			return true, err
		}
		return true, change(ctx, w.api, key, firewall, func() { firewall.Spec = rulesOf(s.N) })
	case "delete-firewall":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, firewall))
	case "describe-node":
		return true, w.describeNode(ctx, s)
	case "observe":
		return true, w.observe(ctx, s)
	}
	return false, nil
}

// rulesOf derives rules from a number.
func rulesOf(n int) networkv1alpha1.EgressFirewallSpec {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	spec := networkv1alpha1.EgressFirewallSpec{Egress: []networkv1alpha1.EgressFirewallRule{}}
	for range r.IntN(6) {
		rule := networkv1alpha1.EgressFirewallRule{Type: networkv1alpha1.EgressFirewallAllow}
		if r.IntN(2) == 0 {
			rule.Type = networkv1alpha1.EgressFirewallDeny
		}
		switch r.IntN(3) {
		case 0:
			rule.To.CIDRSelector = []string{"0.0.0.0/0", "::/0", "192.0.2.0/24", "2001:db8::/32"}[r.IntN(4)]
		case 1:
			rule.To.DNSName = []string{"n1.example.org", "N2.example.org.", "bad.example.org", "*.example.org"}[r.IntN(4)]
		case 2:
			rule.To.NodeSelector = &metav1.LabelSelector{}
			if r.IntN(3) > 0 {
				rule.To.NodeSelector.MatchLabels = map[string]string{"zone": []string{"x", "y"}[r.IntN(2)]}
			}
			if r.IntN(8) == 0 {
				// an invalid operator
				rule.To.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Near"}}
			}
		}
		if r.IntN(2) == 0 {
			rule.Ports = []networkv1alpha1.EgressFirewallPort{{Protocol: corev1.ProtocolTCP, Port: 443},
				{Protocol: corev1.ProtocolUDP, Port: 1000, EndPort: 2000}}
		}
		spec.Egress = append(spec.Egress, rule)
	}
	return spec
}

// describeNode sets a node's label and addresses.
func (w *world) describeNode(ctx context.Context, s Step) error {
	key, node := types.NamespacedName{Name: s.Name}, &corev1.Node{}
	labelled := change(ctx, w.api, key, node, func() { metav1.SetMetaDataLabel(&node.ObjectMeta, "zone", s.What) })
	if err := w.api.Get(ctx, key, node); err != nil {
		return errors.Join(labelled, client.IgnoreNotFound(err))
	}
	before := node.DeepCopy()
	node.Status.Addresses = nil
	for _, address := range []string{fmt.Sprintf("172.18.%d.1%s", s.N, s.Name[1:]), fmt.Sprintf("fd00:18::%d:%s", s.N, s.Name[1:])}[:s.N] {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return errors.Join(labelled, client.IgnoreNotFound(w.api.Status().Patch(ctx, node, client.MergeFrom(before))))
}

// aWildcard is the only name with a wildcard in the histories.
const aWildcard = "*.example.org"

// observe reports the addresses that pods of a node got for the wildcard, as its agent does.
func (w *world) observe(ctx context.Context, s Step) error {
	for {
		nn := &networkv1alpha1.NodeNetwork{}
		if err := w.api.Get(ctx, types.NamespacedName{Name: s.Name}, nn); err != nil {
			return client.IgnoreNotFound(err)
		}
		patch := client.MergeFromWithOptions(nn.DeepCopy(), client.MergeFromWithOptimisticLock{})
		nn.Status.Wildcards = nil
		report := networkv1alpha1.ObservedWildcard{Name: aWildcard}
		for bit, address := range []networkv1alpha1.IP{"203.0.113.101", "203.0.113.102", "2001:db8:113::101"} {
			if s.N&(1<<bit) != 0 {
				report.Addresses = append(report.Addresses, address)
			}
		}
		if len(report.Addresses) > 0 {
			nn.Status.Wildcards = append(nn.Status.Wildcards, report)
		}
		if err := w.api.Status().Patch(ctx, nn, patch); !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
	}
}

// errNobody is the error for a name without a name server.
var errNobody = errors.New("no name server")

// lookup is the name server of the histories. Its answer follows from the name and is valid for a long time.
func lookup(_ context.Context, name string) (resolver.Answer, error) {
	if strings.HasPrefix(name, "bad.") {
		return resolver.Answer{}, errNobody
	}
	n := name[1:2]
	return resolver.Answer{TTL: resolver.MaxTTL, Addresses: []netip.Addr{netip.MustParseAddr("203.0.113." + n),
		netip.MustParseAddr("2001:db8:113::" + n)}}, nil
}

// expectFirewalls expects the rules of each firewall, and the sets that they and cluster-wide policies name.
func (o *oracle) expectFirewalls() {
	sets := map[unit.Key]unit.Unit{}
	for i := range o.firewalls {
		firewall := &o.firewalls[i]
		read, _ := facts.ParseEgressFirewall(firewall, o.plan.PodNetworks())
		read.Logging = o.loggingOf(firewall)
		o.units = append(o.units, topology.EgressFirewallUnit(read))
		for _, set := range topology.EgressFirewallSets(read) {
			if set.Kind() == topology.KindDNS {
				sets[set] = o.setOfName(set)
				continue
			}
			var nodes []corev1.Node
			for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
				nodes = append(nodes, *o.nodes[name])
			}
			sets[set] = topology.AddressSetUnit(set, facts.AddressesOfNodes(topology.SelectorOf(read, set), nodes))
		}
	}
	for i := range o.clusterPolicies {
		read, _ := o.clusterFacts(&o.clusterPolicies[i])
		for _, set := range topology.ClusterPolicyNames(read) {
			sets[set] = o.setOfName(set)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sets)) {
		o.units = append(o.units, sets[key])
	}
}

// wildcards is what nodes are to observe. The histories have no name servers that pods use.
func (o *oracle) wildcards() *networkv1alpha1.NodeWildcards {
	var sets []unit.Key
	for i := range o.firewalls {
		read, _ := facts.ParseEgressFirewall(&o.firewalls[i], nil)
		sets = append(sets, topology.EgressFirewallSets(read)...)
	}
	for i := range o.clusterPolicies {
		read, _ := o.clusterFacts(&o.clusterPolicies[i])
		sets = append(sets, topology.ClusterPolicyNames(read)...)
	}
	if !slices.Contains(sets, topology.DNSKey(aWildcard)) {
		return nil
	}
	return &networkv1alpha1.NodeWildcards{Names: []string{aWildcard}}
}

// setOfName is the set of the addresses of a DNS name.
func (o *oracle) setOfName(set unit.Key) unit.Unit {
	if set.Name() == aWildcard {
		addresses := map[netip.Addr]bool{}
		for _, nn := range o.networks {
			for _, w := range nn.Status.Wildcards {
				for _, a := range w.Addresses {
					addresses[netip.MustParseAddr(string(a))] = true
				}
			}
		}
		return topology.AddressSetUnit(set, slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare))
	}
	answer, _ := lookup(context.Background(), set.Name())
	return topology.AddressSetUnit(set, answer.Addresses)
}

// checkFirewalls checks that each firewall reports whether its rules are in force, and which names are unresolved.
func (o *oracle) checkFirewalls() {
	for i := range o.firewalls {
		firewall := &o.firewalls[i]
		_, invalid := facts.ParseEgressFirewall(firewall, nil)
		named, bad := false, false
		for _, rule := range firewall.Spec.Egress {
			named = named || rule.To.DNSName != ""
			bad = bad || strings.HasPrefix(rule.To.DNSName, "bad.") || rule.To.DNSName == aWildcard
		}
		for kind, want := range map[string]struct{ there, yes bool }{
			networkv1alpha1.ConditionReady: {true, invalid == nil}, networkv1alpha1.ConditionResolved: {named && invalid == nil, !bad},
		} {
			c := meta.FindStatusCondition(firewall.Status.Conditions, kind)
			if want.there != (c != nil) || c != nil && (c.Status == metav1.ConditionTrue) != want.yes || c != nil &&
				c.ObservedGeneration != firewall.Generation {
				o.complain("EgressFirewall %s/%s of generation %d has condition %s %+v, want %+v", firewall.Namespace,
					firewall.Name, firewall.Generation, kind, c, want)
			}
		}
	}
}

// vandaliseFirewall deletes a group, a set or a meter, or changes a rule, a meter band or a rule of an EgressQoS.
func (w *world) vandaliseFirewall(what string, n int) error {
	if table, deletes := strings.CutPrefix(what, "delete-"); deletes {
		if id, _, ok := w.pick(table, n); ok {
			return w.mirror.transact(operation{"op": "delete", "table": table, "where": where(id)})
		}
		return nil
	}
	table, spoilt := "ACL", operation{"priority": 31000 + n}
	switch what {
	case "qos":
		table, spoilt = "QoS", operation{"priority": 31000 + n}
	case "match":
		spoilt = operation{"match": "0"}
	case "unlogged":
		spoilt = operation{"log": false}
	case "rate":
		table, spoilt = "Meter_Band", operation{"rate": 31000 + n}
	}
	id, _, ok := w.pick(table, n)
	if !ok {
		return nil
	}
	return w.mirror.transact(operation{"op": "update", "table": table, "where": where(id), "row": spoilt})
}
