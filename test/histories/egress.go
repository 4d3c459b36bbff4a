package histories

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

const egressCount = 4

func anEgressIP(r *rand.Rand) string { return fmt.Sprintf("e%d", r.IntN(egressCount)) }

// egressVariants are what an EgressIP selects: namespaces, pods, everything, or an unreadable selector.
var egressVariants = []string{"", "", "pods", "pods", "namespaces", "both", "drop", "unreadable"}

// egressChoices are the steps of EgressIPs. They are drawn separately, so that a seed keeps its meaning for the
// other steps.
var egressChoices = []choice{
	{8, func(r *rand.Rand) Step {
		return Step{Do: "egressip", Name: anEgressIP(r), What: oneOf(r, egressVariants...), N: r.IntN(12)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-egressip", Name: anEgressIP(r)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "change-egressip", Name: anEgressIP(r), What: oneOf(r, egressVariants...), N: r.IntN(12)}
	}},
	{6, func(r *rand.Rand) Step {
		return Step{Do: "label-pod", Name: aPod(r), What: oneOf(r, "yes", "yes", "no")}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "label-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, "yes", "no")}
	}},
	{8, func(r *rand.Rand) Step {
		return Step{Do: "label-node", Name: aNode(r), What: oneOf(r, "yes", "yes", "no")}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "cordon", Name: aNode(r), N: r.IntN(2)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: "egressips"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: "egressips"} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: "egressips"} }},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-set", "spoil-translation"), N: r.IntN(100)}
	}},
}

// withEgressIPs inserts steps of EgressIPs into two of three histories.
func withEgressIPs(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 2))
	if r.IntN(3) == 0 {
		return p
	}
	for range 6 + r.IntN(14) {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), draw(r, egressChoices))
	}
	return p
}

// doEgress executes administrators' steps on EgressIPs, and users' changes to the labels that they select.
func (w *world) doEgress(ctx context.Context, s Step) (handled bool, err error) {
	label := func(o client.Object, key string) error { return w.tag(ctx, s, o, key) }
	switch s.Do {
	case "egressip":
		return true, ignoreExists(w.api.Create(ctx, egressOf(s)))
	case "delete-egressip":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}))
	case "change-egressip":
		e := &networkv1alpha1.EgressIP{}
		return true, change(ctx, w.api, types.NamespacedName{Name: s.Name}, e, func() { e.Spec = egressOf(s).Spec })
	case "label-pod":
		return true, label(&corev1.Pod{}, "out")
	case "label-namespace":
		s.Name = "/" + s.Name
		return true, label(&corev1.Namespace{}, "out")
	case "label-node":
		s.Name = "/" + s.Name
		return true, label(&corev1.Node{}, networkv1alpha1.EgressAssignableLabel)
	case "cordon":
		node := &corev1.Node{}
		return true, change(ctx, w.api, types.NamespacedName{Name: s.Name}, node, func() { node.Spec.Unschedulable = s.N == 1 })
	}
	return false, nil
}

// egressOf derives an EgressIP's addresses from the step's number. Some addresses are a node's own or in no node's
// network.
func egressOf(s Step) *networkv1alpha1.EgressIP {
	e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	address := func(format string, n int) networkv1alpha1.EgressAddress {
		return networkv1alpha1.EgressAddress(fmt.Sprintf(format, n))
	}
	e.Spec.EgressIPs = []networkv1alpha1.EgressAddress{address("192.0.2.%d", 150+s.N), address("2001:db8::%d", 150+s.N)}
	switch s.N % 6 {
	case 1:
		e.Spec.EgressIPs = append(e.Spec.EgressIPs, address("192.0.2.%d", 151+s.N))
	case 2:
		e.Spec.EgressIPs = []networkv1alpha1.EgressAddress{address("192.0.2.%d", 10+s.N/6)}
	case 3:
		e.Spec.EgressIPs = append(e.Spec.EgressIPs[:1], address("203.0.113.%d", s.N))
	}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"out": "yes"}}
	switch s.What {
	case "pods":
		e.Spec.PodSelector = selector
	case "namespaces":
		e.Spec.NamespaceSelector = selector
	case "both":
		e.Spec.PodSelector, e.Spec.NamespaceSelector = selector, selector
	case "drop":
		e.Spec.PodSelector, e.Spec.WhenUnassigned = selector, networkv1alpha1.UnassignedDrop
	case "unreadable":
		e.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "out", Operator: "Like", Values: []string{"yes"}}}
	}
	return e
}

// expectEgress expects the rows for the EgressIPs' status and checks the status itself: each address is on a node
// that can carry it, and the remaining addresses have no possible node.
func (o *oracle) expectEgress() {
	gateways, carriers := map[string]facts.Gateway{}, []facts.Carrier(nil)
	for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
		nn := o.networks[name]
		if nn == nil {
			continue
		}
		gateway, err := facts.ParseGateway(nn, o.nodes[name])
		if err != nil {
			continue // reported already
		}
		o.reach(&gateway, nn)
		gateways[name] = gateway
		if _, labelled := o.nodes[name].Labels[networkv1alpha1.EgressAssignableLabel]; labelled && !o.nodes[name].Spec.Unschedulable {
			carriers = append(carriers, facts.CarrierOf(gateway))
		}
	}
	for i := range o.egress {
		e := &o.egress[i]
		c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionAssigned)
		if c == nil || c.ObservedGeneration != e.Generation {
			o.complain("the status of EgressIP %s does not follow its spec: %+v", e.Name, e.Status)
			continue
		}
		o.checkAssigned(e, c, carriers)
		read, err := facts.ParseEgressIP(e, gateways)
		if err != nil {
			o.complain("EgressIP %s: %w", e.Name, err)
			continue
		}
		o.units = append(o.units, topology.EgressIPUnit(read))
	}
}

// checkAssigned checks an assignment: it is stable, and each address is on one node that can carry it.
func (o *oracle) checkAssigned(e *networkv1alpha1.EgressIP, c *metav1.Condition, carriers []facts.Carrier) {
	if _, err := facts.Selects(e, nil, nil); err != nil {
		if len(e.Status.Items) > 0 || c.Reason != networkv1alpha1.ReasonInvalidSpec {
			o.complain("EgressIP %s is unreadable, but its status is %+v", e.Name, e.Status)
		}
		return
	}
	addresses, err := facts.EgressAddresses(e)
	if err != nil {
		o.complain("EgressIP %s: %w", e.Name, err)
		return
	}
	var current []facts.Assignment
	seen := map[string]bool{}
	for _, item := range e.Status.Items {
		address, err := item.EgressIP.Addr()
		if err != nil {
			o.complain("EgressIP %s: %w", e.Name, err)
			return
		}
		current = append(current, facts.Assignment{Address: address, Node: item.Node})
		i := slices.IndexFunc(carriers, func(c facts.Carrier) bool { return c.Node == item.Node })
		if i < 0 || !carriers[i].Router || !slices.ContainsFunc(carriers[i].Networks, func(n netip.Prefix) bool {
			return n.Masked().Contains(address)
		}) {
			o.complain("EgressIP %s: node %s cannot carry %s", e.Name, item.Node, address)
		}
		if key := fmt.Sprint(item.Node, address.Is4()); seen[key] {
			o.complain("EgressIP %s: node %s carries two addresses of a family", e.Name, item.Node)
		} else {
			seen[key] = true
		}
	}
	former := facts.FormerEgressAddresses(e)
	assigned, unassigned, kept := facts.AssignEgressIPs(addresses, former, current, carriers, func(a netip.Addr) string {
		return o.addressOwner(e, a)
	})
	if !slices.Equal(kept, former) {
		o.complain("EgressIP %s keeps %v, want %v", e.Name, former, kept)
	}
	if len(current) != len(assigned) || len(current) > 0 && !reflect.DeepEqual(assigned, current) {
		o.complain("EgressIP %s has assignments %v, want %v", e.Name, current, assigned)
	}
	if (c.Status == metav1.ConditionTrue) != (len(unassigned) == 0) {
		o.complain("EgressIP %s has no node for %v, but its condition is %+v", e.Name, unassigned, c)
	}
}

// isGranted reports whether the status of an EgressIP lists an address as its own.
func (o *oracle) isGranted(address netip.Addr) bool {
	return slices.ContainsFunc(o.egress, func(e networkv1alpha1.EgressIP) bool { return lists(&e, address) })
}

func lists(e *networkv1alpha1.EgressIP, address netip.Addr) bool {
	text := networkv1alpha1.IP(address.String())
	return slices.Contains(slices.Concat(e.Status.Former, e.Status.Held), text) ||
		slices.ContainsFunc(e.Status.Items, func(i networkv1alpha1.EgressIPStatusItem) bool { return i.EgressIP == text })
}

// yields reports whether a Service waits for an external address, because a NAT pool or an EgressIP has it. It keeps what a
// LoadBalancerPool gave it.
func (o *oracle) yields(service *corev1.Service, address netip.Addr) bool {
	given := lbpool.IsOurs(service) && slices.Contains(balancedOn(service), address)
	return !given && (o.isGranted(address) || o.inForceOf(address) != "")
}

// addressOwner returns the present owner of an address: an EgressIP that was granted it and requests it, or that is older, a node, an
// older NAT pool, or a service that has it in force.
func (o *oracle) addressOwner(e *networkv1alpha1.EgressIP, address netip.Addr) string {
	for i := range o.egress {
		other := &o.egress[i]
		if other.Name == e.Name || !slices.Contains(facts.EgressAddressesInUse(other), address) {
			continue
		}
		requested := networkv1alpha1.EgressAddress(address.String())
		theirs := slices.Contains(other.Spec.EgressIPs, requested) && slices.Contains(facts.GrantedEgressAddresses(other), address)
		mine := slices.Contains(e.Spec.EgressIPs, requested) && slices.Contains(facts.GrantedEgressAddresses(e), address)
		if theirs && !mine || theirs == mine && facts.PrecedesEgressIP(other, e) {
			return "an EgressIP's"
		}
	}
	for _, nn := range o.networks {
		if found := nn.Status.Gateway; found != nil {
			for _, a := range found.Addresses {
				if prefix, err := a.Prefix(); err == nil && prefix.Addr() == address {
					return "a node's"
				}
			}
			if slices.Contains(found.NextHops, networkv1alpha1.IP(address.String())) {
				return "a router's"
			}
		}
	}
	for i := range o.services {
		service := &o.services[i]
		if slices.Contains(facts.ServiceAddresses(service), address) && !o.yields(service, address) {
			return "a service's"
		}
	}
	isCarried := slices.ContainsFunc(e.Status.Items, func(i networkv1alpha1.EgressIPStatusItem) bool {
		return i.EgressIP == networkv1alpha1.IP(address.String())
	})
	if !isCarried && slices.ContainsFunc(o.floatingIPs, func(f networkv1alpha1.FloatingIP) bool {
		return f.Spec.Holder != nil && f.Name == networkv1alpha1.FloatingIPName(address)
	}) {
		return "a workload's"
	}
	if o.poolOf(address, e.CreationTimestamp) != "" {
		return "an IPPool's"
	}
	return ""
}
