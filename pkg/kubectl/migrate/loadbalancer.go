package migrate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func newLoadBalancerPool(name string) *networkv1alpha1.LoadBalancerPool {
	pool := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("LoadBalancerPool"))
	return pool
}

// addLoadBalancerPool adds a pool to the manifests.
func (i *item) addLoadBalancerPool(pool *networkv1alpha1.LoadBalancerPool) {
	if n := len(pool.Spec.Addresses); n > 64 {
		i.lose("spec", "a LoadBalancerPool has at most 64 ranges; %d are left out", n-64)
		pool.Spec.Addresses = pool.Spec.Addresses[:64]
	}
	i.becomes(filePools, pool, "")
}

// addRange adds a range of addresses, without the first and the last address of a network if firstLast is false.
func addRange(pool *networkv1alpha1.LoadBalancerPool, text string, firstLast bool) error {
	r, err := parseRange(text)
	if err != nil {
		return err
	}
	if !firstLast && r.First != r.Last {
		r.First, r.Last = r.First.Next(), r.Last.Prev()
	}
	value := r.String()
	if firstLast && strings.Contains(text, "/") {
		value = text
	}
	pool.Spec.Addresses = append(pool.Spec.Addresses, networkv1alpha1.LoadBalancerRange(value))
	return nil
}

// metalLBPool translates an IPAddressPool of MetalLB.
func metalLBPool(i *item) {
	spec := i.spec()
	pool := newLoadBalancerPool(weftName(i.GetName()))
	if pool.Name != i.GetName() {
		i.entry.Next = fmt.Sprintf("Services that name the pool must name %s", pool.Name)
	}
	for _, text := range spec.texts("addresses") {
		if err := addRange(pool, text, true); err != nil {
			i.lose("spec.addresses", "%v", err)
		}
	}
	if len(pool.Spec.Addresses) == 0 {
		i.cannot("it has no addresses that can be read", "correct it, and run the command again")
		return
	}
	if spec.has("autoAssign") {
		assign := spec.flag("autoAssign")
		pool.Spec.AutoAssign = &assign
	}
	if spec.flag("avoidBuggyIPs") {
		i.lose("spec.avoidBuggyIPs", "write ranges without the addresses that end with .0 and .255")
	}
	i.allocation(pool, spec.inner("serviceAllocation"))
	i.advertised(pool)
	class := i.in.option(metalLB, "", "lb-class")
	pool.Spec.ServicesWithoutClass = class == ""
	if class != "" {
		i.lose("--lb-class", "%s: Services need the class weft.dev/load-balancer", class)
	}
	i.addLoadBalancerPool(pool)
}

// allocation reads which Services get addresses.
func (i *item) allocation(pool *networkv1alpha1.LoadBalancerPool, f fields) {
	if priority := f.number("priority"); priority != 0 {
		i.lose(f.at("priority"), "%d: pools are tried in the order of their names", priority)
	}
	names, selectors := f.texts("namespaces"), f.list("namespaceSelectors")
	switch {
	case len(names) > 0 && len(selectors) == 0:
		pool.Spec.NamespaceSelector = inNamespaces(names...)
	case len(selectors) == 1 && len(names) == 0:
		pool.Spec.NamespaceSelector = i.one(f, "namespaceSelectors", selectors)
	case len(names)+len(selectors) > 0:
		f.take("namespaceSelectors")
		i.lose(f.at("namespaceSelectors"), "a LoadBalancerPool has one selector of namespaces: it serves all of them now")
	}
	switch services := f.list("serviceSelectors"); {
	case len(services) == 1:
		pool.Spec.ServiceSelector = i.one(f, "serviceSelectors", services)
	case len(services) > 1:
		f.take("serviceSelectors")
		i.lose(f.at("serviceSelectors"), "a LoadBalancerPool has one selector of Services: it serves all of them now")
	}
}

// one takes a list with one label selector.
func (i *item) one(f fields, key string, list []fields) *metav1.LabelSelector {
	holder := fields{f.path, map[string]any{key: list[0].left}, f.wrong}
	s, _ := holder.selector(key)
	f.take(key)
	return &s
}

// advertised reads the L2Advertisements of a pool.
func (i *item) advertised(pool *networkv1alpha1.LoadBalancerPool) {
	layer2 := false
	for _, o := range i.in.byKind[schema.GroupKind{Group: "metallb.io", Kind: "L2Advertisement"}] {
		if !advertises(o, i.Unstructured) {
			continue
		}
		layer2 = true
		spec := specOf(o)
		if selectors := spec.list("nodeSelectors"); len(selectors) == 1 && pool.Spec.NodeSelector == nil {
			pool.Spec.NodeSelector = i.one(spec, "nodeSelectors", selectors)
		}
	}
	announced := layer2 || !i.advertisedByBGP()
	if !announced {
		pool.Spec.AnnounceOnSegment = &announced
	} else if !layer2 {
		i.lose("", "no L2Advertisement names it; Weft announces each pool by ARP and neighbour discovery, unless announceOnSegment is false")
	}
}

// advertises reports whether an L2Advertisement or BGPAdvertisement is about a pool.
func advertises(o, pool *unstructured.Unstructured) bool {
	spec := specOf(o)
	names, selectors := spec.texts("ipAddressPools"), spec.list("ipAddressPoolSelectors")
	if len(names)+len(selectors) == 0 {
		return true
	}
	for _, f := range selectors {
		holder := newFields("", map[string]any{"s": f.left})
		s, _ := holder.selector("s")
		if selector, err := metav1.LabelSelectorAsSelector(&s); err == nil && selector.Matches(labelsOf(pool)) {
			return true
		}
	}
	return slices.Contains(names, pool.GetName())
}

// l2Advertisement is a part of the pools that it names.
func l2Advertisement(i *item) {
	spec := i.spec()
	pools := 0
	for _, o := range i.in.byKind[metalLBPoolKind] {
		if advertises(i.Unstructured, o) {
			pools++
		}
	}
	if selectors := spec.list("nodeSelectors"); len(selectors) > 1 {
		i.lose("spec.nodeSelectors", "a LoadBalancerPool has one selector of nodes: all nodes may answer now")
	}
	if links := spec.texts("interfaces"); len(links) > 0 {
		i.lose("spec.interfaces", "%s: Weft announces on the nodes' link to the outside", strings.Join(links, ", "))
	}
	for _, key := range []string{"ipAddressPools", "ipAddressPoolSelectors", "nodeSelectors", "serviceSelectors"} {
		if value := spec.take(key); key == "serviceSelectors" && value != nil {
			i.lose("spec.serviceSelectors", "all Services of a pool are announced")
		}
	}
	rest := spec.rest()
	i.notNeeded(fmt.Sprintf("Weft announces each of its %d pools; its selector of nodes becomes the pools'", pools))
	for _, path := range rest {
		i.lose(path, "unknown field, not translated")
	}
}

// ciliumPool translates a CiliumLoadBalancerIPPool.
func ciliumPool(i *item) {
	spec := i.spec()
	if spec.flag("disabled") {
		i.notNeeded("it is disabled")
		return
	}
	pool := newLoadBalancerPool(weftName(i.GetName()))
	pool.Spec.ServicesWithoutClass = true
	firstLast := spec.text("allowFirstLastIPs") != "No"
	for _, block := range slices.Concat(spec.list("blocks"), spec.list("cidrs")) {
		text, start, stop := block.text("cidr"), block.text("start"), block.text("stop")
		ends := firstLast
		if start != "" {
			text, ends = start, true
			if stop != "" {
				text += "-" + stop
			}
		}
		if err := addRange(pool, text, ends); err != nil {
			i.lose(block.path, "%v", err)
		}
	}
	if len(pool.Spec.Addresses) == 0 {
		i.cannot("it has no addresses that can be read", "correct it, and run the command again")
		return
	}
	if s, ok := spec.selector("serviceSelector"); ok {
		i.ciliumServices(pool, s)
	}
	i.announcedBy(pool)
	i.addLoadBalancerPool(pool)
}

// ciliumServices splits Cilium's selector of Services, in which their namespaces and names are labels.
func (i *item) ciliumServices(pool *networkv1alpha1.LoadBalancerPool, s metav1.LabelSelector) {
	const namespaceLabel, nameLabel = "io.kubernetes.service.namespace", "io.kubernetes.service.name"
	var services, namespaces metav1.LabelSelector
	for _, key := range sortedKeys(s.MatchLabels) {
		switch key {
		case namespaceLabel:
			metav1.AddLabelToSelector(&namespaces, corev1.LabelMetadataName, s.MatchLabels[key])
		case nameLabel:
			i.lose("spec.serviceSelector", "%s: LoadBalancerPools select Services by their labels: label the Service", s.MatchLabels[key])
		default:
			metav1.AddLabelToSelector(&services, key, s.MatchLabels[key])
		}
	}
	for _, e := range s.MatchExpressions {
		switch e.Key {
		case namespaceLabel:
			e.Key = corev1.LabelMetadataName
			namespaces.MatchExpressions = append(namespaces.MatchExpressions, e)
		case nameLabel:
			i.lose("spec.serviceSelector", "%s: LoadBalancerPools select Services by their labels: label the Services", e.Key)
		default:
			services.MatchExpressions = append(services.MatchExpressions, e)
		}
	}
	if len(services.MatchLabels)+len(services.MatchExpressions) > 0 {
		pool.Spec.ServiceSelector = &services
	}
	if len(namespaces.MatchLabels)+len(namespaces.MatchExpressions) > 0 {
		pool.Spec.NamespaceSelector = &namespaces
	}
}

var announcementKind = schema.GroupKind{Group: "cilium.io", Kind: "CiliumL2AnnouncementPolicy"}

// announcedBy takes the selector of nodes of the only announcement policy.
func (i *item) announcedBy(pool *networkv1alpha1.LoadBalancerPool) {
	policies := i.in.byKind[announcementKind]
	if len(policies) == 0 {
		i.lose("", "no CiliumL2AnnouncementPolicy; Weft announces each pool by ARP and neighbour discovery, unless announceOnSegment is false")
		return
	}
	if s, ok := specOf(policies[0]).selector("nodeSelector"); ok && len(policies) == 1 {
		pool.Spec.NodeSelector = &s
	}
}

// ciliumAnnouncement is a part of the pools.
func ciliumAnnouncement(i *item) {
	spec := i.spec()
	spec.drop(i, "all Services of a pool are announced", true, "serviceSelector")
	spec.drop(i, "Weft announces on the nodes' link to the outside", true, "interfaces")
	spec.drop(i, "Weft announces addresses of LoadBalancerPools; route other external IPs to a node", true, "externalIPs")
	if len(i.in.byKind[announcementKind]) > 1 {
		spec.drop(i, "only a single announcement policy is translated: set spec.nodeSelector of the pools by hand", true, "nodeSelector")
	}
	i.notNeeded("Weft announces each pool; its selector of nodes becomes the pools'")
}
