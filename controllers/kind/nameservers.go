package kind

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// dnsService is the Service of the cluster's name servers, as kubeadm and the manifests of CoreDNS name it.
var dnsService = types.NamespacedName{Namespace: systemNamespace, Name: "kube-dns"}

// systemNamespace is the namespace of the cluster's own Services.
const systemNamespace = "kube-system"

// NameServers returns the addresses of the name servers that pods use, from the ClusterNetwork or from the Service
// kube-system/kube-dns. It returns nil without both.
func NameServers(ctx context.Context, c client.Client, cn *networkv1alpha1.ClusterNetwork) ([]networkv1alpha1.IP, error) {
	var service corev1.Service
	if err := c.Get(ctx, dnsService, &service); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return facts.NameServers(cn.Spec.DNS, &service), nil
}

// NameServersChanged passes events of the Service that change what NameServers returns.
func NameServersChanged() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == dnsService }),
		trigger.Changed(func(before, after *corev1.Service) bool {
			return !slices.Equal(before.Spec.ClusterIPs, after.Spec.ClusterIPs)
		}))
}
