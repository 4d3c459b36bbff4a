package histories

import (
	"context"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
)

const onRequest = string(networkv1alpha1.MulticastOnRequest)

// multicastChoices are the steps of multicast, drawn separately from the others.
var multicastChoices = []choice{
	{8, func(r *rand.Rand) Step {
		return Step{Do: "multicast", Name: oneOf(r, "a", "b"), What: oneOf(r, "true", "true", "true", "false", "yes", "")}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "offer-multicast", What: oneOf(r, onRequest, onRequest, string(networkv1alpha1.MulticastFlood))}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "delay", Name: "namespaces"} }},
	{2, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: "namespaces"} }},
}

// withMulticast inserts steps of multicast into a third of the histories.
func withMulticast(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 24))
	if r.IntN(3) > 0 {
		return p
	}
	return sprinkled(p, r, 3+r.IntN(8), multicastChoices)
}

// doMulticast executes steps of administrators.
func (w *world) doMulticast(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "multicast":
		namespace := &corev1.Namespace{}
		return true, change(ctx, w.api, types.NamespacedName{Name: s.Name}, namespace, func() {
			if s.What == "" {
				delete(namespace.Annotations, networkv1alpha1.MulticastAnnotation)
				return
			}
			metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, networkv1alpha1.MulticastAnnotation, s.What)
		})
	case "offer-multicast":
		cn := &networkv1alpha1.ClusterNetwork{}
		err := change(ctx, w.api, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn, func() {
			cn.Spec.Multicast = networkv1alpha1.MulticastPolicy(s.What)
		})
		return true, client.IgnoreNotFound(err)
	}
	return false, nil
}

// expectMulticast expects the rows of the namespaces that request multicast. Their group and sets are expected with
// the policies.
func (o *oracle) expectMulticast() {
	for _, namespace := range o.multicast {
		if o.plan.Multicast {
			o.units = append(o.units, topology.MulticastUnit(namespace))
		}
	}
}
