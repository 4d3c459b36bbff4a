package clusternetwork

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
)

// apiServerService is the Service whose endpoints are the API servers.
const apiServerService = "kubernetes"

// apiServers lists the endpoints of the API server.
func (r *Reconciler) apiServers(ctx context.Context) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := r.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{discoveryv1.LabelServiceName: apiServerService})
	return list.Items, err
}

// apiServersOnly passes the endpoints of the API server.
func apiServersOnly() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == metav1.NamespaceDefault && o.GetLabels()[discoveryv1.LabelServiceName] == apiServerService
	})
}

// judge writes to status.networks which networks of the spec are in force, and returns the plan that nodes may use.
// The status is written before anything is derived from a network, because nodes read it there. Its resource version
// makes the write fail if the spec has changed meanwhile.
func (r *Reconciler) judge(ctx context.Context, cn *networkv1alpha1.ClusterNetwork) (plan facts.Plan, invalid, err error) {
	services, err := r.serviceCIDRs(ctx)
	if err != nil {
		return plan, nil, err
	}
	before := cn
	if chosen := facts.ChooseServiceNetworks(cn, services); !slices.Equal(chosen, cn.Status.ServiceNetwork) {
		before = kind.Detach(cn)
		cn.Status.ServiceNetwork = chosen
	}
	if plan, invalid = facts.ParseClusterNetwork(cn); invalid != nil {
		return plan, invalid, nil
	}
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes),
		r.Client.List(ctx, &networks)); err != nil {
		return plan, nil, err
	}
	apiServers, err := r.apiServers(ctx)
	if err != nil {
		return plan, nil, err
	}
	if facts.AnyRemoved(plan, networks.Items) { // a removed network may have addresses of IPPools
		if plan.Floating, err = r.floating(ctx); err != nil {
			return plan, nil, err
		}
	}
	hosts := facts.HostAddresses(nodes.Items, networks.Items, apiServers)
	states := facts.JudgeNetworks(cn, plan, nodes.Items, networks.Items, hosts)
	if before != cn || !equality.Semantic.DeepEqual(states, cn.Status.Networks) {
		if r.isBehind(cn) {
			return plan, nil, errBehind
		}
		if before == cn {
			before = kind.Detach(cn)
		}
		cn.Status.Networks = states
		if err := kind.WriteStatus(ctx, r.Client, before, cn); err != nil {
			return plan, nil, err
		}
		r.written, r.wroteAt = cn.ResourceVersion, time.Now()
	}
	plan, invalid = facts.PlanInForce(cn)
	return plan, invalid, nil
}

// invalidReason returns the reason of the condition for a spec that is not applied.
func invalidReason(err error) string {
	var held *facts.HeldError
	if errors.As(err, &held) {
		return networkv1alpha1.ReasonNetworkOverlapsNodes
	}
	return networkv1alpha1.ReasonInvalidSpec
}

// overlapProblems lists host addresses that are in networks of pods, of services or of OVN. A network may be held
// because of an address. A node with such an address gets no network, or keeps its existing one.
func overlapProblems(name string, f statusInput) (found []networkv1alpha1.Problem) {
	const area, state, reason = networkv1alpha1.AreaTopology, networkv1alpha1.StateDegraded, networkv1alpha1.ReasonNetworkOverlapsNodes
	if f.invalid != nil {
		return nil
	}
	if f.held != "" {
		found = append(found, health.New(area, state, reason, "ClusterNetwork/"+name, f.held+"; the network is not used"))
	}
	if text := f.plan.Overlap(facts.HostAddresses(nil, nil, f.apiServers)); text != "" {
		found = append(found, health.New(area, state, reason, "ClusterNetwork/"+name, text+": pods cannot reach it"))
	}
	byName := f.byName()
	for i := range f.nodes {
		text, nn := f.plan.OverlapOfNode(&f.nodes[i]), byName[f.nodes[i].Name]
		switch {
		case text == "", nn != nil && gatewayOverlaps(nn):
		case nn == nil:
			found = append(found, health.New(networkv1alpha1.AreaNodes, state, reason, "Node/"+f.nodes[i].Name,
				text+": the node gets no network"))
		default:
			found = append(found, health.New(networkv1alpha1.AreaNodes, state, reason, "Node/"+f.nodes[i].Name,
				text+": pods cannot reach it"))
		}
	}
	slices.SortFunc(found, func(a, b networkv1alpha1.Problem) int { return slices.Compare([]byte(a.Object), []byte(b.Object)) })
	return found
}

// gatewayOverlaps reports whether the NodeNetwork's own condition reports an overlap.
func gatewayOverlaps(nn *networkv1alpha1.NodeNetwork) bool {
	c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionGatewayAccepted)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == networkv1alpha1.ReasonNetworkOverlapsNodes
}

// addressesChanged passes updates of a Node that change its addresses.
func addressesChanged(before, after *corev1.Node) bool {
	return !slices.Equal(facts.InternalIPs(before), facts.InternalIPs(after))
}
