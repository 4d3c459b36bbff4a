package gateway

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
)

// ByAddress is the index of Nodes by their InternalIPs, and of NodeNetworks by the addresses that their agents report.
const ByAddress = "gatewayAddress"

// IndexByAddress is the function of the index ByAddress.
func IndexByAddress(o client.Object) (texts []string) {
	found := addressesOf(o)
	if nn, ok := o.(*networkv1alpha1.NodeNetwork); ok {
		found = facts.ReportedAddresses(nn)
	}
	for _, address := range found {
		texts = append(texts, address.String())
	}
	return texts
}

// addressesOf returns a Node's InternalIPs, or the addresses that a NodeNetwork's gateway claims.
func addressesOf(o client.Object) []netip.Addr {
	switch o := o.(type) {
	case *corev1.Node:
		return facts.InternalIPs(o)
	case *networkv1alpha1.NodeNetwork:
		return facts.GatewayAddresses(o)
	}
	return nil
}

// usurped returns which address of the node's gateway belongs to another node, or "".
func (r *Reconciler) usurped(ctx context.Context, nn *networkv1alpha1.NodeNetwork) (string, error) {
	var owners []corev1.Node
	var claims []networkv1alpha1.NodeNetwork
	for _, address := range facts.GatewayAddresses(nn) {
		var nodes corev1.NodeList
		if err := r.Client.List(ctx, &nodes, client.MatchingFields{ByAddress: address.String()}); err != nil {
			return "", err
		}
		var networks networkv1alpha1.NodeNetworkList
		if err := r.Client.List(ctx, &networks, client.MatchingFields{ByAddress: address.String()}); err != nil {
			return "", err
		}
		owners, claims = append(owners, nodes.Items...), append(claims, networks.Items...)
	}
	return facts.Usurped(nn, owners, claims), nil
}

// report writes the condition of a gateway that is not accepted, or is accepted again. Of a node elsewhere, whose operator reports it, it
// writes nothing.
func (r *Reconciler) report(ctx context.Context, nn *networkv1alpha1.NodeNetwork, reason, usurped string) error {
	if r.Zone.Elsewhere(nn) {
		return nil
	}
	want := metav1.Condition{Type: networkv1alpha1.ConditionGatewayAccepted, Status: metav1.ConditionTrue,
		Reason: networkv1alpha1.ReasonAsExpected, ObservedGeneration: nn.Generation}
	if usurped != "" {
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, reason, usurped
	}
	have := meta.FindStatusCondition(nn.Status.Conditions, want.Type)
	if usurped == "" && (have == nil || have.Status == metav1.ConditionTrue) || have != nil &&
		have.Status == want.Status && have.Message == want.Message {
		return nil
	}
	patched := nn.DeepCopy()
	meta.SetStatusCondition(&patched.Status.Conditions, want)
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, nn, patched))
}

// claimers enqueues the nodes whose gateways claim an address that a Node or NodeNetwork has gained or lost.
func (r *Reconciler) claimers() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, addresses []netip.Addr) {
		for _, address := range addresses {
			var list networkv1alpha1.NodeNetworkList
			if err := r.Client.List(ctx, &list, client.MatchingFields{ByAddress: address.String()}); err != nil {
				return // the cache returns no errors once it is in sync
			}
			for i := range list.Items {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, addressesOf(e.Object)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, addressesOf(e.Object)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := addressesOf(e.ObjectOld), addressesOf(e.ObjectNew)
			if !slices.Equal(before, after) {
				enqueue(ctx, q, append(before, after...))
			}
		},
	}
}
