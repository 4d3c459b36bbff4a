package networkport

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// selectedBy returns a function that lists the groups and sets of policies that select the pod's ports on a Network.
// A pod may be cached before its namespace, whose creation enqueues the pod again.
func (r *Reconciler) selectedBy(ctx context.Context, pod *corev1.Pod) (func(network string) []unit.Key, error) {
	in, err := kind.NamespaceLabels(ctx, r.Client, pod.Namespace)
	if err != nil {
		return nil, err
	}
	return func(network string) []unit.Key {
		return r.Selectors.Of(facts.SelectedPod{Network: network, Namespace: pod.Namespace, Name: pod.Name,
			NamespaceLabels: in, Labels: pod.Labels, Ports: facts.NamedPorts(pod)})
	}, nil
}

// stay leaves the ports of a pod whose requests cannot be served at present as they are. Their groups and sets follow the policies.
// known is false while it is unknown which of them the database has; when it is known, the pod is enqueued.
func (r *Reconciler) stay(ctx context.Context, pod *corev1.Pod) (known bool, err error) {
	rows, known := r.Database.RowsOf(topology.PodPortsKey(pod.Namespace, pod.Name))
	if !known {
		return false, nil
	}
	if len(rows) > 0 {
		selected, err := r.selectedBy(ctx, pod)
		if err != nil {
			return false, err
		}
		err = r.Database.Apply(ctx, topology.KeptPortsUnit(pod.Namespace, pod.Name, pod.Spec.NodeName, rows, selected))
		switch {
		case ovndb.Lacks(err): // the rows of its Network are lost, and nobody can make them again while the Network is invalid
			rows = nil
		case err != nil:
			return false, ovndb.IgnorePending(err)
		}
	}
	for _, network := range r.holders.found(client.ObjectKeyFromObject(pod), rows) {
		r.count(network)
	}
	return true, nil
}
