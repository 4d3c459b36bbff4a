package network

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// byRefusal indexes, as "true", the Pods and Services whose conditions report a refused request.
const (
	byRefusal    = "refused"
	refusedValue = "true"
)

// refusals are the conditions of pods that are False while a request is refused.
var refusals = []corev1.PodConditionType{networkv1alpha1.PodHostPortsReady, networkv1alpha1.PodNetworksAllocated,
	networkv1alpha1.PodNetworksAttached}

// refusal returns what an object was refused. It is empty if nothing was refused, or the condition is not there yet.
func refusal(o client.Object) string {
	switch o := o.(type) {
	case *corev1.Pod:
		var refused []string
		for _, c := range o.Status.Conditions {
			if slices.Contains(refusals, c.Type) && c.Status == corev1.ConditionFalse {
				refused = append(refused, c.Message)
			}
		}
		return strings.Join(refused, "; ")
	case *corev1.Service:
		if meta.IsStatusConditionFalse(o.Status.Conditions, networkv1alpha1.ServiceAddressesReady) {
			return meta.FindStatusCondition(o.Status.Conditions, networkv1alpha1.ServiceAddressesReady).Message
		}
	}
	return ""
}

// indexRefusal is the function of the index byRefusal.
func indexRefusal(o client.Object) []string {
	if refusal(o) == "" {
		return nil
	}
	return []string{refusedValue}
}

// refusalChanged passes events that change ClusterNetwork's list of refused objects.
func refusalChanged() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && refusal(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return refusal(e.ObjectOld) != refusal(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return refusal(e.Object) != "" },
	}
}

// refusals lists Networks, pods and services with a refused request, or nil. Without the indexes the list stays unchanged.
func (r *Reconciler) refusals(ctx context.Context, have *networkv1alpha1.Refusals,
	furthers []networkv1alpha1.Network) (*networkv1alpha1.Refusals, error) {
	if !r.indexed {
		return have, nil
	}
	var pods corev1.PodList
	var services corev1.ServiceList
	for _, list := range []client.ObjectList{&pods, &services} {
		if err := r.Client.List(ctx, list, client.MatchingFields{byRefusal: refusedValue}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	all := definitionRefusals(furthers)
	for i := range pods.Items {
		all = append(all, refusalOf("Pod", &pods.Items[i]))
	}
	for i := range services.Items {
		all = append(all, refusalOf("Service", &services.Items[i]))
	}
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b networkv1alpha1.Refusal) int { return cmp.Compare(a.Object, b.Object) })
	return &networkv1alpha1.Refusals{Total: int32(len(all)), First: all[:min(len(all), networkv1alpha1.MaxRefusals)]}, nil
}

func refusalOf(kind string, o client.Object) networkv1alpha1.Refusal {
	return networkv1alpha1.Refusal{Object: kind + "/" + o.GetNamespace() + "/" + o.GetName(), Message: refusal(o)}
}
