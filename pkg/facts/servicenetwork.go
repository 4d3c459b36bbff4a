package facts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// defaultServiceCIDR is the ServiceCIDR that the API server makes of its --service-cluster-ip-range.
const defaultServiceCIDR = "kubernetes"

// ChooseServiceNetworks returns status.serviceNetwork: for each family of clusterNetwork the network that the status has, or that the API
// server allocates cluster IPs from. It is nil if the spec has networks.
func ChooseServiceNetworks(cn *networkv1alpha1.ClusterNetwork, given []networkingv1.ServiceCIDR) (chosen []networkv1alpha1.CIDR) {
	if len(cn.Spec.ServiceNetwork) > 0 {
		return nil
	}
	candidates := slices.Clone(cn.Status.ServiceNetwork)
	for i := range given {
		if given[i].Name == defaultServiceCIDR {
			for _, text := range given[i].Spec.CIDRs {
				candidates = append(candidates, networkv1alpha1.CIDR(text))
			}
		}
	}
	seen := map[bool]bool{} // Is4 -> whether the family has its network
	for _, entry := range cn.Spec.ClusterNetwork {
		cluster, err := entry.CIDR.Prefix()
		if err != nil || seen[cluster.Addr().Is4()] {
			continue
		}
		i := slices.IndexFunc(candidates, func(text networkv1alpha1.CIDR) bool {
			prefix, err := text.Prefix()
			return err == nil && prefix.Addr().Is4() == cluster.Addr().Is4()
		})
		if i >= 0 {
			seen[cluster.Addr().Is4()], chosen = true, append(chosen, candidates[i])
		}
	}
	return chosen
}

// checkServices checks networks of services that the spec does not have. The API server has validated the spec's.
func (p Plan) checkServices() error {
	if len(p.Services) == 0 {
		return errors.New("spec.serviceNetwork is empty, and the API server has no ServiceCIDR " + defaultServiceCIDR +
			" of the families of spec.clusterNetwork: set it to the API server's --service-cluster-ip-range")
	}
	for _, cluster := range p.PodNetworks() {
		if !slices.ContainsFunc(p.Services, func(s netip.Prefix) bool { return s.Addr().Is4() == cluster.Addr().Is4() }) {
			return fmt.Errorf("spec.clusterNetwork %s: the API server's ServiceCIDR %s has no network of its family", cluster, defaultServiceCIDR)
		}
	}
	for _, service := range p.Services {
		for _, of := range []struct {
			field    string
			networks []netip.Prefix
		}{{"spec.clusterNetwork", p.PodNetworks()}, {"spec.joinSubnet", p.Join}} {
			if i := slices.IndexFunc(of.networks, service.Overlaps); i >= 0 {
				return fmt.Errorf("%s %s overlaps the API server's network of services %s", of.field, of.networks[i], service)
			}
		}
	}
	return nil
}
