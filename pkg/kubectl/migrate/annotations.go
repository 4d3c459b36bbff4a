package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// meaning is what an annotation of another network means for Weft.
type meaning struct {
	outcome Outcome
	message string
	// lost reports whether pods behave otherwise without the annotation.
	lost bool
}

// prefixesOf are the beginnings of the annotations of networks.
var prefixesOf = []string{"k8s.ovn.org/", "ovn.kubernetes.io/", "cni.projectcalico.org/", "projectcalico.org/", "io.cilium.",
	"cilium.io/", "network.cilium.io/", "io.cilium/", "lbipam.cilium.io/", "service.cilium.io/", "egress.cilium.io/", "ipam.cilium.io/",
	"policy.cilium.io/", "bandwidth.cilium.io/", "flannel.alpha.coreos.com/", "metallb.io/", "metallb.universe.tf/", "k8s.v1.cni.cncf.io/"}

func state(message string) meaning { return meaning{NotNeeded, message, false} }

// meanings has the annotations by name. A name ending with * is a prefix, and a longer name counts before it.
var meanings = map[string]meaning{
	"k8s.ovn.org/*":                       {Cannot, "unknown annotation of ovn-kubernetes", true},
	"k8s.ovn.org/pod-networks":            state("the pod's addresses"),
	"k8s.ovn.org/node-*":                  state("the node's state"),
	"k8s.ovn.org/l3-gateway-config":       state("the node's state"),
	"k8s.ovn.org/host-*":                  state("the node's state"),
	"k8s.ovn.org/zone-name":               state("the node's state"),
	"k8s.ovn.org/remote-zone-migrated":    state("the node's state"),
	"k8s.ovn.org/network-ids":             state("the node's state"),
	"k8s.ovn.org/layer2-topology-version": state("the node's state"),
	"k8s.ovn.org/udn-layer2-*":            state("the node's state"),
	"k8s.ovn.org/bridge-egress-ips":       state("the node's state"),
	"k8s.ovn.org/secondary-host-egress-*": state("the node's state"),
	"k8s.ovn.org/topology-version":        state("the node's state"),
	"k8s.ovn.org/active-network":          state("the namespace's state"),
	"k8s.ovn.org/open-default-ports":      {Cannot, "Weft's pods have the cluster's network as their primary", true},
	"k8s.ovn.org/routing-*":               {Cannot, "Weft has no gateways of namespaces", true},
	"k8s.ovn.org/bfd-enabled":             {Cannot, "Weft has no gateways of namespaces", true},
	"k8s.ovn.org/external-gw-*":           {Cannot, "Weft has no gateways of namespaces", true},
	"k8s.ovn.org/multicast-enabled": {Cannot,
		"set multicast: OnRequest in the ClusterNetwork, and annotate with network.weft.dev/multicast, which has the same values", true},
	"k8s.ovn.org/acl-logging":             {Cannot, "annotate with network.weft.dev/acl-logging, which has the same form", true},
	"ovn.kubernetes.io/*":                 {Cannot, "unknown annotation of kube-ovn", true},
	"ovn.kubernetes.io/allocated":         state("the pod's state"),
	"ovn.kubernetes.io/routed":            state("the pod's state"),
	"ovn.kubernetes.io/cidr":              state("the pod's state"),
	"ovn.kubernetes.io/gateway":           state("the pod's state"),
	"ovn.kubernetes.io/logical_router":    state("the pod's state"),
	"ovn.kubernetes.io/logical_switch":    {NotNeeded, "the subnet: an IPPool selects addresses", false},
	"ovn.kubernetes.io/pod_nic_type":      state("the pod's state"),
	"ovn.kubernetes.io/exclude_ips":       state("the subnet's state"),
	"ovn.kubernetes.io/chassis":           state("the node's state"),
	"ovn.kubernetes.io/port_name":         state("the node's state"),
	"ovn.kubernetes.io/*_address":         state("the pod's addresses"),
	"ovn.kubernetes.io/mac_address":       state("the pod's addresses"),
	"ovn.kubernetes.io/ip_address":        state("the pod's addresses"),
	"ovn.kubernetes.io/ip_pool":           {Translated, "", false},
	"ovn.kubernetes.io/*_rate":            {Cannot, "the annotations kubernetes.io/ingress-bandwidth and egress-bandwidth limit pods", true},
	"ovn.kubernetes.io/ingress_rate":      {Cannot, "annotate with kubernetes.io/ingress-bandwidth, in bits per second: 3M for 3", true},
	"ovn.kubernetes.io/egress_rate":       {Cannot, "annotate with kubernetes.io/egress-bandwidth, in bits per second: 3M for 3", true},
	"ovn.kubernetes.io/security_groups":   {Cannot, "write NetworkPolicies", true},
	"ovn.kubernetes.io/port_security":     {Cannot, "Weft checks the source addresses of all pods", true},
	"ovn.kubernetes.io/eip":               {Cannot, "use an IPPool of location NAT", true},
	"ovn.kubernetes.io/snat":              {Cannot, "write an EgressIP that selects the pod", true},
	"cni.projectcalico.org/*":             {Cannot, "unknown annotation of Calico", true},
	"cni.projectcalico.org/podIP":         state("the pod's addresses"),
	"cni.projectcalico.org/podIPs":        state("the pod's addresses"),
	"cni.projectcalico.org/containerID":   state("the pod's state"),
	"cni.projectcalico.org/ipAddrs":       {Translated, "", false},
	"cni.projectcalico.org/ipAddrsNoIpam": {Cannot, "Weft gives pods addresses of its own networks", true},
	"cni.projectcalico.org/ipv4pools":     {Cannot, "annotate with network.weft.dev/ip-pool, if the pool became an IPPool", true},
	"cni.projectcalico.org/ipv6pools":     {Cannot, "annotate with network.weft.dev/ip-pool, if the pool became an IPPool", true},
	"cni.projectcalico.org/floatingIPs":   {Cannot, "use an IPPool of location NAT", true},
	"cni.projectcalico.org/hwAddr":        {Cannot, "annotate with network.weft.dev/requested-mac", true},
	"projectcalico.org/*":                 state("the node's state"),
	"projectcalico.org/loadBalancerIPs":   {Cannot, "annotate with weft.dev/load-balancer-ips, without brackets and quotes", true},
	"flannel.alpha.coreos.com/*":          state("the node's state"),
	"io.cilium.*":                         state("the node's state"),
	"network.cilium.io/*":                 state("the node's state"),
	"io.cilium/lb-ipam-ips":               {Cannot, "annotate with weft.dev/load-balancer-ips", true},
	"io.cilium/lb-ipam-sharing-key":       {Cannot, "annotate with weft.dev/allow-shared-ip", true},
	"io.cilium/lb-ipam-sharing-cross-*":   {Cannot, "annotate with weft.dev/allow-shared-ip-namespaces", true},
	"io.cilium/*":                         {Cannot, "unknown annotation of Cilium", true},
	"lbipam.cilium.io/ips":                {Cannot, "annotate with weft.dev/load-balancer-ips", true},
	"lbipam.cilium.io/sharing-key":        {Cannot, "annotate with weft.dev/allow-shared-ip", true},
	"lbipam.cilium.io/sharing-cross-*":    {Cannot, "annotate with weft.dev/allow-shared-ip-namespaces", true},
	"lbipam.cilium.io/*":                  {Cannot, "no counterpart", true},
	"ipam.cilium.io/ip-pool":              {Cannot, "annotate with network.weft.dev/ip-pool", true},
	"service.cilium.io/*":                 {Cannot, "no counterpart", true},
	"egress.cilium.io/*":                  {Cannot, "no counterpart", true},
	"ipam.cilium.io/*":                    {Cannot, "no counterpart", true},
	"bandwidth.cilium.io/*":               {Cannot, "no counterpart", true},
	"policy.cilium.io/*":                  {Cannot, "Weft does not look into connections", true},
	"cilium.io/*":                         {Cannot, "unknown annotation of Cilium", true},
	"metallb.io/*":                        {Cannot, "no counterpart", true},
	"metallb.universe.tf/*":               {Cannot, "no counterpart", true},
	"metallb.io/ip-allocated-from-pool":   state("the Service's state"),
	"k8s.v1.cni.cncf.io/*":                {Kept, "read by Weft's agents", false},
	"k8s.v1.cni.cncf.io/network-status":   state("the pod's state"),
	"k8s.v1.cni.cncf.io/networks-status":  state("the pod's state"),
}

func init() {
	for _, list := range [][]string{networkv1alpha1.LoadBalancerIPsAnnotations, networkv1alpha1.LoadBalancerPoolAnnotations,
		networkv1alpha1.AllowSharedIPAnnotations} {
		for _, key := range list {
			meanings[key] = meaning{Kept, "read by LoadBalancerPools", false}
		}
	}
}

// meaningOf returns what an annotation means. ok is false for annotations of no network.
func meaningOf(key string) (m meaning, ok bool) {
	if !slices.ContainsFunc(prefixesOf, func(p string) bool { return strings.HasPrefix(key, p) }) {
		return m, false
	}
	if m, ok := meanings[key]; ok {
		return m, true
	}
	best := ""
	for pattern, candidate := range meanings {
		before, after, isPattern := strings.Cut(pattern, "*")
		if isPattern && strings.HasPrefix(key, before) && strings.HasSuffix(key, after) && len(pattern) > len(best) {
			best, m = pattern, candidate
		}
	}
	return m, best != ""
}

// annotations gives outcomes to the pods, namespaces, Services and nodes that other networks or users annotated.
func (in *inspector) annotations() {
	states := map[string]int64{}
	for _, k := range []schema.GroupKind{namespaceKind, nodeKind, podKind, serviceKind} {
		for _, o := range in.byKind[k] {
			in.annotated(o, states)
		}
	}
	for _, name := range sortedKeys(states) {
		e := in.entry(name)
		_, key, _ := strings.Cut(name, " annotation ")
		m, _ := meaningOf(key)
		e.Count, e.Outcome, e.Reason = states[name], NotNeeded, m.message
	}
}

// owned is the object whose users wrote a pod's annotations: its workload, if it has one.
func owned(o *unstructured.Unstructured) string {
	if o.GetKind() != "Pod" {
		return nameOf(o)
	}
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return nameOf(o)
	}
	kind, name := owner.Kind, owner.Name
	if hash := o.GetLabels()["pod-template-hash"]; kind == "ReplicaSet" && hash != "" && strings.HasSuffix(name, "-"+hash) {
		kind, name = "Deployment", strings.TrimSuffix(name, "-"+hash)
	}
	return fmt.Sprintf("Pods of %s %s/%s", kind, o.GetNamespace(), name)
}

// annotated adds an object's annotations to its entry. states counts annotations that only record a state.
func (in *inspector) annotated(o *unstructured.Unstructured, states map[string]int64) {
	for _, key := range sortedKeys(o.GetAnnotations()) {
		m, ok := meaningOf(key)
		switch {
		case !ok:
		case m.outcome == NotNeeded:
			states[o.GetKind()+" annotation "+key]++
		case m.outcome == Translated:
			in.staticAddresses(o, key)
		default:
			in.meant(o, key, m)
		}
	}
	if _, ok := o.GetLabels()["k8s.ovn.org/primary-user-defined-network"]; ok {
		in.meant(o, "k8s.ovn.org/primary-user-defined-network", meaning{Cannot, "Weft's pods have the cluster's network as their primary", true})
	}
}

// meant adds an annotation to the entry of its object. An object has the worst outcome of its annotations.
func (in *inspector) meant(o *unstructured.Unstructured, key string, m meaning) *Entry {
	e := in.entry(owned(o))
	field := Field{"metadata.annotations[" + key + "]", m.message, m.lost}
	if slices.Contains(e.Fields, field) {
		return e
	}
	e.Fields = append(e.Fields, field)
	if slices.Index(Outcomes, m.outcome) > slices.Index(Outcomes, e.Outcome) || e.Outcome == NotNeeded {
		e.Outcome, e.Reason = m.outcome, "annotations of another network"
	}
	return e
}

// staticAddresses makes an IPPool of the addresses that a pod's annotation requests.
func (in *inspector) staticAddresses(o *unstructured.Unstructured, key string) {
	value := o.GetAnnotations()[key]
	m := meaning{Translated, "the IPPool has the addresses", false}
	var list []string
	if json.Unmarshal([]byte(value), &list) != nil {
		list = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
	}
	if len(list) == 1 && in.find(schema.GroupKind{Group: "kubeovn.io", Kind: "IPPool"}, list[0]) != nil {
		e := in.meant(o, key, m)
		e.Next = fmt.Sprintf("annotate with %s: %s", networkv1alpha1.IPPoolAnnotation, weftName(list[0]))
		return
	}
	i := &item{in: in, Unstructured: o, fields: newFields("", nil), entry: in.entry(owned(o))}
	var ranges []string
	for _, text := range list {
		r, err := parseRange(text)
		if err != nil {
			in.meant(o, key, meaning{Cannot, err.Error(), true})
			return
		}
		ranges = append(ranges, r.String())
	}
	if in.inPool(o, key, ranges) {
		return
	}
	_, name, _ := strings.Cut(i.entry.Object, "/")
	pool := i.pool(weftName(o.GetNamespace(), cmp.Or(name, o.GetName())), networkv1alpha1.LocationOverlay, ranges)
	in.join(pool)
	pool.Spec.Namespaces = inNamespaces(o.GetNamespace())
	to := in.manifest(filePools, pool, i.entry.Object)
	e := in.meant(o, key, m)
	if !slices.Contains(e.To, to) {
		e.To = append(e.To, to)
	}
	e.Next = fmt.Sprintf("annotate with %s: %s and %s: %s", networkv1alpha1.IPPoolAnnotation, pool.Name,
		networkv1alpha1.ReleasePolicyAnnotation, networkv1alpha1.ReleaseImmutable)
}

// inPool reports whether an IPPool of another object has all of these ranges. The pod's entry then names it, because
// IPPools must not overlap.
func (in *inspector) inPool(o *unstructured.Unstructured, key string, ranges []string) bool {
	for _, m := range in.report.Manifests {
		pool := unstructured.Unstructured{Object: m.Object}
		if pool.GetKind() != "IPPool" || slices.Contains(m.From, owned(o)) || !slices.ContainsFunc(ranges, within(m.Object)) {
			continue
		}
		e := in.meant(o, key, meaning{Translated, "IPPool " + pool.GetName() + " has the addresses", false})
		if to := nameOf(&pool); !slices.Contains(e.To, to) {
			e.To = append(e.To, to)
		}
		limits, _ := json.Marshal([][]string{ranges})
		e.Next = fmt.Sprintf("annotate with %s: %s and %s: %s", networkv1alpha1.IPPoolAnnotation, pool.GetName(),
			networkv1alpha1.IPRangesAnnotation, limits)
		return true
	}
	return false
}

// within returns a function that reports whether an IPPool has the first address of a range.
func within(pool map[string]any) func(string) bool {
	return func(text string) bool {
		want, err := parseRange(text)
		ranges, _, _ := unstructured.NestedSlice(pool, "spec", "ranges")
		return err == nil && slices.ContainsFunc(ranges, func(r any) bool {
			tree, _ := r.(map[string]any)
			text, _ := tree["addresses"].(string)
			have, err := parseRange(text)
			return err == nil && have.Contains(want.First)
		})
	}
}

// join adds the ranges of a pool of this name that another pod of the workload made.
func (in *inspector) join(pool *networkv1alpha1.IPPool) {
	for _, m := range in.report.Manifests {
		o := unstructured.Unstructured{Object: m.Object}
		if o.GetKind() != "IPPool" || o.GetName() != pool.Name {
			continue
		}
		ranges, _, _ := unstructured.NestedSlice(m.Object, "spec", "ranges")
		for _, r := range ranges {
			tree, _ := r.(map[string]any)
			text, _ := tree["addresses"].(string)
			have := networkv1alpha1.IPPoolRange{Addresses: text}
			if !slices.ContainsFunc(pool.Spec.Ranges, func(r networkv1alpha1.IPPoolRange) bool { return r.Addresses == text }) {
				pool.Spec.Ranges = append(pool.Spec.Ranges, have)
			}
		}
	}
	slices.SortFunc(pool.Spec.Ranges, func(a, b networkv1alpha1.IPPoolRange) int { return cmp.Compare(a.Addresses, b.Addresses) })
}
