package clusternetwork

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// serviceCIDRs lists the networks from which the API server allocates cluster IPs. It returns nil before Kubernetes
// 1.33, which does not serve the kind.
func (r *Reconciler) serviceCIDRs(ctx context.Context) ([]networkingv1.ServiceCIDR, error) {
	if !servesServiceCIDRs(r.Client.RESTMapper()) {
		return nil, nil
	}
	var list networkingv1.ServiceCIDRList
	err := r.Client.List(ctx, &list)
	return list.Items, err
}

// servesServiceCIDRs reports whether the API server serves the kind. A watch of a kind that is not served would never
// be in sync.
func servesServiceCIDRs(mapper meta.RESTMapper) bool {
	gvk := networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR")
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err == nil
}

// serviceMismatch describes how the networks of the API server's cluster IPs differ from spec.serviceNetwork, which
// nodes route to the load balancers. It returns "" without a difference, or if the API server does not serve them.
func serviceMismatch(plan facts.Plan, given []networkingv1.ServiceCIDR) string {
	var wrong []string
	covered := map[netip.Prefix]bool{}
	for i := range given {
		if given[i].DeletionTimestamp != nil {
			continue // it allocates no more addresses, and is deleted when none is in use
		}
		for _, text := range given[i].Spec.CIDRs {
			cidr, err := netip.ParsePrefix(text)
			if err != nil {
				continue // the API server has validated it
			}
			in := slices.IndexFunc(plan.Services, func(s netip.Prefix) bool { return s.Bits() <= cidr.Bits() && s.Contains(cidr.Addr()) })
			if in < 0 {
				wrong = append(wrong, fmt.Sprintf("ServiceCIDR %s allocates addresses of %s, which nodes do not route to services",
					given[i].Name, cidr))
				continue
			}
			covered[plan.Services[in]] = true
		}
	}
	for _, service := range plan.Services {
		if len(given) > 0 && !covered[service] {
			wrong = append(wrong, fmt.Sprintf("no ServiceCIDR allocates addresses of %s", service))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	slices.Sort(wrong)
	return "spec.serviceNetwork and the API server's service networks differ: " + strings.Join(wrong, "; ")
}
