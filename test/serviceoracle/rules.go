package serviceoracle

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// rule explains differences.
type rule struct {
	name    string
	applies func(*difference) bool
}

// byDesign are the differences from kube-proxy that Weft intends (docs/user/services.md). Two more are in the comparison itself: source
// ranges limit clients outside only, and an affinity of more than 65,535 s counts as that.
var byDesign = []rule{
	{"a cluster IP serves pods and nodes, not clients outside", func(d *difference) bool {
		return d.from.isOutside() && d.atClusterIP()
	}},
	{"an address and port of two services belong to one of them", func(d *difference) bool {
		return d.isContested() && (equal(d.got, d.contested) ||
			d.contested.Verdict == none && (d.got.Verdict == drop || d.got.Verdict == reject))
	}},
	{"an address of the pods' networks is reserved", func(d *difference) bool {
		return inAny(podPrefixes, d.to.Addr()) && d.got.Verdict == none
	}},
	{"an address of the service networks is a cluster IP or nobody's", func(d *difference) bool {
		isCluster := len(d.owners) > 0 && slices.Contains(d.owners[0].Spec.ClusterIPs, d.to.Addr().String())
		return inAny(servicePrefixes, d.to.Addr()) && !isCluster && d.got.Verdict != serve
	}},
	{"a loopback or unspecified address is not a load balancer's", func(d *difference) bool {
		return isSpecial(d.to.Addr()) && d.got.Verdict == none
	}},
	{"source ranges of one family admit nobody of the other", func(d *difference) bool {
		return d.got.Verdict == drop && d.from.isOutside() && d.hasIngress() && len(d.ranges()) > 0 &&
			!slices.ContainsFunc(d.ranges(), func(text string) bool { return strings.Contains(text, ":") == d.to.Addr().Is6() })
	}},
	{"a node's own endpoints come first, where a policy, affinity or distribution prefers the node", func(d *difference) bool {
		return d.from != pod && d.prefersNode() && d.want.Verdict == serve && d.got.Verdict == serve &&
			subset(d.got.Backends, d.want.Backends) && d.all(d.got.Backends, isOwn)
	}},
	{"where the host chooses and a client must keep its endpoint, all clients of the node have the same one", func(d *difference) bool {
		return (d.from != pod || isOwnAddress(d.to.Addr())) && d.want.Verdict == serve && d.hasAffinity() && len(d.got.Backends) == 1 &&
			subset(d.got.Backends, d.want.Backends)
	}},
	{"in Shared mode, policy Local needs the gateway router's address, because pods would not see the client", func(d *difference) bool {
		return (d.mode == shared && d.to.Addr() == ownAddresses[2] || d.mode == apart) && d.from.isOutside() && d.isExternalLocal() &&
			d.got.Verdict == none
	}},
	{"node ports answer at 127.0.0.1 for the host's programs, which nftables mode of kube-proxy leaves out", func(d *difference) bool {
		return d.from == host && d.to.Addr().IsLoopback() && d.want.Verdict == none
	}},
}

// recorded are sequences that found something rare, by seed and number. They are always run.
var recorded = []struct {
	seed   uint64
	number int
}{{110, 8}, {137, 36}, {142, 31}, {144, 49}}

// known are the faults that are not cured yet. Each must still occur. A cured one is removed here.
var known = []rule{}

func isSpecial(a netip.Addr) bool { return a.IsLoopback() || a.IsUnspecified() }

func inAny(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (d *difference) atClusterIP() bool { return inAny(servicePrefixes, d.to.Addr()) }

// isContested reports whether several services have the destination, or one has the address in two roles.
func (d *difference) isContested() bool {
	return len(d.owners) > 1 || len(d.owners) == 1 && slices.Contains(d.owners[0].Spec.ClusterIPs, d.to.Addr().String()) &&
		(d.isExternal() || d.hasIngress())
}

func portOf(s *corev1.Service, to destination) *corev1.ServicePort {
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if strings.EqualFold(string(p.Protocol), to.proto) && (p.Port == int32(to.Port()) || p.NodePort == int32(to.Port())) {
			return p
		}
	}
	return nil
}

func (d *difference) ranges() []string {
	if len(d.owners) == 0 {
		return nil
	}
	return d.owners[0].Spec.LoadBalancerSourceRanges
}

func (d *difference) isExternal() bool {
	return len(d.owners) > 0 && slices.Contains(d.owners[0].Spec.ExternalIPs, d.to.Addr().String())
}

func (d *difference) hasIngress() bool {
	return len(d.owners) > 0 && hasIngress(d.owners[0], d.to.Addr())
}

func hasIngress(s *corev1.Service, a netip.Addr) bool {
	return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == a.String() })
}

func (d *difference) isExternalLocal() bool {
	return len(d.owners) > 0 && d.owners[0].Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func (d *difference) isInternalLocal() bool {
	if len(d.owners) == 0 {
		return false
	}
	p := d.owners[0].Spec.InternalTrafficPolicy
	return p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal
}

func (d *difference) hasAffinity() bool {
	return slices.ContainsFunc(d.owners, func(s *corev1.Service) bool {
		return s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
	})
}

// prefersNode reports whether something makes the endpoints of the client's node, or of the node that it reached, come first.
func (d *difference) prefersNode() bool {
	if len(d.owners) == 0 {
		return false
	}
	spec := d.owners[0].Spec
	return spec.SessionAffinity == corev1.ServiceAffinityClientIP || spec.TrafficDistribution != nil ||
		d.mode != local && d.from.isOutside() && d.isExternalLocal() || d.from == host && d.isInternalLocal()
}

func (d *difference) all(backends []string, is func(netip.AddrPort) bool) bool {
	return !slices.ContainsFunc(backends, func(text string) bool {
		b, err := netip.ParseAddrPort(strings.TrimPrefix(text, "lost:"))
		return err != nil || !is(b)
	})
}

func isOwn(b netip.AddrPort) bool { return isOwnAddress(b.Addr()) }

func subset(of, all []string) bool {
	return !slices.ContainsFunc(of, func(text string) bool { return !slices.Contains(all, text) })
}
