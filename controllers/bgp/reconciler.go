// Package bgp reconciles BGPPeers and BGPAdvertisements: it writes what each node announces into its NodeNetwork, and
// reports sessions and routes.
package bgp

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/bgp"
)

// Reconciler computes the routes of all nodes at once, because each object may concern every node. Events that come
// meanwhile are one further reconciliation.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	// Counted, if set, is kind.Settings.Sessions.
	Counted func(peer string, nodes, established int, bfdUp *int32)

	counted map[string]bool // peers that Counted received
}

// Reconcile implements reconcile.Reconciler. A failed write does not keep the others from being written.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	w, err := r.world(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	result, err := bgp.Compute(w)
	if err != nil {
		return ctrl.Result{}, err
	}
	var errs []error
	for i := range w.Networks {
		nn := &w.Networks[i]
		errs = append(errs, r.write(ctx, nn, result.Nodes[nn.Name]))
	}
	return ctrl.Result{}, errors.Join(append(errs, r.report(ctx, w, result))...)
}

// write makes a node's routes equal to want.
func (r *Reconciler) write(ctx context.Context, nn *networkv1alpha1.NodeNetwork, want *networkv1alpha1.NodeBGP) error {
	if !nn.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(nn.Spec.BGP, want) {
		return nil
	}
	changed := nn.DeepCopy()
	changed.Spec.BGP = want
	return client.IgnoreNotFound(kind.Write(ctx, r.Client, nn, changed))
}

// world lists the objects. They are only read.
func (r *Reconciler) world(ctx context.Context) (bgp.World, error) {
	var (
		peers          networkv1alpha1.BGPPeerList
		advertisements networkv1alpha1.BGPAdvertisementList
		networks       networkv1alpha1.NodeNetworkList
		nodes          corev1.NodeList
	)
	err := r.list(ctx, &peers, &advertisements, &networks, &nodes)
	w := bgp.World{Peers: peers.Items, Advertisements: advertisements.Items, Networks: networks.Items, Nodes: nodes.Items}
	if err != nil || len(peers.Items) == 0 || len(advertisements.Items) == 0 {
		return w, err
	}
	var (
		pools     networkv1alpha1.LoadBalancerPoolList
		egressIPs networkv1alpha1.EgressIPList
		services  corev1.ServiceList
	)
	err = r.list(ctx, &pools, &egressIPs, &services)
	w.Pools, w.EgressIPs, w.Services = pools.Items, egressIPs.Items, services.Items
	w.Endpoints = func(s *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
		var list discoveryv1.EndpointSliceList
		err := r.Client.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name})
		return list.Items, err
	}
	w.NamespaceLabels = func(name string) (map[string]string, error) {
		return kind.NamespaceLabels(ctx, r.Client, name) // its creation enqueues another reconciliation
	}
	return w, err
}

func (r *Reconciler) list(ctx context.Context, lists ...client.ObjectList) error {
	for _, list := range lists {
		if err := r.Client.List(ctx, list); err != nil {
			return err
		}
	}
	return nil
}
