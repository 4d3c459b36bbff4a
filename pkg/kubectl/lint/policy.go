package lint

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// rule is a rule of a policy, of either direction.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// networkPolicy checks the selectors, ports and rules of a policy.
func (l *linter) networkPolicy(p *networkingv1.NetworkPolicy) {
	selector := l.selector("spec.podSelector", &p.Spec.PodSelector)
	if selector == nil {
		return
	}
	subjects := l.pods(l.namespace, selector)
	if len(subjects) == 0 {
		l.add("spec.podSelector", "selects no pod in namespace %s, so the policy has no effect", l.namespace)
	}
	ingress, egress := make([]rule, 0, len(p.Spec.Ingress)), make([]rule, 0, len(p.Spec.Egress))
	for _, r := range p.Spec.Ingress {
		ingress = append(ingress, rule{r.From, r.Ports})
	}
	for _, r := range p.Spec.Egress {
		egress = append(egress, rule{r.To, r.Ports})
	}
	l.rules("spec.ingress", "from", ingress, subjects)
	l.rules("spec.egress", "to", egress, nil)
	l.directions(p)
}

// directions reports rules of a direction that the policy does not isolate.
func (l *linter) directions(p *networkingv1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		return
	}
	if len(p.Spec.Ingress) > 0 && !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		l.add("spec.ingress", "has no effect, because policyTypes lacks Ingress")
	}
	if len(p.Spec.Egress) > 0 && !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
		l.add("spec.egress", "has no effect, because policyTypes lacks Egress")
	}
}

// rules checks the rules of a direction. owners are the pods that have the ports; without any the pods of the peers do.
func (l *linter) rules(field, peersField string, rules []rule, owners []Pod) {
	for i, r := range rules {
		at := fmt.Sprintf("%s[%d]", field, i)
		var peers []Pod
		known := len(r.peers) > 0
		for j, peer := range r.peers {
			found, ok := l.peer(fmt.Sprintf("%s.%s[%d]", at, peersField, j), peer)
			peers, known = append(peers, found...), known && ok
		}
		with := owners
		if peersField == "to" && known {
			with = peers
		}
		for j, p := range r.ports {
			if p.Port != nil && p.EndPort == nil && len(with) > 0 {
				l.port(fmt.Sprintf("%s.ports[%d].port", at, j), *p.Port, protocolOf(p), with)
			}
		}
		for j, other := range rules {
			if i != j && other.covers(r) && (j < i || !r.covers(other)) {
				l.add(at, "has no effect, because rule %d of the same direction allows all of it", j)
				break
			}
		}
	}
}

func protocolOf(p networkingv1.NetworkPolicyPort) corev1.Protocol {
	if p.Protocol == nil {
		return corev1.ProtocolTCP
	}
	return *p.Protocol
}

// peer returns the pods of a peer. ok is false for networks, and for selectors that cannot be read.
func (l *linter) peer(field string, peer networkingv1.NetworkPolicyPeer) (pods []Pod, ok bool) {
	if peer.IPBlock != nil {
		return nil, false
	}
	namespaces, some := []string{l.namespace}, cmp.Or(peer.PodSelector, &metav1.LabelSelector{})
	if peer.NamespaceSelector != nil {
		selector := l.selector(field+".namespaceSelector", peer.NamespaceSelector)
		if selector == nil {
			return nil, false
		}
		if namespaces = l.namespaces(selector); len(namespaces) == 0 {
			l.add(field+".namespaceSelector", "selects no namespace")
			return nil, true
		}
	}
	selector := l.selector(field+".podSelector", some)
	if selector == nil {
		return nil, false
	}
	for _, namespace := range namespaces {
		pods = append(pods, l.pods(namespace, selector)...)
	}
	if len(pods) == 0 && peer.PodSelector != nil {
		l.add(field+".podSelector", "selects no pod")
	}
	return pods, true
}

func (l *linter) namespaces(selector labels.Selector) (found []string) {
	for name, set := range l.Namespaces {
		if selector.Matches(set) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// covers reports whether the rule allows everything that another rule allows.
func (r rule) covers(other rule) bool {
	return includes(r.peers, other.peers, func(a, b networkingv1.NetworkPolicyPeer) bool { return reflect.DeepEqual(a, b) }) &&
		includes(r.ports, other.ports, portCovers)
}

// includes reports whether each element of some is covered by one of all. An empty list stands for everything.
func includes[T any](all, some []T, covers func(a, b T) bool) bool {
	if len(all) == 0 {
		return true
	}
	return len(some) > 0 && !slices.ContainsFunc(some, func(b T) bool {
		return !slices.ContainsFunc(all, func(a T) bool { return covers(a, b) })
	})
}

func portCovers(a, b networkingv1.NetworkPolicyPort) bool {
	if protocolOf(a) != protocolOf(b) {
		return false
	}
	if a.Port == nil || reflect.DeepEqual(a, b) {
		return true
	}
	if b.Port == nil || a.Port.Type != intstr.Int || b.Port.Type != intstr.Int {
		return b.Port != nil && a.Port.Type == b.Port.Type && *a.Port == *b.Port && a.EndPort == nil && b.EndPort == nil
	}
	return a.Port.IntVal <= b.Port.IntVal && endOf(b) <= endOf(a)
}

func endOf(p networkingv1.NetworkPolicyPort) int32 {
	if p.EndPort != nil {
		return *p.EndPort
	}
	return p.Port.IntVal
}

// egressFirewall reports rules behind a rule that decides about all of their packets.
func (l *linter) egressFirewall(f *networkv1alpha1.EgressFirewall) {
	for i, later := range f.Spec.Egress {
		for j, earlier := range f.Spec.Egress[:i] {
			ports := len(earlier.Ports) == 0 || reflect.DeepEqual(earlier.Ports, later.Ports)
			if ports && destinationCovers(earlier.To, later.To) {
				l.add(fmt.Sprintf("spec.egress[%d]", i), "has no effect, because spec.egress[%d] decides first about all of its packets", j)
				break
			}
		}
	}
}

func destinationCovers(a, b networkv1alpha1.EgressFirewallDestination) bool {
	if a.CIDRSelector != "" && b.CIDRSelector != "" {
		wide, errA := netip.ParsePrefix(a.CIDRSelector)
		narrow, errB := netip.ParsePrefix(b.CIDRSelector)
		return errA == nil && errB == nil && wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
	}
	a.DNSName, b.DNSName = strings.ToLower(strings.TrimSuffix(a.DNSName, ".")), strings.ToLower(strings.TrimSuffix(b.DNSName, "."))
	return reflect.DeepEqual(a, b)
}
