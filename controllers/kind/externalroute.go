package kind

import (
	"k8s.io/apimachinery/pkg/api/equality"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ExternalRouteChanged reports whether an update of an ExternalRoute changes which pods have which routers.
func ExternalRouteChanged(before, after *networkv1alpha1.ExternalRoute) bool {
	return !equality.Semantic.DeepEqual(before.Spec.NamespaceSelector, after.Spec.NamespaceSelector) ||
		!equality.Semantic.DeepEqual(before.Spec.PodSelector, after.Spec.PodSelector) ||
		!equality.Semantic.DeepEqual(before.Status.NextHops, after.Status.NextHops)
}
