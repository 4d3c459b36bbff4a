package clusternetwork

import (
	"fmt"
	"net/netip"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// exhaustedNetworks names the nodes that lack a pod subnet of a family because none is free.
func exhaustedNetworks(f statusInput) (exhausted []string) {
	lacking := f.lackingSubnets()
	if len(lacking) == 0 {
		return nil
	}
	var used []netip.Prefix
	for i := range f.networks {
		for _, cidr := range f.networks[i].Spec.PodSubnets {
			if prefix, err := cidr.Prefix(); err == nil {
				used = append(used, prefix)
			}
		}
	}
	full := f.plan.Exhausted(used)
	for _, is4 := range []bool{true, false} {
		if err := full[is4]; err != nil && len(lacking[is4]) > 0 {
			exhausted = append(exhausted, fmt.Sprintf("%v; nodes without a subnet: %s", err, nameSome(lacking[is4])))
		}
	}
	return exhausted
}

// lackingSubnets lists the nodes without a subnet that gives addresses, by family: true for IPv4.
func (f statusInput) lackingSubnets() map[bool][]string {
	byName, lacking := f.byName(), map[bool][]string{}
	for i := range f.nodes {
		var spec networkv1alpha1.NodeNetworkSpec
		if nn := byName[f.nodes[i].Name]; nn != nil {
			spec = nn.Spec
		}
		for _, is4 := range f.plan.Missing(spec) {
			lacking[is4] = append(lacking[is4], f.nodes[i].Name)
		}
	}
	return lacking
}

// outdatedPods lists the pods whose addresses differ from a new pod's. It returns nil without such pods.
func outdatedPods(addresses Addresses) *networkv1alpha1.OutdatedPods {
	total, first := addresses.Outdated(networkv1alpha1.MaxOutdatedPods)
	if total == 0 {
		return nil
	}
	pods := &networkv1alpha1.OutdatedPods{Total: int32(total)}
	for _, o := range first {
		pods.First = append(pods.First, networkv1alpha1.OutdatedPod{Pod: o.Owner.Pod().String(), Message: o.Why})
	}
	return pods
}

// changeProblems reports changes of the networks that are under way: networks that were removed and are still in use, and
// pods that must be recreated.
func changeProblems(name string, f statusInput) (found []networkv1alpha1.Problem) {
	const area, state = networkv1alpha1.AreaAddresses, networkv1alpha1.StateProgressing
	object := "ClusterNetwork/" + name
	if len(f.leaving) > 0 {
		found = append(found, health.New(area, state, networkv1alpha1.ReasonNetworkLeaving, object, strings.Join(f.leaving, "; ")))
	}
	if f.outdated == nil {
		return found
	}
	names := make([]string, 0, namedNodes)
	for _, pod := range f.outdated.First[:min(namedNodes, len(f.outdated.First))] {
		names = append(names, pod.Pod)
	}
	text := strings.Join(names, ", ")
	if more := int(f.outdated.Total) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return append(found, health.New(area, state, networkv1alpha1.ReasonPodsOutdated, object, fmt.Sprintf(
		"%d pods have other addresses than new pods get, until they are recreated: %s", f.outdated.Total, text)))
}
