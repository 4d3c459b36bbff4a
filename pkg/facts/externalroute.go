package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

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

// ChooseNextHops returns the routers of an ExternalRoute: the static ones, and the running pods that it selects among pods, sorted by
// address. unusable says why other selected pods are not among them.
func ChooseNextHops(e *networkv1alpha1.ExternalRoute, pods []RouterPod) (hops []networkv1alpha1.ExternalNextHop, unusable, invalid error) {
	if _, err := RouteSelects(e, nil, nil); err != nil {
		return nil, nil, err
	}
	found := map[networkv1alpha1.IP]networkv1alpha1.ExternalNextHop{}
	for i, hop := range e.Spec.NextHops.Static {
		if _, err := netip.ParseAddr(string(hop.Address)); err != nil {
			return nil, nil, fmt.Errorf("spec.nextHops.static[%d].address: %w", i, err)
		}
		found[networkv1alpha1.IP(hop.Address)] = networkv1alpha1.ExternalNextHop{Address: networkv1alpha1.IP(hop.Address), BFD: hop.BFD}
	}
	var troubles []error
	for i := range e.Spec.NextHops.Pods {
		selector := &e.Spec.NextHops.Pods[i]
		for _, p := range pods {
			selects, err := matchBoth(fmt.Sprintf("spec.nextHops.pods[%d]", i), &selector.NamespaceSelector, &selector.PodSelector,
				p.NamespaceLabels, p.Pod.Labels)
			if err != nil {
				return nil, nil, err
			}
			if !selects || p.Pod.Status.Phase != corev1.PodRunning || p.Pod.DeletionTimestamp != nil {
				continue
			}
			name := p.Pod.Namespace + "/" + p.Pod.Name
			addresses, err := routerAddresses(p.Pod, selector.Network)
			if err != nil {
				troubles = append(troubles, fmt.Errorf("pod %s: %w", name, err))
			}
			for _, address := range addresses {
				text := networkv1alpha1.IP(address.String())
				had, has := found[text]
				if hop := (networkv1alpha1.ExternalNextHop{Address: text, BFD: selector.BFD || had.BFD, Pod: name}); !has || had.Pod > name {
					found[text] = hop
				} else {
					had.BFD = hop.BFD
					found[text] = had
				}
			}
		}
	}
	for _, hop := range found {
		hops = append(hops, hop)
	}
	slices.SortFunc(hops, func(a, b networkv1alpha1.ExternalNextHop) int {
		return strings.Compare(string(a.Address), string(b.Address))
	})
	return hops, errors.Join(troubles...), nil
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
		var interfaces []nadv1.NetworkStatus
		if text := pod.Annotations[nadv1.NetworkStatusAnnot]; text != "" {
			if err := json.Unmarshal([]byte(text), &interfaces); err != nil {
				return nil, fmt.Errorf("annotation %s: %w", nadv1.NetworkStatusAnnot, err)
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
