package podports

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// selectedBy returns a function that lists the groups and sets of policies that select the pod's ports on a Network.
// A pod may be cached before its namespace, whose creation enqueues the pod again.
func (r *Reconciler) selectedBy(ctx context.Context, pod *corev1.Pod) (func(network string) []unit.Key, error) {
	in := &metav1.PartialObjectMetadata{}
	in.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Namespace}, in); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return func(network string) []unit.Key {
		return r.Selectors.Of(facts.SelectedPod{Network: network, Namespace: pod.Namespace, Name: pod.Name,
			NamespaceLabels: in.Labels, Labels: pod.Labels, Ports: facts.NamedPorts(pod)})
	}, nil
}

// stay leaves the ports of a pod whose requests cannot be served at present as they are, and returns their rows if they are known.
// Their groups and sets follow the policies.
func (r *Reconciler) stay(ctx context.Context, pod *corev1.Pod) (rows []unit.Row, known bool, err error) {
	rows, known = r.Database.RowsOf(topology.PodPortsKey(pod.Namespace, pod.Name))
	if len(rows) == 0 {
		return nil, known, nil
	}
	selected, err := r.selectedBy(ctx, pod)
	if err != nil {
		return nil, false, err
	}
	return rows, true, ovndb.IgnorePending(r.Database.Apply(ctx,
		topology.KeptPortsUnit(pod.Namespace, pod.Name, pod.Spec.NodeName, rows, selected)))
}
