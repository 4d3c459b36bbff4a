package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/bgp"
)

var (
	peerVariants          = []string{"", "", "some", "unreadable", "same", "bfd"}
	advertisementVariants = []string{"", "", "pods", "egress", "some", "aggregated", "unreadable", "peers"}
)

// bgpChoices are the steps of BGPPeers and BGPAdvertisements.
var bgpChoices = []choice{
	{4, func(r *rand.Rand) Step {
		return Step{Do: "bgp-peer", Name: aNumbered(r, "r"), What: oneOf(r, peerVariants...)}
	}},
	{1, func(r *rand.Rand) Step { return Step{Do: "delete-bgp-peer", Name: aNumbered(r, "r")} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "bgp-adv", Name: aNumbered(r, "a"), What: oneOf(r, advertisementVariants...)}
	}},
	{1, func(r *rand.Rand) Step { return Step{Do: "delete-bgp-adv", Name: aNumbered(r, "a")} }},
	{1, func(r *rand.Rand) Step {
		return Step{Do: "delay", Name: oneOf(r, "bgppeers", "bgpadvertisements", "nodenetworks")}
	}},
	{1, func(r *rand.Rand) Step {
		return Step{Do: "deliver", Name: oneOf(r, "bgppeers", "bgpadvertisements", "nodenetworks")}
	}},
}

func aNumbered(r *rand.Rand, prefix string) string { return fmt.Sprint(prefix, r.IntN(2)) }

// withBGP inserts steps of BGP into a third of the histories.
func withBGP(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 15))
	if r.IntN(3) > 0 {
		return p
	}
	for range 6 + r.IntN(10) {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), draw(r, bgpChoices))
	}
	return p
}

// doBGP executes administrators' steps. A step on an object that exists changes it.
func (w *world) doBGP(ctx context.Context, s Step) (handled bool, err error) {
	name := types.NamespacedName{Name: s.Name}
	switch s.Do {
	case "bgp-peer":
		want, have := peerOf(s), &networkv1alpha1.BGPPeer{}
		if err := w.api.Create(ctx, want.DeepCopy()); ignoreExists(err) != nil {
			return true, err
		}
		return true, change(ctx, w.api, name, have, func() { have.Spec = want.Spec })
	case "delete-bgp-peer":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}))
	case "bgp-adv":
		want, have := advertisementOf(s), &networkv1alpha1.BGPAdvertisement{}
		if err := w.api.Create(ctx, want.DeepCopy()); ignoreExists(err) != nil {
			return true, err
		}
		return true, change(ctx, w.api, name, have, func() { have.Spec = want.Spec })
	case "delete-bgp-adv":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}))
	}
	return false, nil
}

// unparsable is a selector that the API server accepts.
var unparsable = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}

// peerOf derives a BGPPeer from the step.
func peerOf(s Step) *networkv1alpha1.BGPPeer {
	p := &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: networkv1alpha1.BGPPeerSpec{
		PeerAddress: "192.0.2.1" + networkv1alpha1.EgressAddress(s.Name[1:]), PeerASN: 64512, MyASN: 64513, PeerPort: 179, HoldTimeSeconds: 90,
		GracefulRestartTimeSeconds: new(int32(120))}}
	switch s.What {
	case "some":
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{networkv1alpha1.EgressAssignableLabel: ""}}
	case "unreadable":
		p.Spec.NodeSelector = unparsable
	case "same":
		p.Spec.PeerAddress = "192.0.2.10"
	case "bfd":
		p.Spec.BFD = &networkv1alpha1.BGPPeerBFD{TransmitIntervalMilliseconds: 100, ReceiveIntervalMilliseconds: 200, DetectMultiplier: 3}
	}
	return p
}

// advertisementOf derives a BGPAdvertisement from the step.
func advertisementOf(s Step) *networkv1alpha1.BGPAdvertisement {
	a := &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: networkv1alpha1.BGPAdvertisementSpec{
		LoadBalancers: &networkv1alpha1.BGPLoadBalancers{}, AggregationLength: 32, AggregationLengthV6: 128,
		Communities: []networkv1alpha1.BGPCommunity{networkv1alpha1.BGPCommunity("64513:" + s.Name[1:])}}}
	switch s.What {
	case "pods":
		a.Spec.PodSubnets = true
	case "egress":
		a.Spec.LoadBalancers, a.Spec.EgressIPs = nil, &networkv1alpha1.BGPEgressIPs{}
	case "some":
		a.Spec.LoadBalancers = &networkv1alpha1.BGPLoadBalancers{Pools: []string{"p0"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"out": "yes"}}}
	case "aggregated":
		a.Spec.AggregationLength, a.Spec.AggregationLengthV6 = 24, 64
	case "unreadable":
		a.Spec.NodeSelector = unparsable
	case "peers":
		a.Spec.Peers = []string{"r1"}
	}
	return a
}

// expectBGP compares each node's routes, and the status of the objects, with what computing again gives.
func (o *oracle) expectBGP() {
	w := bgp.World{Peers: o.bgpPeers, Advertisements: o.advertisements, Pools: o.balancers, Services: o.services, EgressIPs: o.egress,
		Endpoints: func(s *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
			return slices.DeleteFunc(slices.Clone(o.slices), func(e discoveryv1.EndpointSlice) bool {
				return e.Namespace != s.Namespace || e.Labels[discoveryv1.LabelServiceName] != s.Name
			}), nil
		},
		NamespaceLabels: func(name string) (map[string]string, error) { return o.labels[name], nil }}
	for _, node := range o.nodes {
		w.Nodes = append(w.Nodes, *node)
	}
	for _, nn := range o.networks {
		w.Networks = append(w.Networks, *nn)
	}
	result, err := bgp.Compute(w)
	if err != nil {
		o.complain("BGP: %v", err)
	}
	for name, nn := range o.networks {
		if want := result.Nodes[name]; o.nodes[name] != nil && !reflect.DeepEqual(nn.Spec.BGP, want) {
			o.complain("NodeNetwork %s: spec.bgp is %+v, want %+v", name, nn.Spec.BGP, want)
		}
	}
	for i := range o.bgpPeers {
		p := &o.bgpPeers[i]
		want := result.Peers[p.Name]
		c := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionEstablished)
		if c == nil || c.ObservedGeneration != p.Generation || int(p.Status.Nodes) != len(want.Nodes) {
			o.complain("the status of BGPPeer %s is %+v, want nodes %v", p.Name, p.Status, want.Nodes)
		}
		watched := p.Spec.BFD != nil
		condition := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionBFDUp)
		if (p.Status.BFDUp != nil) != watched || (condition != nil) != watched {
			o.complain("the status of BGPPeer %s is %+v, with BFD: %t", p.Name, p.Status, watched)
		}
	}
	for i := range o.advertisements {
		a := &o.advertisements[i]
		want := result.Advertisements[a.Name]
		c := meta.FindStatusCondition(a.Status.Conditions, networkv1alpha1.ConditionAdvertised)
		if c == nil || c.ObservedGeneration != a.Generation || int(a.Status.Prefixes) != want.Prefixes || int(a.Status.Nodes) != want.Nodes ||
			(c.Status == metav1.ConditionTrue) != (want.Reason == "") {
			o.complain("the status of BGPAdvertisement %s is %+v, want %+v", a.Name, a.Status, want)
		}
	}
}
