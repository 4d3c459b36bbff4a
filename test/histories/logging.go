package histories

import (
	"context"
	"maps"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// loggings are values of the annotation for ACL logging; one is unreadable.
var loggings = []string{"", `{}`, `{"deny":"info"}`, `{"allow":"debug","deny":"alert","rate":5}`, `{"allow":"loud"}`}

// loggingChoices are the steps of logging, drawn separately from the others.
var loggingChoices = []choice{
	{3, func(r *rand.Rand) Step {
		return Step{Do: "log-namespace", Name: oneOf(r, "a", "b"), What: oneOf(r, loggings...)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "log-policy", Name: aPolicy(r), What: oneOf(r, loggings...)} }},
	{1, func(r *rand.Rand) Step {
		return Step{Do: "log-firewall", Name: oneOf(r, "a", "b"), What: oneOf(r, loggings...)}
	}},
	{1, func(r *rand.Rand) Step {
		return Step{Do: "vandal", What: oneOf(r, "delete-Meter", "rate", "unlogged"), N: r.IntN(100)}
	}},
}

// withLogging inserts steps of logging into half of the histories.
func withLogging(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 6))
	if r.IntN(2) == 0 {
		return p
	}
	return sprinkled(p, r, 3+r.IntN(6), loggingChoices)
}

// doLogging annotates a namespace, a policy or a firewall.
func (w *world) doLogging(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "log-namespace":
		return true, w.annotate(ctx, "/"+s.Name, &corev1.Namespace{}, s.What)
	case "log-policy":
		return true, w.annotate(ctx, s.Name, &networkingv1.NetworkPolicy{}, s.What)
	case "log-firewall":
		return true, w.annotate(ctx, s.Name+"/"+networkv1alpha1.EgressFirewallName, &networkv1alpha1.EgressFirewall{}, s.What)
	}
	return false, nil
}

func (w *world) annotate(ctx context.Context, name string, o client.Object, value string) error {
	return change(ctx, w.api, podKey(name), o, func() {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[networkv1alpha1.ACLLoggingAnnotation] = value; value == "" {
			delete(annotations, networkv1alpha1.ACLLoggingAnnotation)
		}
		o.SetAnnotations(annotations)
	})
}

// loggingOf returns the logging configuration of an object in a namespace.
func (o *objects) loggingOf(object client.Object) networkv1alpha1.ACLLogging {
	text, own := object.GetAnnotations()[networkv1alpha1.ACLLoggingAnnotation]
	if !own {
		text = o.logging[object.GetNamespace()]
	}
	logging, _ := networkv1alpha1.ParseACLLogging(text)
	return logging
}
