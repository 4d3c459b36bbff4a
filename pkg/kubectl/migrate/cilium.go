package migrate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func labelsOf(o *unstructured.Unstructured) labels.Set { return labels.Set(o.GetLabels()) }

// lostCiliumKeys are the settings of cilium-config without which the network behaves otherwise, if they are true.
var lostCiliumKeys = map[string]string{
	"enable-host-firewall": "Weft does not filter hosts", "enable-gateway-api": "another controller must serve Gateways",
	"enable-ingress-controller":    "another controller must serve Ingresses",
	"enable-bgp-control-plane":     noBGP + "; " + bgpNext,
	"enable-envoy-config":          "Weft has no proxy in the network",
	"enable-bandwidth-manager":     "the annotations kubernetes.io/ingress-bandwidth and egress-bandwidth limit pods",
	"enable-local-redirect-policy": "Weft has no local redirects",
	"enable-multicast":             "Weft forwards no multicast between pods",
}

// ciliumFacts reads cilium-config and the nodes' subnets.
func (in *inspector) ciliumFacts() {
	p := in.plan
	p.mode, p.snat = networkv1alpha1.GatewayLocal, networkv1alpha1.SNATNode
	i, data := in.configMap("cilium-config")
	if i == nil {
		in.problem("ConfigMap cilium-config was not found: the network of pods is in it")
		return
	}
	i.partOf("the networks of pods")
	for _, family := range []string{"ipv4", "ipv6"} {
		length, _ := strconv.Atoi(data["cluster-pool-"+family+"-mask-size"])
		if data["enable-"+family] == "false" {
			continue
		}
		for _, cidr := range in.networksOf("cilium-config cluster-pool-"+family+"-cidr", data["cluster-pool-"+family+"-cidr"]) {
			p.addPods(podNetwork{cidr: cidr, hostPrefix: max(length, 0)})
		}
	}
	in.ciliumSubnets(data["ipam"])
	if data["enable-ipv4-masquerade"] == "false" || data["masquerade"] == "false" {
		p.snat = networkv1alpha1.SNATNone
	}
	routing := data["routing-mode"]
	in.report.Source.Mode = strings.TrimSpace(fmt.Sprintf("routing %s %s, IPAM %s", routing, data["tunnel-protocol"], data["ipam"]))
	i.ciliumConfig(data)
	in.adoptLengths()
	for n := range p.pods { // longer subnets than Weft's cannot be kept
		if length := p.pods[n].hostPrefix; length != 0 && !hostPrefixAllowed(netip.PrefixFrom(p.pods[n].cidr.Addr(), length)) {
			p.pods[n].hostPrefix = 0
		}
	}
}

// ciliumConfig names the settings that have a counterpart of another form, and the settings without a counterpart.
func (i *item) ciliumConfig(data map[string]string) {
	if mtu := data["mtu"]; mtu != "" && mtu != "0" {
		i.note("data.mtu", "%s is the MTU of links: Weft detects that of pods", mtu)
	}
	if data["kube-proxy-replacement"] == "true" {
		i.note("data.kube-proxy-replacement", "Weft serves Services without kube-proxy")
	}
	read := []string{"cluster-pool-ipv4-cidr", "cluster-pool-ipv6-cidr", "cluster-pool-ipv4-mask-size", "cluster-pool-ipv6-mask-size", "mtu",
		"enable-ipv4", "enable-ipv6", "ipam", "routing-mode", "tunnel-protocol", "enable-ipv4-masquerade", "masquerade",
		"kube-proxy-replacement"}
	for _, key := range sortedKeys(data) {
		message := lostCiliumKeys[key]
		switch {
		case slices.Contains(read, key):
		case (key == "enable-wireguard" || key == "enable-ipsec") && data[key] == "true":
			i.encrypted("data." + key)
		case message != "" && data[key] == "true":
			i.lose("data."+key, "%s", message)
		default:
			i.note("data."+key, "a setting of Cilium's agent")
		}
	}
}

// ciliumSubnets takes the subnets of nodes from CiliumNodes, or from Nodes where Kubernetes chose them.
func (in *inspector) ciliumSubnets(ipam string) {
	switch ipam {
	case "kubernetes":
		in.podCIDRs()
		for _, node := range sortedKeys(in.plan.nodes) {
			for _, s := range in.plan.nodes[node] {
				in.outside(s)
			}
		}
	case "cluster-pool", "cluster-pool-v2beta", "":
		for _, o := range in.byKind[schema.GroupKind{Group: "cilium.io", Kind: "CiliumNode"}] {
			cidrs, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "ipam", "podCIDRs")
			in.plan.nodes[o.GetName()] = append(in.plan.nodes[o.GetName()], in.networksOf(nameOf(o), strings.Join(cidrs, ","))...)
		}
	}
}

// outside finds the network of pods where only the controller manager's flags and kubeadm's configuration have it.
func (in *inspector) outside(subnet netip.Prefix) {
	if slices.ContainsFunc(in.plan.pods, func(n podNetwork) bool { return n.cidr.Contains(subnet.Addr()) }) {
		return
	}
	item, data := in.configMap("kubeadm-config")
	if item == nil {
		return
	}
	if _, text, ok := strings.Cut(data["ClusterConfiguration"], "podSubnet:"); ok {
		text, _, _ = strings.Cut(text, "\n")
		for _, cidr := range in.networksOf(item.entry.Object, strings.Trim(text, ` "'`)) {
			in.plan.addPods(podNetwork{cidr: cidr})
		}
	}
}

// ciliumPodPool makes a CiliumPodIPPool an entry of clusterNetwork and an IPPool.
func ciliumPodPool(i *item) {
	spec := i.spec()
	var ranges []string
	isDefault := i.GetName() == "default"
	for _, family := range []string{"ipv4", "ipv6"} {
		f := spec.inner(family)
		length := int(f.number("maskSize"))
		for _, cidr := range i.in.networksOf(i.entry.Object, strings.Join(f.texts("cidrs"), ",")) {
			ranges = append(ranges, cidr.String())
			n := podNetwork{cidr: cidr, pool: !isDefault}
			if isDefault && hostPrefixAllowed(netip.PrefixFrom(cidr.Addr(), length)) {
				n.hostPrefix = length
			}
			i.in.plan.addPods(n)
		}
	}
	spec.drop(i, "pods select an IPPool by their annotation", true, "podSelector", "namespaceSelector")
	i.partOf("an entry of spec.clusterNetwork")
	if isDefault || len(ranges) == 0 {
		return
	}
	pool := i.pool(weftName(i.GetName()), networkv1alpha1.LocationOverlay, ranges)
	i.entry.Next = fmt.Sprintf("set spec.namespaces of IPPool %s, and add the annotation %s: %s to the pods that named the pool",
		pool.Name, networkv1alpha1.IPPoolAnnotation, pool.Name)
	i.becomes(filePools, pool, "")
}

// ciliumEgress translates a CiliumEgressGatewayPolicy with an address for all destinations.
func ciliumEgress(i *item) {
	spec := i.spec()
	const next = "write an EgressIP for its pods: docs/user/egress.md"
	gateway := spec.inner("egressGateway")
	address, err := netip.ParseAddr(gateway.text("egressIP"))
	if err != nil || spec.has("egressGateways") {
		i.cannot("it names no single egressIP; an EgressIP of Weft has an address of its own, not a link's", next)
		return
	}
	for _, text := range spec.texts("destinationCIDRs") {
		if cidr, err := netip.ParsePrefix(text); err != nil || cidr.Bits() != 0 {
			i.cannot("spec.destinationCIDRs: an EgressIP is about all destinations outside, not only "+text, next)
			return
		}
	}
	spec.drop(i, "packets inside of the cluster have no egress IP anyway; those to other destinations have", true, "excludedCIDRs")
	if nodes, ok := gateway.selector("nodeSelector"); ok {
		i.in.step("label the nodes that carried egress IPs of Cilium: kubectl label node -l '%s' %s=", metav1.FormatLabelSelector(&nodes),
			networkv1alpha1.EgressAssignableLabel)
	}
	gateway.drop(i, "an EgressIP is on the nodes' link to the outside", true, "interface")
	for n, s := range spec.list("selectors") {
		made, err := ciliumEgressIP(s)
		if err != nil {
			i.cannot(fmt.Sprintf("spec.selectors[%d]: %v", n, err), next)
			return
		}
		made.Name = weftName(i.GetName())
		if n > 0 {
			i.cannot("it has several selectors for one address; an EgressIP has one", "label the pods or namespaces, and write one EgressIP")
			return
		}
		made.Spec.EgressIPs = []networkv1alpha1.EgressAddress{networkv1alpha1.EgressAddress(address.String())}
		i.in.addEgressIP(i, made)
	}
	if i.entry.Outcome == "" {
		i.notNeeded("it selects no pods")
	}
}

// ciliumEgressIP reads a selector of an egress policy.
func ciliumEgressIP(s fields) (*networkv1alpha1.EgressIP, error) {
	made := &networkv1alpha1.EgressIP{}
	made.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("EgressIP"))
	pods, _ := s.selector("podSelector")
	selected, err := parseCilium(pods)
	if err != nil {
		return nil, err
	}
	namespaces, _ := s.selector("namespaceSelector")
	made.Spec.PodSelector, made.Spec.NamespaceSelector = selected.pods, merge(selected.namespaces, namespaces)
	if s.has("nodeSelector") {
		return nil, fmt.Errorf("nodeSelector: an EgressIP is about pods of all nodes")
	}
	return made, nil
}
