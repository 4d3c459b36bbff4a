package bgp

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// advertisement is a BGPAdvertisement whose fields have been parsed.
type advertisement struct {
	*networkv1alpha1.BGPAdvertisement
	nodes, pools, services, namespaces, egressIPs labels.Selector
}

// parse reads the selectors. The error names the first wrong one.
func parse(object *networkv1alpha1.BGPAdvertisement) (a advertisement, err error) {
	a.BGPAdvertisement = object
	fields := []struct {
		field string
		from  *metav1.LabelSelector
		to    *labels.Selector
	}{{"nodeSelector", object.Spec.NodeSelector, &a.nodes}}
	if b := object.Spec.LoadBalancers; b != nil {
		fields = append(fields, []struct {
			field string
			from  *metav1.LabelSelector
			to    *labels.Selector
		}{{"loadBalancers.poolSelector", b.PoolSelector, &a.pools}, {"loadBalancers.serviceSelector", b.ServiceSelector, &a.services},
			{"loadBalancers.namespaceSelector", b.NamespaceSelector, &a.namespaces}}...)
	}
	if e := object.Spec.EgressIPs; e != nil {
		fields = append(fields, struct {
			field string
			from  *metav1.LabelSelector
			to    *labels.Selector
		}{"egressIPs.selector", e.Selector, &a.egressIPs})
	}
	for _, f := range fields {
		if *f.to, err = selectorOf(f.from); err != nil {
			return a, fmt.Errorf("spec.%s: %w", f.field, err)
		}
	}
	return a, nil
}

// Selects reports whether a BGPAdvertisement selects addresses of a LoadBalancerPool.
func Selects(object *networkv1alpha1.BGPAdvertisement, pool *networkv1alpha1.LoadBalancerPool) bool {
	a, err := parse(object)
	return err == nil && a.selectsPool(pool.Name, pool.Labels)
}

func (a advertisement) selectsPool(name string, has labels.Set) bool {
	b := a.Spec.LoadBalancers
	return b != nil && a.pools.Matches(has) && (len(b.Pools) == 0 || slices.Contains(b.Pools, name))
}

// selects reports whether the advertisement selects an address: its pool, and at least one of its Services.
func (a advertisement) selects(of *address, namespaceLabels func(string) (map[string]string, error)) (bool, error) {
	if !a.selectsPool(of.pool.Name, of.labels) {
		return false, nil
	}
	for _, s := range of.services {
		selected, err := a.selectsService(s, namespaceLabels)
		if selected || err != nil {
			return selected, err
		}
	}
	return false, nil
}

func (a advertisement) selectsService(s *corev1.Service, namespaceLabels func(string) (map[string]string, error)) (bool, error) {
	if !a.services.Matches(labels.Set(s.Labels)) {
		return false, nil
	}
	if a.namespaces.Empty() {
		return true, nil
	}
	has, err := namespaceLabels(s.Namespace)
	return a.namespaces.Matches(labels.Set(has)), err
}

// peersOf returns the names of a node's peers that get the routes.
func (a advertisement) peersOf(n *node) (names []string) {
	if !a.nodes.Matches(n.labels) {
		return nil
	}
	for _, p := range n.peers {
		if len(a.Spec.Peers) == 0 || slices.Contains(a.Spec.Peers, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// aggregate returns the route of an address.
func (a advertisement) aggregate(of netip.Addr) netip.Prefix {
	bits := int(a.Spec.AggregationLength)
	if of.Is6() {
		bits = int(a.Spec.AggregationLengthV6)
	}
	if bits == 0 {
		bits = of.BitLen()
	}
	return netip.PrefixFrom(of, bits).Masked()
}
