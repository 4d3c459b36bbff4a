package policy

import (
	"context"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

func (r *Cluster) kind() *kind.Kind {
	return r.Optional.kind(r, kind.Map(&corev1.Node{}, r.namingNodes, trigger.Changed(nodeChanged)))
}

// clusterPolicyChanged passes changes of the spec and the status, including our own writes. A condition that equals
// an outdated status is not written, so it is compared again when our last write arrives.
func clusterPolicyChanged(e event.UpdateEvent) bool {
	before, after := conditionsOf(e.ObjectOld), conditionsOf(e.ObjectNew)
	return trigger.SpecChanged().Update(e) || before == nil || after == nil || !equality.Semantic.DeepEqual(*before, *after)
}

// nodeChanged passes changes of the node's labels and addresses.
func nodeChanged(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}

// namingNodes returns a request for each policy that names nodes.
func (r *Cluster) namingNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, namesNodes)
}

func namesNodes(policy client.Object) (named bool) {
	_, _ = facts.ParseClusterPolicy(policy, func(facts.PodSelector, facts.NamedPort) []uint16 { return nil },
		func(labels.Selector) []netip.Addr {
			named = true
			return nil
		})
	return named
}
