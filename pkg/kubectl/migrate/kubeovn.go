package migrate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// defaultVPC is the name of kube-ovn's router of the cluster.
const defaultVPC = "ovn-cluster"

var (
	subnetKind   = schema.GroupKind{Group: "kubeovn.io", Kind: "Subnet"}
	vlanKind     = schema.GroupKind{Group: "kubeovn.io", Kind: "Vlan"}
	providerKind = schema.GroupKind{Group: "kubeovn.io", Kind: "ProviderNetwork"}
	ovnEIPKind   = schema.GroupKind{Group: "kubeovn.io", Kind: "OvnEip"}
)

// kubeOVNFacts reads the flags of kube-ovn, and its default and join subnets.
func (in *inspector) kubeOVNFacts() {
	p := in.plan
	p.mode, p.snat = networkv1alpha1.GatewayLocal, networkv1alpha1.SNATNode
	p.services = in.networksOf("--service-cluster-ip-range", in.option(kubeOVN, "", "service-cluster-ip-range"))
	if mtu, err := strconv.Atoi(in.option(kubeOVN, "", "mtu")); err == nil {
		p.mtu = int32(mtu)
	}
	in.report.Source.Mode = cmp.Or(in.option(kubeOVN, "", "network-type"), in.option(kubeOVN, "TUNNEL_TYPE", "tunnel-type"), "geneve")
	for _, o := range in.byKind[subnetKind] {
		if spec := specOf(o); spec.flag("default") && isDefaultVPC(spec.text("vpc")) {
			for _, cidr := range in.networksOf(nameOf(o), spec.text("cidrBlock")) {
				p.addPods(podNetwork{cidr: cidr})
			}
		}
	}
	if len(p.pods) == 0 {
		for _, cidr := range in.networksOf("--default-cidr", in.option(kubeOVN, "", "default-cidr")) {
			p.addPods(podNetwork{cidr: cidr})
		}
	}
}

// specOf returns a copy of an object's spec.
func specOf(o *unstructured.Unstructured) fields {
	tree, _, _ := unstructured.NestedMap(o.DeepCopy().Object, "spec")
	return newFields("spec", tree)
}

func isDefaultVPC(name string) bool { return name == "" || name == defaultVPC }

// find returns an object by its name, or nil.
func (in *inspector) find(k schema.GroupKind, name string) *unstructured.Unstructured {
	for _, o := range in.byKind[k] {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

// subnet translates a Subnet. The default Subnet and the join Subnet become parts of the ClusterNetwork, a Subnet of namespaces
// becomes an IPPool, and a Subnet of a VLAN or of secondary interfaces becomes a Network.
func subnet(i *item) {
	spec := i.spec()
	vpc, vlan, provider, cidrs := spec.text("vpc"), spec.text("vlan"), spec.text("provider"), spec.text("cidrBlock")
	isDefault := spec.flag("default")
	if !isDefaultVPC(vpc) {
		i.cannot("it is of VPC "+vpc+"; Weft has one router for all pods",
			"give its pods a Layer2 or Layer3 Network, or addresses of the cluster")
		return
	}
	i.subnetFields(spec)
	further := provider != "" && provider != "ovn"
	switch {
	case isDefault:
		i.partOf("the cluster's network of pods")
		i.gatewayOf(spec)
		spec.drop(i, "pods of all namespaces get addresses of the cluster", false, "namespaces", "namespaceSelectors")
		i.reserved(spec)
	case i.GetName() == "join":
		i.joinSubnet(cidrs)
		spec.drop(i, "Weft chooses the addresses of the join switch", false, "excludeIps", "gateway", "gatewayType", "gatewayNode",
			"natOutgoing")
	case vlan != "" || further:
		i.subnetNetwork(spec, cidrs, vlan, provider, further)
	default:
		i.subnetPool(spec, cidrs)
	}
}

// joinSubnet takes the networks between the routers.
func (i *item) joinSubnet(cidrs string) {
	for _, cidr := range i.in.networksOf(i.entry.Object, cidrs) {
		if most := map[bool]int{true: 24, false: 112}[cidr.Addr().Is4()]; cidr.Bits() > most {
			i.lose("spec.cidrBlock", "%s is too small for Weft's join switch, at least a /%d; Weft's default is used", cidr, most)
			continue
		}
		i.in.plan.join = append(i.in.plan.join, cidr)
	}
	i.partOf("spec.joinSubnet")
}

// subnetFields names the fields that all kinds of subnets share and Weft does not have.
func (i *item) subnetFields(spec fields) {
	spec.drop(i, "follows from the addresses", false, "protocol")
	spec.drop(i, "the first address of the subnet is the router's", false, "gateway")
	spec.drop(i, "isolation is lost: write NetworkPolicies for its namespaces", true, "private", "allowSubnets", "acls", "allowEWTraffic")
	spec.drop(i, "Weft routes all pods' packets by their own node's gateway; an EgressIP gives them one address", true,
		"gatewayNode", "gatewayNodeSelectors", "enableEcmp", "externalEgressGateway", "policyRoutingPriority", "policyRoutingTableID",
		"natOutgoingPolicyRules")
	spec.drop(i, "no counterpart", true, "vips", "routeTable", "enableDHCP", "dhcpV4Options", "dhcpV6Options", "enableIPv6RA",
		"ipv6RAConfigs",
		"u2oInterconnection", "u2oInterconnectionIP", "u2oFeatures", "logicalGateway", "enableMulticastSnoop", "enableExternalLBAddress",
		"disableInterConnection")
	spec.drop(i, "no meaning for Weft", false, "disableGatewayCheck", "dhcpV4OptionsUUID", "enableLb", "nodeNetwork")
	if text, _ := spec.left["gatewayType"].(string); text != "" {
		spec.take("gatewayType")
		if text == "centralized" {
			i.lose("spec.gatewayType", "centralized: Weft's gateways are distributed; an EgressIP gives pods one address")
		}
	}
}

// gatewayOf takes what the default subnet says of the way outside and the MTU.
func (i *item) gatewayOf(spec fields) {
	p := i.in.plan
	if spec.has("natOutgoing") && !spec.flag("natOutgoing") {
		p.snat = networkv1alpha1.SNATNone
	}
	if mtu := spec.number("mtu"); mtu != 0 {
		p.mtu = int32(mtu)
	}
}

// reserved names addresses that pods do not get, which the cluster's network does not have.
func (i *item) reserved(spec fields) {
	excluded := spec.texts("excludeIps")
	if len(excluded) > 1 { // the gateway is always excluded
		i.lose("spec.excludeIps", "%s: an IPPool of location Overlay keeps addresses away from pods", strings.Join(excluded, ", "))
	}
}

// subnetPool makes an IPPool of a subnet of namespaces, and an entry of clusterNetwork, whose addresses nodes do not get.
func (i *item) subnetPool(spec fields, cidrs string) {
	networks := i.in.networksOf(i.entry.Object, cidrs)
	if len(networks) == 0 {
		i.cannot("it has no network", "remove it, or give it a cidrBlock")
		return
	}
	excluded, err := excludedSet(spec.texts("excludeIps"))
	if err != nil {
		i.lose("spec.excludeIps", "%v", err)
	}
	var ranges []string
	for _, cidr := range networks {
		i.in.plan.addPods(podNetwork{cidr: cidr, pool: true})
		ranges = append(ranges, without(cidr, excluded)...)
	}
	if spec.has("natOutgoing") && !spec.flag("natOutgoing") {
		i.lose("spec.natOutgoing", "false: spec.gateway.snat holds for all pods")
	}
	spec.drop(i, "the MTU of the cluster holds for all pods", true, "mtu")
	pool := i.pool(weftName(i.GetName()), networkv1alpha1.LocationOverlay, ranges)
	pool.Spec.Namespaces = i.namespaces(spec)
	i.entry.Reason = "its addresses become an entry of clusterNetwork and an IPPool"
	i.entry.Next = fmt.Sprintf("add the annotation %s: %s to the workloads of its namespaces", networkv1alpha1.IPPoolAnnotation, pool.Name)
	i.in.plan.from = append(i.in.plan.from, i.entry.Object)
	i.becomes(filePools, pool, "")
}

// namespaces reads the namespaces of a subnet: their names, or one selector.
func (i *item) namespaces(spec fields) *metav1.LabelSelector {
	names := spec.texts("namespaces")
	selectors := spec.list("namespaceSelectors")
	if len(selectors) == 1 && len(names) == 0 {
		holder := newFields(spec.path, map[string]any{"namespaceSelectors": selectors[0].left})
		s, _ := holder.selector("namespaceSelectors")
		spec.take("namespaceSelectors")
		return &s
	}
	if len(names) > 0 {
		return inNamespaces(names...)
	}
	return nil
}

// pool returns an IPPool with these ranges, at most 64.
func (i *item) pool(name string, location networkv1alpha1.IPPoolLocation, ranges []string) *networkv1alpha1.IPPool {
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("IPPool"))
	pool.Spec.Location = location
	for n, text := range ranges {
		if n == 64 {
			i.lose("", "an IPPool has at most 64 ranges; %d are left out", len(ranges)-n)
			break
		}
		pool.Spec.Ranges = append(pool.Spec.Ranges, networkv1alpha1.IPPoolRange{Addresses: text})
	}
	if location == networkv1alpha1.LocationNAT {
		i.in.plan.needShared = append(i.in.plan.needShared, "IPPool "+name)
	}
	return pool
}

// subnetNetwork makes a Network of a subnet of a VLAN, or of secondary interfaces.
func (i *item) subnetNetwork(spec fields, cidrs, vlan, provider string, further bool) {
	n := newNetwork(weftName(i.GetName()))
	n.Spec.Topology, n.Spec.Namespaces = networkv1alpha1.TopologyLayer2, i.namespaces(spec)
	if further {
		name, rest, _ := strings.Cut(provider, ".")
		namespace, _, _ := strings.Cut(rest, ".")
		n.Name = weftName(name)
		if n.Spec.Namespaces == nil && namespace != "" {
			n.Spec.Namespaces = inNamespaces(namespace)
		}
		i.entry.Next = "delete NetworkAttachmentDefinition " + namespace + "/" + name + " before the Network is created"
	} else {
		i.lose("spec.vlan", "pods have their eth0 on the segment; in Weft it is a secondary interface, which they request by "+
			"k8s.v1.cni.cncf.io/networks: %s", n.Name)
	}
	if vlan != "" && !i.segment(n, vlan) {
		return
	}
	i.addSubnets(n, cidrs, 0)
	if gateway, ok := i.original("spec", "gateway"); ok && n.Spec.Topology == networkv1alpha1.TopologyLocalnet {
		i.exclude(n, strings.Split(gateway, ",")) // the router of the segment has it
	}
	i.exclude(n, spec.texts("excludeIps"))
	n.Spec.MTU = int32(spec.number("mtu"))
	spec.drop(i, "pods reach the outside by the segment's own router", false, "natOutgoing")
	i.addNetwork(n)
}

// original returns a text of the object, even if a translator took it.
func (i *item) original(path ...string) (string, bool) {
	text, ok, err := unstructured.NestedString(i.Object, path...)
	return text, ok && err == nil && text != ""
}

// segment puts a Network onto the VLAN of a Vlan.
func (i *item) segment(n *networkv1alpha1.Network, name string) bool {
	o := i.in.find(vlanKind, name)
	if o == nil {
		i.cannot("there is no Vlan "+name, "create it, or remove the Subnet")
		return false
	}
	spec := specOf(o)
	n.Spec.Topology = networkv1alpha1.TopologyLocalnet
	n.Spec.VLAN = int32(cmp.Or(spec.number("id"), spec.number("vlanId")))
	n.Spec.PhysicalNetwork = networkv1alpha1.PhysicalNetworkName(cmp.Or(spec.text("provider"), spec.text("providerInterfaceName")))
	if i.in.find(providerKind, string(n.Spec.PhysicalNetwork)) == nil {
		i.physical(n)
	}
	return true
}

// vlan gives a Vlan its outcome: it is a part of the Networks of its Subnets.
func vlan(i *item) {
	for _, o := range i.in.byKind[subnetKind] {
		spec := specOf(o)
		if spec.text("vlan") == i.GetName() && isDefaultVPC(spec.text("vpc")) {
			i.outcome(Translated, "spec.vlan and spec.physicalNetwork of Networks", "")
			i.entry.To = append(i.entry.To, "Network.network.weft.dev "+networkOfSubnet(o))
		}
	}
	if len(i.entry.To) == 0 {
		i.notNeeded("no Subnet of the cluster's VPC is on it")
	}
	i.left = nil
}

// networkOfSubnet returns the name of the Network that a Subnet becomes.
func networkOfSubnet(o *unstructured.Unstructured) string {
	spec := specOf(o)
	if provider := spec.text("provider"); provider != "" && provider != "ovn" {
		name, _, _ := strings.Cut(provider, ".")
		return weftName(name)
	}
	return weftName(o.GetName())
}

// providerNetwork makes an entry of physicalNetworks.
func providerNetwork(i *item) {
	spec := i.spec()
	p := networkv1alpha1.PhysicalNetwork{Name: networkv1alpha1.PhysicalNetworkName(i.GetName()), Link: spec.text("defaultInterface")}
	if p.Name == networkv1alpha1.GatewayPhysicalNetwork || p.Link == "" {
		i.cannot("it needs another name than physnet, and a defaultInterface", "add an entry to spec.physicalNetworks by hand")
		return
	}
	if s, ok := spec.selector("nodeSelector"); ok {
		p.NodeSelector = &s
	}
	if excluded := spec.texts("excludeNodes"); len(excluded) > 0 {
		if p.NodeSelector == nil {
			p.NodeSelector = &metav1.LabelSelector{}
		}
		p.NodeSelector.MatchExpressions = append(p.NodeSelector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpNotIn, Values: excluded})
	}
	if spec.has("customInterfaces") {
		spec.drop(i, "a physical network has one link on all nodes: give the links one name, or add bridges", true, "customInterfaces")
	}
	spec.drop(i, "the link keeps its name", false, "exchangeLinkName")
	spec.drop(i, "no counterpart", true, "preserveVlanInterfaces", "vlanInterfaces", "autoCreateVlanSubinterfaces")
	i.in.plan.physical = append(i.in.plan.physical, p)
	i.partOf("an entry of spec.physicalNetworks")
	i.entry.Next = "if " + p.Link + " is the nodes' link to the outside, remove the entry and name physnet in its Networks"
}

// vpc gives a Vpc its outcome.
func vpc(i *item) {
	if !isDefaultVPC(i.GetName()) {
		i.cannot("Weft has one router for all pods, and no VPCs",
			"give its pods Networks, or isolate its namespaces with ClusterNetworkPolicies")
		return
	}
	i.outcome(NotNeeded, "the router of the cluster, which Weft makes", "")
	spec := i.spec()
	spec.drop(i, "no counterpart", true, "staticRoutes", "policyRoutes", "vpcPeerings", "extraExternalSubnets", "enableExternal", "enableBfd",
		"bfdPort", "routeTables")
	i.left = nil
}

// kubeOVNPool translates an IPPool of kube-ovn.
func kubeOVNPool(i *item) {
	spec := i.spec()
	name := spec.text("subnet")
	o := i.in.find(subnetKind, name)
	if o == nil {
		i.cannot("there is no Subnet "+name, "remove it, or name another Subnet")
		return
	}
	of := specOf(o)
	if !isDefaultVPC(of.text("vpc")) {
		i.cannot("Subnet "+name+" is not of the cluster's VPC", "give its pods a Network")
		return
	}
	var ranges []string
	for _, text := range spec.texts("ips") {
		r, err := parseRange(text)
		if err != nil {
			i.lose("spec.ips", "%v", err)
			continue
		}
		ranges = append(ranges, r.String())
	}
	if len(ranges) == 0 {
		i.cannot("it has no addresses", "remove it, or give it ips")
		return
	}
	provider := of.text("provider")
	pool := i.pool(weftName(i.GetName()), networkv1alpha1.LocationOverlay, ranges)
	if of.text("vlan") != "" || provider != "" && provider != "ovn" {
		pool.Spec.Location, pool.Spec.Network = networkv1alpha1.LocationUnderlay, networkOfSubnet(o)
	} else if !of.flag("default") {
		i.lose("", "its addresses are also in IPPool %s, of Subnet %s: remove them there", weftName(name), name)
	}
	if names := spec.texts("namespaces"); len(names) > 0 {
		pool.Spec.Namespaces = inNamespaces(names...)
	} else {
		pool.Spec.Namespaces = &metav1.LabelSelector{}
	}
	spec.drop(i, "pods get addresses of a pool by its name", false, "enableAddressSet")
	i.entry.Next = fmt.Sprintf("add the annotation %s: %s to its workloads", networkv1alpha1.IPPoolAnnotation, pool.Name)
	i.becomes(filePools, pool, "")
}

// eip returns the addresses of an OvnEip.
func (in *inspector) eip(name string) (addresses []string) {
	o := in.find(ovnEIPKind, name)
	if o == nil {
		return nil
	}
	for _, path := range [][]string{{"spec", "v4Ip"}, {"status", "v4Ip"}, {"spec", "v6Ip"}, {"status", "v6Ip"}} {
		text, _, _ := unstructured.NestedString(o.Object, path...)
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(addresses, a.String()) {
			addresses = append(addresses, a.String())
		}
	}
	return addresses
}

// ovnFIP translates an address that is one pod's: an IPPool of location NAT.
func ovnFIP(i *item) {
	spec := i.spec()
	addresses := i.in.eip(spec.text("ovnEip"))
	if len(addresses) == 0 || !isDefaultVPC(spec.text("vpc")) {
		i.cannot("its OvnEip has no address, or it is not of the cluster's VPC", "use an IPPool of location NAT")
		return
	}
	pool := i.pool(weftName("fip", i.GetName()), networkv1alpha1.LocationNAT, addresses)
	pool.Spec.Namespaces = &metav1.LabelSelector{}
	i.entry.Next = fmt.Sprintf("add the annotation %s: %s to the workload of pod %s", networkv1alpha1.IPPoolAnnotation, pool.Name,
		spec.text("ipName"))
	spec.drop(i, "the annotated pod has the address", false, "ipType", "v4Ip", "v6Ip", "type")
	i.becomes(filePools, pool, "the address belongs to one workload")
}

// ovnSNAT translates the address of a subnet's pods: an EgressIP of its namespaces.
func ovnSNAT(i *item) {
	spec := i.spec()
	addresses := i.in.eip(spec.text("ovnEip"))
	o := i.in.find(subnetKind, spec.text("vpcSubnet"))
	if len(addresses) == 0 || o == nil {
		i.cannot("it names no Subnet, or its OvnEip has no address", "write an EgressIP that selects its pods")
		return
	}
	namespaces := i.namespaces(specOf(o))
	if namespaces == nil {
		i.cannot("Subnet "+o.GetName()+" has no namespaces of its own", "write an EgressIP that selects its pods")
		return
	}
	made := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: weftName(i.GetName())}}
	made.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("EgressIP"))
	for _, a := range addresses {
		made.Spec.EgressIPs = append(made.Spec.EgressIPs, networkv1alpha1.EgressAddress(a))
	}
	made.Spec.NamespaceSelector = *namespaces
	spec.drop(i, "follows from the namespaces", false, "v4IpCidr", "v6IpCidr", "vpc", "ipName")
	i.in.addEgressIP(i, made)
}

// ovnEIP gives an OvnEip its outcome: it is a part of what uses it.
func ovnEIP(i *item) {
	used := false
	for _, kind := range []string{"OvnFip", "OvnSnatRule", "OvnDnatRule"} {
		for _, o := range i.in.byKind[schema.GroupKind{Group: "kubeovn.io", Kind: kind}] {
			spec := specOf(o)
			used = used || spec.text("ovnEip") == i.GetName()
		}
	}
	if kind, _ := i.original("spec", "type"); kind == "lrp" || kind == "lsp" || !used {
		i.notNeeded("an address of kube-ovn's own routers, or of nothing")
		return
	}
	i.notNeeded("a part of the OvnFip, OvnSnatRule or OvnDnatRule that names it")
}
