package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// externalRoutes is the resource of ExternalRoutes.
const externalRoutes = "externalroutes"

func aRoute(r *rand.Rand) string { return oneOf(r, "r0", "r1") }

var routeVariants = []string{"all", "pods", "namespaces", "bfd", "bfd", "routers", "unreadable"}

// routeChoices are the steps of ExternalRoutes, drawn separately from the others.
var routeChoices = []choice{
	{10, func(r *rand.Rand) Step {
		return Step{Do: "route", Name: aRoute(r), What: oneOf(r, routeVariants...), N: r.IntN(8)}
	}},
	{4, func(r *rand.Rand) Step { return Step{Do: "delete-route", Name: aRoute(r)} }},
	{6, func(r *rand.Rand) Step {
		return Step{Do: "label-pod", Name: aPod(r), What: oneOf(r, "yes", "yes", "no")}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "label-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, "yes", "no")}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "agent", Name: aNode(r), N: r.IntN(3)} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: externalRoutes} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: externalRoutes} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "lose", Name: externalRoutes} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "crash"} }},
}

// withRoutes inserts steps of ExternalRoutes into a third of the histories.
func withRoutes(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 26))
	if r.IntN(3) > 0 {
		return p
	}
	return sprinkled(p, r, 5+r.IntN(12), routeChoices)
}

// doRoute executes steps of administrators.
func (w *world) doRoute(ctx context.Context, s Step) (handled bool, err error) {
	e := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	switch s.Do {
	case "route":
		e.Spec = routeOf(s)
		if err := w.api.Create(ctx, e); !apierrors.IsAlreadyExists(err) {
			return true, ignoreRefused(s, err)
		}
		return true, ignoreRefused(s, change(ctx, w.api, types.NamespacedName{Name: s.Name}, e, func() { e.Spec = routeOf(s) }))
	case "delete-route":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, e))
	}
	return false, nil
}

// routeOf derives the spec of an ExternalRoute from a step.
func routeOf(s Step) (spec networkv1alpha1.ExternalRouteSpec) {
	hop := func(n int) networkv1alpha1.StaticNextHop {
		return networkv1alpha1.StaticNextHop{Address: networkv1alpha1.EgressAddress(fmt.Sprintf("192.0.2.%d", 200+n)), BFD: s.What == "bfd"}
	}
	spec.NextHops.Static = []networkv1alpha1.StaticNextHop{hop(s.N)}
	if s.N%2 == 0 {
		spec.NextHops.Static = append(spec.NextHops.Static, hop(s.N+1),
			networkv1alpha1.StaticNextHop{Address: networkv1alpha1.EgressAddress(fmt.Sprintf("2001:db8::%d", 200+s.N))})
	}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"out": "yes"}}
	switch s.What {
	case "pods":
		spec.PodSelector = selector
	case "namespaces", "bfd":
		spec.NamespaceSelector = selector
	case "routers":
		spec.NextHops.Static = nil
		spec.NextHops.Pods = []networkv1alpha1.PodNextHops{{PodSelector: selector, BFD: s.N%2 == 0}}
	case "unreadable":
		spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "out", Operator: "Like", Values: []string{"yes"}}}
	}
	return spec
}

// routedOn lists the pods of a node that have routers of their own, with the addresses of their ports.
func (o *oracle) routedOn(node string) (routed []facts.RoutedPod) {
	if !slices.ContainsFunc(o.routes, func(e networkv1alpha1.ExternalRoute) bool {
		return slices.ContainsFunc(e.Status.NextHops, func(hop networkv1alpha1.ExternalNextHop) bool { return hop.BFD })
	}) {
		return nil
	}
	for i := range o.pods {
		pod := &o.pods[i]
		if pod.Spec.NodeName != node || !hasOwnInterface(pod) {
			continue
		}
		id := topology.PodPortUUID(pod.Namespace, pod.Name, interfaceUID(pod))
		port, err := parsePort(id, o.rows["Logical_Switch_Port"][id])
		if hops := o.nextHopsOf(pod); err == nil && len(hops) > 0 {
			routed = append(routed, facts.RoutedPod{Addresses: port.addresses, NextHops: hops})
		}
	}
	return routed
}

// nextHopsOf returns the routers of a pod that its node reaches, unless the pod has an EgressIP.
func (o *oracle) nextHopsOf(pod *corev1.Pod) []facts.NextHop {
	if facts.SelectEgress(o.egress, o.services, pod.Namespace, o.labels[pod.Namespace], pod.Labels) != "" {
		return nil
	}
	hops := facts.NextHopsOf(o.routes, o.labels[pod.Namespace], pod.Labels)
	if nn := o.networks[pod.Spec.NodeName]; nn != nil {
		return facts.Reachable(hops, nn)
	}
	return hops
}

// nodeNetworks lists the NodeNetworks.
func (o *oracle) nodeNetworks() (all []networkv1alpha1.NodeNetwork) {
	for _, nn := range o.networks {
		all = append(all, *nn)
	}
	return all
}

// machines maps the addresses of the nodes in Kubernetes to their nodes.
func (o *oracle) machines() map[netip.Addr]string {
	all := map[netip.Addr]string{}
	for name, node := range o.nodes {
		for _, a := range node.Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil {
				all[address] = "node " + name
			}
		}
	}
	return all
}

// checkRoutes checks that each ExternalRoute lists its routers, and says whether they are in use.
func (o *oracle) checkRoutes() {
	var pods []facts.RouterPod
	for i := range o.pods {
		pods = append(pods, facts.RouterPod{Pod: &o.pods[i], NamespaceLabels: o.labels[o.pods[i].Namespace]})
	}
	for i := range o.routes {
		e := &o.routes[i]
		hops, former, unusable, invalid := facts.ChooseNextHops(e, pods, o.nodeNetworks(), o.machines())
		want := networkv1alpha1.ReasonAsExpected
		switch {
		case invalid != nil:
			want, hops, former = networkv1alpha1.ReasonInvalidSpec, e.Status.NextHops, e.Status.Former
		case len(hops) == 0:
			want = networkv1alpha1.ReasonNoNextHop
		case unusable != nil:
			want = networkv1alpha1.ReasonNextHopsUnusable
		}
		c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionReady)
		if c == nil || c.Reason != want || c.ObservedGeneration != e.Generation {
			o.complain("ExternalRoute %s of generation %d has condition %+v, want %s", e.Name, e.Generation, c, want)
		}
		if !slices.Equal(e.Status.NextHops, hops) || !slices.Equal(e.Status.Former, former) {
			o.complain("ExternalRoute %s has the routers %+v, want %+v, of which former %+v", e.Name, e.Status, hops, former)
		}
	}
}
