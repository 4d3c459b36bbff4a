package facts

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// waiting is the prefix of the message of a network that is held because of another.
const waiting = "waits: "

// JudgeNetworks computes status.networks from the plan of the whole spec. A network that is in force stays in force,
// and so does a network that a node already uses, even if it overlaps. While no network is in force, an overlap holds
// all of them. Later an overlap holds the overlapping entry of clusterNetwork and the entries behind it. Removed networks
// that are still in use come last. Without a Node there is nothing to compare with: the previous states stay while they
// belong to the spec, and an edited spec counts as never judged.
func JudgeNetworks(cn *networkv1alpha1.ClusterNetwork, plan Plan, nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork,
	hosts []HostAddress) []networkv1alpha1.NetworkStatus {
	former := cn.Status.Networks
	if len(nodes) == 0 && isJudged(cn) {
		return former
	} else if len(nodes) == 0 {
		return nil
	}
	plan.Join = inOrderOf(former, plan.Join)
	all, used := plan.networks(), usedNetworks(networks)
	inForce := map[netip.Prefix]bool{}
	for _, n := range all {
		if entered(stateOf(former, n.cidr)) || used(n) {
			inForce[n.cidr] = true
		}
	}
	first := len(inForce) == 0
	held := ""
	if first {
		held = plan.Overlap(hosts)
	}
	var families []bool // with a network of pods in force
	states := make([]networkv1alpha1.NetworkStatus, 0, len(all))
	for _, n := range all {
		state := networkv1alpha1.NetworkStatus{CIDR: asInSpec(cn.Spec, n.cidr), State: networkv1alpha1.NetworkInForce}
		waits := first || n.field == networkv1alpha1.FieldClusterNetwork || !slices.Contains(families, n.cidr.Addr().Is4())
		if text := n.overlap(hosts); !inForce[n.cidr] && (text != "" || held != "" && waits) {
			state.State, state.Message = networkv1alpha1.NetworkHeld, cmp.Or(text, waiting+held)
			held = cmp.Or(held, text)
		} else if n.field == networkv1alpha1.FieldClusterNetwork {
			families = append(families, n.cidr.Addr().Is4())
		}
		states = append(states, state)
	}
	return append(states, leavingNetworks(plan, networks)...)
}

// entered reports whether a network in a state is in use.
func entered(state networkv1alpha1.NetworkState) bool {
	return state == networkv1alpha1.NetworkInForce || state == networkv1alpha1.NetworkLeaving
}

// inOrderOf sorts join networks: those in force first, in their order, then IPv4. MACs are derived from the first, and
// must stay when a family is added.
func inOrderOf(former []networkv1alpha1.NetworkStatus, joins []netip.Prefix) []netip.Prefix {
	place := func(join netip.Prefix) int {
		i := slices.IndexFunc(former, func(s networkv1alpha1.NetworkStatus) bool {
			prefix, err := s.CIDR.Prefix()
			return err == nil && prefix == join && entered(s.State)
		})
		if i < 0 {
			i = len(former)
		}
		return i
	}
	return slices.SortedStableFunc(slices.Values(joins), func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()))
	})
}

// asInSpec returns a network in the spelling of the spec, because the CRD's rules compare texts.
func asInSpec(spec networkv1alpha1.ClusterNetworkSpec, cidr netip.Prefix) networkv1alpha1.CIDR {
	texts := slices.Concat(spec.ServiceNetwork, spec.JoinSubnet)
	for _, entry := range spec.ClusterNetwork {
		texts = append(texts, entry.CIDR)
	}
	for _, text := range texts {
		if prefix, err := text.Prefix(); err == nil && prefix == cidr {
			return text
		}
	}
	return networkv1alpha1.CIDR(cidr.String())
}

// usedNetworks returns a function that reports whether a node uses a part of a network.
func usedNetworks(networks []networkv1alpha1.NodeNetwork) func(specNetwork) bool {
	used := map[string]bool{}
	for i := range networks {
		spec := &networks[i].Spec
		if len(spec.PodSubnets) == 0 {
			continue
		}
		for _, cidr := range slices.Concat(spec.ClusterSubnets, spec.ServiceSubnets) {
			used[string(cidr)] = true
		}
		for _, join := range spec.JoinAddresses {
			if prefix, err := join.Prefix(); err == nil {
				used[prefix.Masked().String()] = true
			}
		}
	}
	return func(n specNetwork) bool { return used[n.cidr.String()] }
}

func stateOf(states []networkv1alpha1.NetworkStatus, cidr netip.Prefix) networkv1alpha1.NetworkState {
	for _, s := range states {
		if prefix, err := s.CIDR.Prefix(); err == nil && prefix == cidr {
			return s.State
		}
	}
	return ""
}

// isJudged reports whether status.networks belongs to the present spec: it has each network of the spec, and any other
// network of it is leaving. After an edit of the spec it does not until the networks are judged again. A spec that
// ParseClusterNetwork refuses counts as judged.
func isJudged(cn *networkv1alpha1.ClusterNetwork) bool {
	plan, err := ParseClusterNetwork(cn)
	if err != nil {
		return true
	}
	var judged []netip.Prefix
	for _, s := range cn.Status.Networks {
		if n, err := s.CIDR.Prefix(); err == nil && s.State != networkv1alpha1.NetworkLeaving {
			judged = append(judged, n)
		}
	}
	planned := plan.networks()
	return len(planned) == len(judged) && !slices.ContainsFunc(planned, func(n specNetwork) bool { return !slices.Contains(judged, n.cidr) })
}

// AwaitsJudgement reports whether the spec was edited and its networks are not judged again yet. Until then status.networks
// may lack a removed network that pods still use. Networks that were never judged are not awaited, because without a Node
// they are not judged at all.
func AwaitsJudgement(cn *networkv1alpha1.ClusterNetwork) bool {
	return len(cn.Status.Networks) > 0 && !isJudged(cn)
}

// PlanInForce returns the part of a ClusterNetwork's spec that nodes may use, by status.networks. Before the networks
// are judged it returns the whole spec, Pending. The error is a HeldError if no entry of clusterNetwork is in force,
// and otherwise ParseClusterNetwork's.
func PlanInForce(cn *networkv1alpha1.ClusterNetwork) (Plan, error) {
	plan, err := ParseClusterNetwork(cn)
	if err != nil {
		return plan, err
	}
	if len(cn.Status.Networks) == 0 {
		plan.Pending = true
		return plan, nil
	}
	held := func(cidr netip.Prefix) bool { return !entered(stateOf(cn.Status.Networks, cidr)) }
	plan.Clusters = slices.DeleteFunc(plan.Clusters, func(cluster ipam.Network) bool { return held(cluster.CIDR) })
	plan.Services = slices.DeleteFunc(plan.Services, held)
	plan.Join = slices.DeleteFunc(inOrderOf(cn.Status.Networks, plan.Join), held)
	if len(plan.Clusters) == 0 {
		return Plan{}, &HeldError{HeldNetworks(cn.Status.Networks)}
	}
	return plan.withLeaving(cn.Status.Networks), nil
}

// HeldNetworks explains which networks are held, or returns "".
func HeldNetworks(states []networkv1alpha1.NetworkStatus) string {
	for _, s := range states {
		if s.State == networkv1alpha1.NetworkHeld {
			return strings.TrimPrefix(s.Message, waiting)
		}
	}
	return ""
}
