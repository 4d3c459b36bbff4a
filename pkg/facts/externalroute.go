package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// NetworkStatusAnnotation on a pod lists its interfaces (Network Plumbing Working Group, de-facto standard 1.3).
const NetworkStatusAnnotation = "k8s.v1.cni.cncf.io/network-status"

// NextHop is a router outside by which pods leave.
type NextHop struct {
	Address netip.Addr
	// BFD watches the router.
	BFD bool
}

// RoutedPod is a pod with routers of its own.
type RoutedPod struct {
	Addresses []netip.Addr
	NextHops  []NextHop
}

// RouteSelects reports whether an ExternalRoute selects pods with the given labels in a namespace with the given labels. An
// unreadable selector selects nothing and is an error that names its field.
func RouteSelects(e *networkv1alpha1.ExternalRoute, namespace, pod labels.Set) (bool, error) {
	return matchBoth("spec", &e.Spec.NamespaceSelector, &e.Spec.PodSelector, namespace, pod)
}

// matchBoth compares the labels of a pod and of its namespace with selectors, whose fields are in the field named at.
func matchBoth(at string, namespaces, pods *metav1.LabelSelector, namespace, pod labels.Set) (bool, error) {
	ofNamespaces, err := metav1.LabelSelectorAsSelector(namespaces)
	if err != nil {
		return false, fmt.Errorf("%s.namespaceSelector: %w", at, err)
	}
	ofPods, err := metav1.LabelSelectorAsSelector(pods)
	if err != nil {
		return false, fmt.Errorf("%s.podSelector: %w", at, err)
	}
	return ofNamespaces.Matches(namespace) && ofPods.Matches(pod), nil
}

// NextHopsOf returns the routers by which pods with the given labels leave: what the status of each ExternalRoute lists that selects
// them, sorted. A router that one of them watches is watched.
func NextHopsOf(all []networkv1alpha1.ExternalRoute, namespace, pod labels.Set) (hops []NextHop) {
	watched := map[netip.Addr]bool{}
	for i := range all {
		if selects, err := RouteSelects(&all[i], namespace, pod); err != nil || !selects {
			continue
		}
		for _, hop := range all[i].Status.NextHops {
			if address, err := hop.Address.Addr(); err == nil {
				watched[address] = watched[address] || hop.BFD
			}
		}
	}
	for address, bfd := range watched {
		hops = append(hops, NextHop{Address: address, BFD: bfd})
	}
	slices.SortFunc(hops, func(a, b NextHop) int { return a.Address.Compare(b.Address) })
	return hops
}

// RouterPod is a pod that may be a router, with the labels of its namespace.
type RouterPod struct {
	Pod             *corev1.Pod
	NamespaceLabels labels.Set
}

// maxNextHops is how many routers an ExternalRoute may have in its status.
const maxNextHops = 64

// routers are the routers of an ExternalRoute by address.
type routers map[networkv1alpha1.IP]networkv1alpha1.ExternalNextHop

// ChooseNextHops returns the routers of an ExternalRoute: the static ones, and the running pods that it selects among pods, sorted by
// address. unusable says why others are not among them: selected pods without an address, addresses on the segment of no node, and
// static routers that are a node or one of machines, which are by address, "node n1". former are former static routers, which stay in
// use instead of unusable ones.
func ChooseNextHops(e *networkv1alpha1.ExternalRoute, pods []RouterPod, nodes []networkv1alpha1.NodeNetwork,
	machines map[netip.Addr]string) (hops, former []networkv1alpha1.ExternalNextHop, unusable, invalid error) {
	if invalid = checkRoute(e); invalid != nil {
		return nil, nil, nil, invalid
	}
	found := routers{}
	for _, hop := range e.Spec.NextHops.Static {
		address := networkv1alpha1.IP(hop.Address)
		found[address] = networkv1alpha1.ExternalNextHop{Address: address, BFD: hop.BFD}
	}
	for i := range e.Spec.NextHops.Pods {
		unusable = errors.Join(unusable, found.addPods(&e.Spec.NextHops.Pods[i], pods))
	}
	unusable = errors.Join(unusable, found.keepReachable(e.Status.NextHops, nodes, machines))
	kept := found.keepFormer(e)
	former = kept.sorted()
	unusable = errors.Join(unusable, kept.keepReachable(e.Status.NextHops, nodes, machines))
	for _, hop := range kept.sorted() {
		found[hop.Address] = hop
		unusable = errors.Join(unusable, fmt.Errorf("spec.nextHops.static had %s, which stays in use", hop.Address))
	}
	hops = found.sorted()
	if len(hops) > maxNextHops {
		unusable = errors.Join(unusable, fmt.Errorf("%d of %d routers are used", maxNextHops, len(hops)))
		hops = hops[:maxNextHops]
	}
	return hops, former, unusable, nil
}

// FormerNextHops returns the static routers that the status of an ExternalRoute has and its spec lacks.
func FormerNextHops(e *networkv1alpha1.ExternalRoute) (former []networkv1alpha1.ExternalNextHop) {
	for _, hop := range slices.Concat(e.Status.Former, e.Status.NextHops) {
		same := func(other networkv1alpha1.ExternalNextHop) bool { return other.Address == hop.Address }
		if hop.Pod == "" && !slices.ContainsFunc(former, same) &&
			!slices.ContainsFunc(e.Spec.NextHops.Static, func(s networkv1alpha1.StaticNextHop) bool {
				return networkv1alpha1.IP(s.Address) == hop.Address
			}) {
			former = append(former, hop)
		}
	}
	return former
}

// keepFormer returns the former routers that stay in use instead of static routers of the spec that are not among r.
func (r routers) keepFormer(e *networkv1alpha1.ExternalRoute) routers {
	var former, unusable, used []netip.Addr
	hops := map[netip.Addr]networkv1alpha1.ExternalNextHop{}
	for _, hop := range FormerNextHops(e) {
		if a, err := hop.Address.Addr(); err == nil {
			former, hops[a] = append(former, a), hop
		}
	}
	for _, hop := range e.Spec.NextHops.Static {
		if _, has := r[networkv1alpha1.IP(hop.Address)]; !has {
			unusable = append(unusable, netip.MustParseAddr(string(hop.Address))) // checkRoute has parsed it
		}
	}
	for address := range r {
		if a, err := address.Addr(); err == nil {
			used = append(used, a)
		}
	}
	kept := routers{}
	for _, a := range keepFormer(former, unusable, used) {
		kept[hops[a].Address] = hops[a]
	}
	return kept
}

// sorted returns the routers, sorted by address.
func (r routers) sorted() []networkv1alpha1.ExternalNextHop {
	return slices.SortedFunc(maps.Values(r), func(a, b networkv1alpha1.ExternalNextHop) int {
		return strings.Compare(string(a.Address), string(b.Address))
	})
}

// keepReachable removes the routers that no node reaches, and static routers that are a node or, unless they are present, one of
// machines. While a node has not reported its link, the present routers stay, because they may be on its segment. unusable says why
// a router was removed.
func (r routers) keepReachable(present []networkv1alpha1.ExternalNextHop, nodes []networkv1alpha1.NodeNetwork,
	machines map[netip.Addr]string) (unusable error) {
	reported := slices.DeleteFunc(slices.Clone(nodes), func(nn networkv1alpha1.NodeNetwork) bool { return nn.Status.Gateway == nil })
	if len(reported) == 0 {
		return nil
	}
	for _, address := range slices.Sorted(maps.Keys(r)) {
		router, err := address.Addr()
		reaches := func(nn networkv1alpha1.NodeNetwork) bool { return hasGatewayRouter(&nn) && reachesNextHop(&nn, router) }
		owns := func(nn networkv1alpha1.NodeNetwork) bool { return slices.Contains(hostAddressesOf(&nn), router) }
		isPresent := slices.ContainsFunc(present, func(hop networkv1alpha1.ExternalNextHop) bool { return hop.Address == address })
		waits := len(reported) < len(nodes) && isPresent
		owner := slices.IndexFunc(reported, owns)
		of := segmentOfAll(reported, router)
		switch {
		case err == nil && of.IsValid():
			err = fmt.Errorf("it is the address of all hosts of %s", of)
		case err == nil && owner >= 0 && r[address].Pod == "":
			err = fmt.Errorf("it is an address of node %s", reported[owner].Name)
		case err == nil && machines[router] != "" && r[address].Pod == "" && !isPresent: // the site's router may forward to the API server
			err = fmt.Errorf("it is an address of %s", machines[router])
		case err == nil && !waits && !slices.ContainsFunc(reported, reaches):
			err = errors.New("it is not on the segment of any node's gateway router")
		}
		if err != nil {
			unusable = errors.Join(unusable, fmt.Errorf("next hop %s is not used: %w", address, err))
			delete(r, address)
		}
	}
	return unusable
}

// Reachable returns the routers that the gateway router of a node reaches. A node that has not reported its link keeps all of them.
func Reachable(hops []NextHop, nn *networkv1alpha1.NodeNetwork) (reached []NextHop) {
	if nn.Status.Gateway == nil || nn.Status.Gateway.Mode == networkv1alpha1.GatewayLocal { // without a router they have no effect
		return hops
	}
	for _, hop := range hops {
		if reachesNextHop(nn, hop.Address) {
			reached = append(reached, hop)
		}
	}
	return reached
}

// hasGatewayRouter reports whether a node has reported what its gateway router needs.
func hasGatewayRouter(nn *networkv1alpha1.NodeNetwork) bool {
	status := nn.Status.Gateway
	return status != nil && status.Mode != networkv1alpha1.GatewayLocal && len(status.Addresses) > 0
}

// segmentOfAll returns the segment of which an address is the network's or the broadcast address. It is invalid without one.
func segmentOfAll(nodes []networkv1alpha1.NodeNetwork, address netip.Addr) netip.Prefix {
	for i := range nodes {
		for _, text := range nodes[i].Status.Gateway.Addresses {
			if own, err := text.Prefix(); err == nil && IsOfAll(own, address) {
				return own.Masked()
			}
		}
	}
	return netip.Prefix{}
}

// reachesNextHop reports whether a router is on the segment of a node's link: in one of its subnets, link-local, or a next hop of
// its own. The node itself is not.
func reachesNextHop(nn *networkv1alpha1.NodeNetwork, router netip.Addr) bool {
	if slices.Contains(GatewayAddresses(nn), router) {
		return false
	}
	if slices.ContainsFunc(nn.Status.Gateway.NextHops, func(hop networkv1alpha1.IP) bool { return isAddress(hop, router) }) {
		return true
	}
	return slices.ContainsFunc(nn.Status.Gateway.Addresses, func(text networkv1alpha1.InterfaceAddress) bool {
		own, err := text.Prefix()
		return err == nil && (own.Contains(router) || own.Addr().Is6() && router.Is6() && router.IsLinkLocalUnicast())
	})
}

// hostAddressesOf returns the addresses that a node has reported. It leaves out unreadable addresses, which other reconcilers report.
func hostAddressesOf(nn *networkv1alpha1.NodeNetwork) (found []netip.Addr) {
	for _, text := range append([]networkv1alpha1.IP{nn.Status.EncapIP}, nn.Status.FurtherEncapIPs...) {
		if address, err := text.Addr(); err == nil {
			found = append(found, address)
		}
	}
	return append(found, GatewayAddresses(nn)...)
}

func isAddress(text networkv1alpha1.IP, address netip.Addr) bool {
	parsed, err := text.Addr()
	return err == nil && parsed == address
}

// checkRoute returns an error that names the first field that cannot be read.
func checkRoute(e *networkv1alpha1.ExternalRoute) error {
	if _, err := RouteSelects(e, nil, nil); err != nil {
		return err
	}
	for i, hop := range e.Spec.NextHops.Static {
		if _, err := netip.ParseAddr(string(hop.Address)); err != nil {
			return fmt.Errorf("spec.nextHops.static[%d].address: %w", i, err)
		}
	}
	for i := range e.Spec.NextHops.Pods {
		s := &e.Spec.NextHops.Pods[i]
		if _, err := matchBoth(fmt.Sprintf("spec.nextHops.pods[%d]", i), &s.NamespaceSelector, &s.PodSelector, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// addPods adds the running pods that a readable selector selects. Of several pods with one address, the first by name has it.
func (r routers) addPods(s *networkv1alpha1.PodNextHops, pods []RouterPod) (unusable error) {
	for _, p := range pods {
		selects, _ := matchBoth("", &s.NamespaceSelector, &s.PodSelector, p.NamespaceLabels, p.Pod.Labels)
		if !selects || p.Pod.Status.Phase != corev1.PodRunning || p.Pod.DeletionTimestamp != nil {
			continue
		}
		name := p.Pod.Namespace + "/" + p.Pod.Name
		addresses, err := routerAddresses(p.Pod, s.Network)
		if err != nil {
			unusable = errors.Join(unusable, fmt.Errorf("pod %s: %w", name, err))
		}
		for _, a := range addresses {
			address := networkv1alpha1.IP(a.String())
			hop, has := r[address]
			if !has || hop.Pod > name {
				hop.Address, hop.Pod = address, name
			}
			hop.BFD = hop.BFD || s.BFD
			r[address] = hop
		}
	}
	return unusable
}

// MayBeRouter reports whether an ExternalRoute selects a pod as a router, in whichever namespace.
func MayBeRouter(e *networkv1alpha1.ExternalRoute, pod *corev1.Pod) bool {
	return slices.ContainsFunc(e.Spec.NextHops.Pods, func(s networkv1alpha1.PodNextHops) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s.PodSelector)
		return err == nil && selector.Matches(labels.Set(pod.Labels))
	})
}

// routerAddresses returns the addresses of a pod on the segment of the nodes: its interface's of a network definition, or else its
// node's.
func routerAddresses(pod *corev1.Pod, network string) (addresses []netip.Addr, err error) {
	texts := []string{}
	switch {
	case network != "":
		var interfaces []struct {
			Name string   `json:"name"`
			IPs  []string `json:"ips"`
		}
		if text := pod.Annotations[NetworkStatusAnnotation]; text != "" {
			if err := json.Unmarshal([]byte(text), &interfaces); err != nil {
				return nil, fmt.Errorf("annotation %s: %w", NetworkStatusAnnotation, err)
			}
		}
		for _, i := range interfaces {
			if i.Name == network {
				texts = append(texts, i.IPs...)
			}
		}
	case pod.Spec.HostNetwork:
		for _, ip := range pod.Status.PodIPs {
			texts = append(texts, ip.IP)
		}
	default:
		return nil, errors.New("it does not use the host's network, and no network is given")
	}
	for _, text := range texts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		if !address.IsLinkLocalUnicast() {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("it has no address on the segment yet")
	}
	return addresses, nil
}
