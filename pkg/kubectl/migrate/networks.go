package migrate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

var (
	udnKind  = schema.GroupKind{Group: "k8s.ovn.org", Kind: "UserDefinedNetwork"}
	cudnKind = schema.GroupKind{Group: "k8s.ovn.org", Kind: "ClusterUserDefinedNetwork"}
	nadKind  = schema.GroupKind{Group: "k8s.cni.cncf.io", Kind: "NetworkAttachmentDefinition"}
)

// newNetwork returns an empty Network.
func newNetwork(name string) *networkv1alpha1.Network {
	n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("Network"))
	return n
}

// networkName is the name of the Network of an object. Weft makes a definition of that name in each namespace, so pods'
// annotations stay valid where it is the definition's own name.
func (i *item) networkName(taken ...schema.GroupKind) string {
	name := weftName(i.GetName())
	for _, k := range taken {
		for _, other := range i.in.byKind[k] {
			if weftName(other.GetName()) == name && nameOf(other) != i.entry.Object {
				name = weftName(i.GetNamespace(), i.GetName())
			}
		}
	}
	if name != i.GetName() {
		i.entry.Next = fmt.Sprintf("change the annotation k8s.v1.cni.cncf.io/networks of its pods from %s to %s", i.GetName(), name)
	}
	return name
}

// userDefinedNetwork translates a UserDefinedNetwork, whose pods are in its namespace.
func userDefinedNetwork(i *item) {
	n := newNetwork(i.networkName(udnKind, cudnKind))
	n.Spec.Namespaces = inNamespaces(i.GetNamespace())
	i.ovnTopology(n, i.spec())
}

// clusterUserDefinedNetwork translates a ClusterUserDefinedNetwork.
func clusterUserDefinedNetwork(i *item) {
	spec := i.spec()
	n := newNetwork(i.networkName(udnKind))
	selector, _ := spec.selector("namespaceSelector")
	n.Spec.Namespaces = &selector
	i.ovnTopology(n, spec.inner("network"))
}

// ovnTopology reads the topology of a user-defined network.
func (i *item) ovnTopology(n *networkv1alpha1.Network, f fields) {
	topology := f.text("topology")
	config := f.inner(strings.ToLower(topology[:min(len(topology), 1)]) + topology[min(len(topology), 1):])
	if role := config.text("role"); role == "Primary" {
		i.cannot("it is the primary network of its pods; Weft's pods have the cluster's network as their primary",
			"isolate its namespaces with ClusterNetworkPolicies, and attach its pods to a Network besides")
		return
	}
	n.Spec.Topology = networkv1alpha1.NetworkTopology(topology)
	n.Spec.MTU = int32(config.number("mtu"))
	ipam := config.inner("ipam")
	switch mode := ipam.text("mode"); mode {
	case "Disabled":
		n.Spec.IPAM = networkv1alpha1.IPAMNone
	case "DHCP":
		n.Spec.IPAM = networkv1alpha1.IPAMNone
		i.lose(ipam.at("mode"), "Weft runs no DHCP client for pods: they must run their own")
	}
	if ipam.text("lifecycle") == "Persistent" {
		i.note(ipam.at("lifecycle"), "IPAMClaims keep addresses in Weft, too")
	}
	switch topology {
	case "Layer3":
		for _, s := range config.list("subnets") {
			i.addSubnets(n, s.text("cidr"), int32(s.number("hostSubnet")))
		}
	case "Layer2":
		i.addSubnets(n, strings.Join(config.texts("subnets"), ","), 0)
	case "Localnet":
		n.Spec.PhysicalNetwork = networkv1alpha1.PhysicalNetworkName(config.text("physicalNetworkName"))
		i.addSubnets(n, strings.Join(config.texts("subnets"), ","), 0)
		i.exclude(n, config.texts("excludeSubnets"))
		n.Spec.VLAN = i.vlan(config)
		i.physical(n)
	default:
		i.cannot(fmt.Sprintf("topology %q is unknown", topology), "write the Network by hand: docs/user/networks.md")
		return
	}
	i.addNetwork(n)
}

// vlan reads a VLAN, which is a number or a mapping by version.
func (i *item) vlan(config fields) int32 {
	if _, isMap := config.left["vlan"].(map[string]any); isMap {
		v := config.inner("vlan")
		v.text("mode")
		return int32(v.inner("access").number("id"))
	}
	return int32(config.number("vlan"))
}

// physical says how nodes reach the physical network of a Localnet Network. The bridges of nodes are not in the API.
func (i *item) physical(n *networkv1alpha1.Network) {
	name := n.Spec.PhysicalNetwork
	known := slices.ContainsFunc(i.in.plan.physical, func(p networkv1alpha1.PhysicalNetwork) bool { return p.Name == name })
	if name == networkv1alpha1.GatewayPhysicalNetwork || known {
		return
	}
	i.in.step("add physical network %s with the nodes' link or bridge to spec.physicalNetworks of the ClusterNetwork: the nodes' "+
		"bridge mappings are not in the API", name)
}

// addSubnets adds networks that are separated by commas.
func (i *item) addSubnets(n *networkv1alpha1.Network, text string, hostPrefix int32) {
	for _, cidr := range i.in.networksOf(i.entry.Object, text) {
		same := func(s networkv1alpha1.NetworkSubnet) bool {
			p, err := s.CIDR.Prefix()
			return err == nil && p.Addr().Is4() == cidr.Addr().Is4()
		}
		if slices.ContainsFunc(n.Spec.Subnets, same) {
			i.lose("subnets", "%s is left out: a Network has one subnet of each family", cidr)
			continue
		}
		if hostPrefix == 0 && n.Spec.Topology == networkv1alpha1.TopologyLayer3 && cidr.Bits() >= 24 && cidr.Addr().Is4() {
			hostPrefix = int32(min(cidr.Bits()+3, 29))
			i.note("subnets", "each node gets a /%d of %s", hostPrefix, cidr)
		}
		n.Spec.Subnets = append(n.Spec.Subnets, networkv1alpha1.NetworkSubnet{CIDR: networkv1alpha1.CIDR(cidr.String()), HostPrefix: hostPrefix})
	}
	if len(n.Spec.Subnets) == 0 {
		n.Spec.IPAM = networkv1alpha1.IPAMNone
	}
}

// exclude adds ranges that pods do not get.
func (i *item) exclude(n *networkv1alpha1.Network, texts []string) {
	for _, text := range texts {
		ranges, err := parseRange(text)
		if err != nil {
			i.lose("excludeSubnets", "%v", err)
			continue
		}
		for _, cidr := range netipx.IPRangeFrom(ranges.First, ranges.Last).Prefixes() {
			inside := slices.ContainsFunc(n.Spec.Subnets, func(s networkv1alpha1.NetworkSubnet) bool {
				subnet, err := s.CIDR.Prefix()
				return err == nil && subnet.Contains(cidr.Addr()) && subnet.Bits() <= cidr.Bits()
			})
			value := networkv1alpha1.CIDR(cidr.String())
			if inside && len(n.Spec.ExcludeSubnets) < 64 && !slices.Contains(n.Spec.ExcludeSubnets, value) {
				n.Spec.ExcludeSubnets = append(n.Spec.ExcludeSubnets, value)
			} else if !inside || len(n.Spec.ExcludeSubnets) >= 64 {
				i.lose("excludeSubnets", "%s is left out: it lies in no subnet, or there are more than 64 ranges", cidr)
			}
		}
	}
}

// addNetwork adds a Network to the manifests.
func (i *item) addNetwork(n *networkv1alpha1.Network) {
	if len(n.Spec.Subnets) == 0 && n.Spec.Topology == networkv1alpha1.TopologyLayer3 {
		i.cannot("a Layer3 Network needs subnets", "write the Network by hand: docs/user/networks.md")
		return
	}
	if n.Spec.MTU > 65535 {
		n.Spec.MTU = 0
	}
	i.becomes(fileNetworks, n, "")
}

// definition translates a NetworkAttachmentDefinition of ovn-kubernetes. Definitions of other plugins are kept.
func definition(i *item) {
	text, _, _ := unstructured.NestedString(i.Object, "spec", "config")
	i.left = nil
	tree := map[string]any{}
	if strings.TrimSpace(text) != "" {
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			i.cannot(fmt.Sprintf("spec.config: %v", err), "correct it, or remove it if no pod uses it")
			return
		}
	}
	kind, _ := tree["type"].(string)
	if plugins, ok := tree["plugins"].([]any); ok && len(plugins) > 0 {
		first, _ := plugins[0].(map[string]any)
		kind, _ = first["type"].(string)
	}
	for _, owner := range i.GetOwnerReferences() {
		if k := (schema.GroupKind{Group: "k8s.ovn.org", Kind: owner.Kind}); k == udnKind || k == cudnKind {
			i.notNeeded("made of " + owner.Kind + " " + owner.Name + "; Weft makes a definition of its Network")
			i.entry.Next = "delete it before the Network is created, because Weft does not replace another author's definition"
			return
		}
	}
	switch kind {
	case "ovn-k8s-cni-overlay":
		i.ovnDefinition(newFields("config", tree))
	case "kube-ovn":
		i.notNeeded("Weft makes a definition of the Network that its Subnet becomes")
		i.entry.Next = "delete it before the Network is created, because Weft does not replace another author's definition"
	default:
		i.kept(fmt.Sprintf("a definition of plugin %q, which Weft's agents run from the node's /opt/cni/bin", kind))
	}
}

// ovnDefinition translates the configuration of a definition of ovn-kubernetes. Definitions with one name of a network
// in several namespaces are one network.
func (i *item) ovnDefinition(f fields) {
	if role := f.text("role"); role == "primary" {
		i.cannot("it is the primary network of its pods; Weft's pods have the cluster's network as their primary",
			"isolate its namespaces with ClusterNetworkPolicies, and attach its pods to a Network besides")
		return
	}
	topology := map[string]networkv1alpha1.NetworkTopology{"layer2": networkv1alpha1.TopologyLayer2,
		"layer3": networkv1alpha1.TopologyLayer3, "localnet": networkv1alpha1.TopologyLocalnet}[strings.ToLower(f.text("topology"))]
	if topology == "" {
		i.kept("it names the cluster's own network, as Weft's eth0")
		i.entry.Next = "remove it if no pod names it: Weft has no definition of the cluster's network"
		return
	}
	same := i.sameNetwork(f.text("name"))
	n := newNetwork(i.networkName())
	n.Spec.Topology, n.Spec.Namespaces = topology, inNamespaces(same...)
	n.Spec.MTU = int32(f.number("mtu"))
	for _, text := range strings.Split(f.text("subnets"), ",") {
		parts := strings.Split(strings.TrimSpace(text), "/")
		length := 0
		if len(parts) == 3 {
			_, _ = fmt.Sscan(parts[2], &length)
			text = parts[0] + "/" + parts[1]
		}
		if text != "" || len(n.Spec.Subnets) == 0 {
			i.addSubnets(n, text, int32(length))
		}
	}
	i.exclude(n, strings.FieldsFunc(f.text("excludeSubnets"), func(r rune) bool { return r == ',' || r == ' ' }))
	if physical := f.text("physicalNetworkName"); topology == networkv1alpha1.TopologyLocalnet {
		n.Spec.VLAN = int32(f.number("vlanID"))
		if physical == "" {
			physical = strings.ReplaceAll(i.GetName(), ":", "-")
		}
		n.Spec.PhysicalNetwork = networkv1alpha1.PhysicalNetworkName(physical)
		i.physical(n)
	}
	if f.flag("allowPersistentIPs") {
		i.note("config.allowPersistentIPs", "IPAMClaims keep addresses in Weft, too")
	}
	for _, key := range []string{"cniVersion", "type", "netAttachDefName"} {
		f.take(key)
	}
	for _, path := range f.rest() {
		i.lose(path, "unknown field, not translated")
	}
	*i.wrong = append(*i.wrong, *f.wrong...)
	if i.entry.Next == "" {
		i.entry.Next = "delete it before the Network is created, because Weft does not replace another author's definition"
	}
	i.addNetwork(n)
}

// sameNetwork lists the namespaces that have a definition of this name for a network.
func (i *item) sameNetwork(network string) (namespaces []string) {
	for _, o := range i.in.byKind[nadKind] {
		text, _, _ := unstructured.NestedString(o.Object, "spec", "config")
		var config struct {
			Name string `json:"name"`
		}
		if o.GetName() == i.GetName() && json.Unmarshal([]byte(text), &config) == nil && config.Name == network {
			namespaces = append(namespaces, o.GetNamespace())
		}
	}
	return namespaces
}

// parseRange parses an address, a network, or the first and the last address with a dash or two dots between.
func parseRange(text string) (r networkv1alpha1.AddressRange, err error) {
	text = strings.ReplaceAll(strings.TrimSpace(text), "..", "-")
	if p, err := netip.ParsePrefix(text); err == nil {
		text = p.Masked().String()
	}
	if r, err = networkv1alpha1.ParseAddressRange(text); err != nil {
		return r, fmt.Errorf("%q is no range of addresses: %w", text, err)
	}
	return r, nil
}
