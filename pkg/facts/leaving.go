package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// namedUsers bounds the nodes that the message of a leaving network names.
const namedUsers = 5

// AnyRemoved reports whether a node still has a network of pods that the plan lacks. Only then JudgeNetworks needs
// plan.Floating.
func AnyRemoved(plan Plan, networks []networkv1alpha1.NodeNetwork) bool {
	planned := plan.PodNetworks()
	return slices.ContainsFunc(networksOfNodes(networks).clusters, func(n netip.Prefix) bool { return !slices.Contains(planned, n) })
}

// leavingNetworks returns the networks that nodes still have and the plan lacks: networks of pods that are in use
// (usersOf), and the service and join networks of address families that only such networks have. It derives them from
// the NodeNetworks.
func leavingNetworks(plan Plan, networks []networkv1alpha1.NodeNetwork) (found []networkv1alpha1.NetworkStatus) {
	var families []bool // of leaving networks that no network of the plan has
	planned := plan.families()
	had := networksOfNodes(networks)
	for _, n := range had.clusters {
		if slices.Contains(plan.PodNetworks(), n) {
			continue
		}
		users := plan.usersOf(n, networks)
		if users == "" {
			continue
		}
		found = append(found, leaving(networkv1alpha1.FieldClusterNetwork, n, users))
		if is4 := n.Addr().Is4(); !slices.Contains(planned, is4) && !slices.Contains(families, is4) {
			families = append(families, is4)
		}
	}
	for _, n := range had.services {
		if slices.Contains(families, n.Addr().Is4()) {
			found = append(found, leaving(networkv1alpha1.FieldServiceNetwork, n, "waits for the networks of pods of its family"))
		}
	}
	for _, n := range had.joins {
		if slices.Contains(families, n.Addr().Is4()) {
			found = append(found, leaving(networkv1alpha1.FieldJoinSubnet, n, "waits for the networks of pods of its family"))
		}
	}
	return found
}

func leaving(field networkv1alpha1.NetworkField, n netip.Prefix, message string) networkv1alpha1.NetworkStatus {
	return networkv1alpha1.NetworkStatus{CIDR: networkv1alpha1.CIDR(n.String()), State: networkv1alpha1.NetworkLeaving,
		Field: field, Message: message}
}

// usersOf describes what uses a network besides the networks of the plan: subnets of nodes and addresses of IPPools.
// Without users it returns "".
func (p Plan) usersOf(n netip.Prefix, networks []networkv1alpha1.NodeNetwork) string {
	var users []string
	for i := range networks {
		subnets, err := prefixes("spec.podSubnets", networks[i].Spec.PodSubnets)
		if err == nil && slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return n.Overlaps(s) && p.leaves(s) }) {
			users = append(users, networks[i].Name)
		}
	}
	slices.Sort(users)
	switch {
	case len(users) > 0:
		return "pods still have addresses of it on " + some("node", users)
	case slices.ContainsFunc(p.Floating, func(f netip.Prefix) bool { return n.Overlaps(f) && p.leaves(f) }):
		return "IPPools have addresses of it"
	}
	return ""
}

// nodesNetworks are the networks that NodeNetworks name, each once and sorted.
type nodesNetworks struct{ clusters, services, joins []netip.Prefix }

func networksOfNodes(networks []networkv1alpha1.NodeNetwork) (had nodesNetworks) {
	add := func(to *[]netip.Prefix, n netip.Prefix, err error) {
		if err == nil && !slices.Contains(*to, n) {
			*to = append(*to, n)
		}
	}
	for i := range networks {
		spec := &networks[i].Spec
		for _, cidr := range spec.ClusterSubnets {
			n, err := cidr.Prefix()
			add(&had.clusters, n, err)
		}
		for _, cidr := range spec.ServiceSubnets {
			n, err := cidr.Prefix()
			add(&had.services, n, err)
		}
		for _, address := range spec.JoinAddresses {
			n, err := address.Prefix()
			add(&had.joins, n.Masked(), err)
		}
	}
	for _, list := range [][]netip.Prefix{had.clusters, had.services, had.joins} {
		slices.SortFunc(list, netip.Prefix.Compare)
	}
	return had
}

// withLeaving returns the plan with the leaving networks of a status.
func (p Plan) withLeaving(states []networkv1alpha1.NetworkStatus) Plan {
	for _, s := range states {
		n, err := s.CIDR.Prefix()
		if err != nil || s.State != networkv1alpha1.NetworkLeaving {
			continue
		}
		switch s.Field {
		case networkv1alpha1.FieldClusterNetwork:
			p.Leaving = append(p.Leaving, n)
		case networkv1alpha1.FieldServiceNetwork:
			p.Services = append(p.Services, n)
		case networkv1alpha1.FieldJoinSubnet:
			if !slices.Contains(p.Join, n) {
				p.Join = append(p.Join, n)
			}
		}
	}
	return p
}

// SameNetworks reports whether two lists have the same networks in the same states. Messages may differ.
func SameNetworks(a, b []networkv1alpha1.NetworkStatus) bool {
	return slices.EqualFunc(a, b, func(x, y networkv1alpha1.NetworkStatus) bool {
		return x.CIDR == y.CIDR && x.State == y.State && x.Field == y.Field
	})
}

// LeavingNetworks describes the networks of pods that were removed from the spec and are still in use.
func LeavingNetworks(states []networkv1alpha1.NetworkStatus) (found []string) {
	for _, s := range states {
		if s.State == networkv1alpha1.NetworkLeaving && s.Field == networkv1alpha1.FieldClusterNetwork {
			found = append(found, fmt.Sprintf("clusterNetwork %s was removed from spec: %s", s.CIDR, s.Message))
		}
	}
	return found
}

// some names some objects of a kind.
func some(kind string, names []string) string {
	if len(names) > 1 {
		kind += "s"
	}
	if len(names) > namedUsers {
		return fmt.Sprintf("%s %s and %d more", kind, strings.Join(names[:namedUsers], ", "), len(names)-namedUsers)
	}
	return kind + " " + strings.Join(names, ", ")
}

// ParseInUse reads a ClusterNetwork with the networks that were removed from its spec and are still in use.
func ParseInUse(cn *networkv1alpha1.ClusterNetwork) (Plan, error) {
	plan, err := ParseClusterNetwork(cn)
	if err != nil {
		return plan, err
	}
	return plan.withLeaving(cn.Status.Networks), nil
}
