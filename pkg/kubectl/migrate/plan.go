package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// clusterNetworkName is the name of the ClusterNetwork among the manifests.
const clusterNetworkName = "ClusterNetwork.network.weft.dev default"

// maxEntries is how many entries clusterNetwork can have.
const maxEntries = 8

// plan collects what the ClusterNetwork is made of.
type plan struct {
	pods     []podNetwork
	services []netip.Prefix
	join     []netip.Prefix
	mtu      int32 // 0: detected by Weft
	mode     networkv1alpha1.GatewayMode
	snat     networkv1alpha1.SNATPolicy
	physical []networkv1alpha1.PhysicalNetwork
	// encrypted means that the source encrypts packets between nodes.
	encrypted bool
	// nodes has the subnets of nodes that are kept.
	nodes map[string][]netip.Prefix // node -> subnets
	// from names the objects that the ClusterNetwork is made of.
	from []string
	// needShared names the manifests that work only in gateway mode Shared.
	needShared []string
}

// podNetwork is an entry of clusterNetwork. A hostPrefix of 0 is computed.
type podNetwork struct {
	cidr       netip.Prefix
	hostPrefix int
	// pool marks an entry whose addresses all belong to an IPPool, so that nodes get none.
	pool bool
}

func newPlan() *plan { return &plan{nodes: map[string][]netip.Prefix{}} }

// encrypted records that the source encrypts packets between nodes, by a setting.
func (i *item) encrypted(setting string) {
	i.in.plan.encrypted = true
	i.note(setting, "spec.encapsulation.encryption of the ClusterNetwork is IPsec, which needs the kernel's datapath on each node")
}

// addPods adds an entry once.
func (p *plan) addPods(n podNetwork) {
	if !slices.ContainsFunc(p.pods, func(have podNetwork) bool { return have.cidr == n.cidr }) {
		p.pods = append(p.pods, n)
	}
}

// prefixes parses networks that are separated by commas or spaces. It reports words that cannot be parsed.
func prefixes(text string) (list []netip.Prefix, bad []string) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == ';' }) {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			bad = append(bad, word)
			continue
		}
		list = append(list, p.Masked())
	}
	return list, bad
}

// networksOf parses networks, and makes a problem of each word that cannot be parsed.
func (in *inspector) networksOf(what, text string) []netip.Prefix {
	list, bad := prefixes(text)
	for _, word := range bad {
		in.problem("%s: %q is not a network", what, word)
	}
	return list
}

// clusterNetwork adds the ClusterNetwork and the NodeNetworks to the manifests.
func (in *inspector) clusterNetwork() {
	if in.network == "" {
		return
	}
	p := in.plan
	in.serviceNetworks()
	in.families()
	in.apart()
	if len(p.pods) == 0 || len(p.services) == 0 {
		in.problem("no ClusterNetwork could be made: the %s is unknown", missing(p))
		in.withoutNetwork()
		return
	}
	in.nodes() // before hostPrefix is computed
	c := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	c.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("ClusterNetwork"))
	for _, n := range p.pods {
		c.Spec.ClusterNetwork = append(c.Spec.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{
			CIDR: networkv1alpha1.CIDR(n.cidr.String()), HostPrefix: int32(in.hostPrefix(n))})
	}
	for _, s := range p.services {
		c.Spec.ServiceNetwork = append(c.Spec.ServiceNetwork, networkv1alpha1.CIDR(s.String()))
	}
	for _, j := range in.joins() {
		c.Spec.JoinSubnet = append(c.Spec.JoinSubnet, networkv1alpha1.CIDR(j.String()))
	}
	c.Spec.MTU, c.Spec.PhysicalNetworks = p.mtu, p.physical
	if p.encrypted {
		c.Spec.Encapsulation.Encryption = networkv1alpha1.EncryptionIPsec
	}
	c.Spec.Gateway = networkv1alpha1.Gateway{Mode: in.gatewayMode(), SNAT: p.snat}
	slices.Sort(p.from)
	in.manifest(fileCluster, c, slices.Compact(p.from)...)
}

// withoutNetwork takes back what was to become a part of the ClusterNetwork.
func (in *inspector) withoutNetwork() {
	for _, e := range in.order {
		if len(e.To) == 1 && e.To[0] == clusterNetworkName {
			e.Outcome, e.To = Cannot, []string{}
			e.Next = "write the ClusterNetwork by hand: docs/user/configure.md"
		}
	}
}

func missing(p *plan) string {
	switch {
	case len(p.pods) > 0:
		return "network of Services"
	case len(p.services) > 0:
		return "network of pods"
	}
	return "network of pods and that of Services"
}

// serviceNetworks finds the networks of cluster IPs: in the ServiceCIDRs, the API server's flags, or kubeadm's
// configuration. The network's own configuration counts before kubeadm's.
func (in *inspector) serviceNetworks() {
	var found []netip.Prefix
	for _, o := range in.byKind[serviceCIDR] {
		cidrs, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "cidrs")
		e := in.entry(nameOf(o))
		e.Outcome, e.Reason = Kept, "Kubernetes' own; spec.serviceNetwork must contain it"
		if o.GetName() == "kubernetes" {
			found = in.networksOf(nameOf(o), strings.Join(cidrs, ","))
			in.plan.from = append(in.plan.from, e.Object)
			continue
		}
		e.Outcome, e.Reason = Cannot, "Weft has the API server's first range of cluster IPs"
		e.Next = "move Services out of " + strings.Join(cidrs, ", ")
	}
	if len(found) == 0 {
		found = in.networksOf("--service-cluster-ip-range", in.serverRange())
	}
	if len(found) == 0 {
		found = in.plan.services
	}
	if item, data := in.configMap("kubeadm-config"); item != nil {
		e := item.entry
		e.Outcome, e.Reason = Kept, "kubeadm's own"
		if _, subnet, ok := strings.Cut(data["ClusterConfiguration"], "serviceSubnet:"); ok && len(found) == 0 {
			subnet, _, _ = strings.Cut(subnet, "\n")
			found = in.networksOf(e.Object, strings.Trim(subnet, ` "'`))
			in.plan.from = append(in.plan.from, e.Object)
		}
	}
	in.plan.services = found
}

// serverRange returns the flag of a kube-apiserver that runs as a pod.
func (in *inspector) serverRange() string {
	for _, o := range in.byKind[podKind] {
		for _, c := range containers(o) {
			for _, arg := range slices.Concat(c.Command, c.Args) {
				if value, ok := strings.CutPrefix(arg, "--service-cluster-ip-range="); ok && o.GetLabels()["component"] == "kube-apiserver" {
					return value
				}
			}
		}
	}
	return ""
}

// families leaves out networks of a family that the others lack, because Weft needs both of each.
func (in *inspector) families() {
	p := in.plan
	has := func(is4 bool) (pods, services bool) {
		return slices.ContainsFunc(p.pods, func(n podNetwork) bool { return n.cidr.Addr().Is4() == is4 }),
			slices.ContainsFunc(p.services, func(s netip.Prefix) bool { return s.Addr().Is4() == is4 })
	}
	for _, is4 := range []bool{true, false} {
		pods, services := has(is4)
		family := map[bool]string{true: "IPv4", false: "IPv6"}[is4]
		switch {
		case pods && !services && len(p.services) > 0:
			in.problem("the pods' %s network is left out: Weft needs a network of Services of each family, and the cluster has none of %s",
				family, family)
			p.pods = slices.DeleteFunc(p.pods, func(n podNetwork) bool { return n.cidr.Addr().Is4() == is4 })
		case services && !pods && len(p.pods) > 0:
			in.problem("the Services' %s network is left out, because pods have no %s network", family, family)
			p.services = slices.DeleteFunc(p.services, func(s netip.Prefix) bool { return s.Addr().Is4() == is4 })
		}
	}
	if len(p.pods) > maxEntries {
		for _, n := range p.pods[maxEntries:] {
			in.problem("%s is left out: clusterNetwork has at most %d entries", n.cidr, maxEntries)
		}
		p.pods = p.pods[:maxEntries]
	}
}

// apart cuts networks of pods that overlap a network of Services, as Cilium's default 10.0.0.0/8 does. The part that
// contains most of the nodes' subnets remains.
func (in *inspector) apart() {
	p := in.plan
	var kept []podNetwork
	for _, n := range p.pods {
		var b netipx.IPSetBuilder
		b.AddPrefix(n.cidr)
		for _, s := range p.services {
			b.RemovePrefix(s)
		}
		set, err := b.IPSet()
		if err != nil || set.ContainsPrefix(n.cidr) {
			kept = append(kept, n)
			continue
		}
		parts := slices.DeleteFunc(set.Prefixes(), func(part netip.Prefix) bool { return !in.hasRoom(part, n) })
		if len(parts) == 0 {
			in.problem("%s is left out, because it overlaps the network of Services: choose another network", n.cidr)
			continue
		}
		part := slices.MaxFunc(parts, func(a, b netip.Prefix) int {
			return cmp.Or(cmp.Compare(in.subnetsIn(a), in.subnetsIn(b)), cmp.Compare(b.Bits(), a.Bits()))
		})
		in.problem("%s overlaps the network of Services, which Weft does not allow; %s of it is used", n.cidr, part)
		kept = append(kept, podNetwork{cidr: part, hostPrefix: n.hostPrefix, pool: n.pool})
	}
	p.pods = kept
}

// hasRoom reports whether a part of a network has room for the subnets of all nodes, and as many again.
func (in *inspector) hasRoom(part netip.Prefix, n podNetwork) bool {
	length := n.hostPrefix
	if length == 0 {
		length = networkv1alpha1.DefaultHostPrefixIPv4
		if part.Addr().Is6() {
			length = networkv1alpha1.DefaultHostPrefixIPv6
		}
	}
	bits := length - part.Bits()
	return n.pool || bits > 30 || bits > 0 && 1<<bits >= 2*max(len(in.byKind[nodeKind]), 1)
}

// subnetsIn counts the nodes' subnets in a network.
func (in *inspector) subnetsIn(part netip.Prefix) (count int) {
	for _, subnets := range in.plan.nodes {
		for _, s := range subnets {
			if part.Contains(s.Addr()) && s.Bits() >= part.Bits() {
				count++
			}
		}
	}
	return count
}

// joins returns the join subnets of the families of pods. It is empty where Weft's defaults serve.
func (in *inspector) joins() []netip.Prefix {
	p := in.plan
	var used []netip.Prefix
	for _, n := range p.pods {
		used = append(used, n.cidr)
	}
	used = append(used, p.services...)
	overlaps := func(j netip.Prefix) bool { return slices.ContainsFunc(used, j.Overlaps) }
	for n := 0; n < 64 && len(p.join) == 0; n++ {
		four := netip.MustParsePrefix(fmt.Sprintf("100.%d.0.0/16", 64+n))
		six := netip.MustParsePrefix(fmt.Sprintf("fd%02x::/64", 0x98-n))
		if !overlaps(four) && !overlaps(six) {
			if n == 0 {
				return nil
			}
			return []netip.Prefix{four, six}
		}
	}
	for _, is4 := range []bool{true, false} { // a join subnet of each family of pods
		needs := slices.ContainsFunc(used, func(u netip.Prefix) bool { return u.Addr().Is4() == is4 })
		if needs && !slices.ContainsFunc(p.join, func(j netip.Prefix) bool { return j.Addr().Is4() == is4 }) {
			p.join = append(p.join, netip.MustParsePrefix(map[bool]string{true: "100.64.0.0/16", false: "fd98::/64"}[is4]))
		}
	}
	return p.join
}

// hostPrefix returns the prefix length of nodes' subnets. It is 0 where Weft's default serves.
func (in *inspector) hostPrefix(n podNetwork) int {
	if n.hostPrefix != 0 {
		return n.hostPrefix
	}
	standard, longest := networkv1alpha1.DefaultHostPrefixIPv4, 29
	if n.cidr.Addr().Is6() {
		standard, longest = networkv1alpha1.DefaultHostPrefixIPv6, 112
	}
	nodes := max(len(in.byKind[nodeKind]), 1)
	for length := max(standard, n.cidr.Bits()+1); length <= longest; length++ {
		if bits := length - n.cidr.Bits(); bits > 30 || 1<<bits >= 2*nodes || n.pool {
			if length == standard {
				return 0
			}
			return length
		}
	}
	in.problem("%s has no room for the subnets of %d nodes: choose another network", n.cidr, nodes)
	return longest
}

// gatewayMode is the source's mode, unless a manifest needs mode Shared.
func (in *inspector) gatewayMode() networkv1alpha1.GatewayMode {
	p := in.plan
	if p.mode == networkv1alpha1.GatewayLocal && len(p.needShared) > 0 {
		slices.Sort(p.needShared)
		in.step("the gateway mode is Shared, because %s needs it; %s sends pods' packets by the hosts' own routing, "+
			"which is mode Local: see docs/user/gateway.md", p.needShared[0], in.network)
		return networkv1alpha1.GatewayShared
	}
	return p.mode
}

// nodes keeps the subnets of nodes that fit the entries of clusterNetwork.
func (in *inspector) nodes() {
	p := in.plan
	nodes := in.byKind[nodeKind]
	if len(p.nodes) == 0 {
		if len(nodes) > 0 {
			e := in.entry("Node *")
			e.Count, e.Outcome = int64(len(nodes)), NotNeeded
			e.Reason = fmt.Sprintf("%s has no subnet of each node that could be kept; Weft gives each node one", in.network)
		}
		return
	}
	for _, o := range nodes {
		e := in.entry(nameOf(o))
		var kept []networkv1alpha1.CIDR
		for _, subnet := range p.nodes[o.GetName()] {
			if p.fits(subnet) {
				kept = append(kept, networkv1alpha1.CIDR(subnet.String()))
			} else {
				e.Fields = append(e.Fields, Field{"", fmt.Sprintf("subnet %s does not fit clusterNetwork; the node gets another", subnet), true})
			}
		}
		if len(kept) == 0 {
			e.Outcome, e.Reason = NotNeeded, "no subnet to keep; Weft gives the node one"
			continue
		}
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}}
		nn.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("NodeNetwork"))
		nn.Spec.PodSubnets = kept
		e.Outcome, e.Reason = Translated, "the node keeps its pod subnet"
		e.To = append(e.To, in.manifest(fileNodes, nn, e.Object))
	}
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		if !slices.ContainsFunc(nodes, func(o *unstructured.Unstructured) bool { return o.GetName() == name }) {
			in.problem("the subnet of node %s cannot be kept: the Node was not read", name)
		}
	}
	in.step("create %s in the name of the operator, before the ClusterNetwork: kubectl create -f %s "+
		"--as=system:serviceaccount:weft-system:weft-operator", fileNodes, fileNodes)
}

// fits reports whether a node's subnet is what Weft would make of an entry.
func (p *plan) fits(subnet netip.Prefix) bool {
	return slices.ContainsFunc(p.pods, func(n podNetwork) bool {
		standard := networkv1alpha1.DefaultHostPrefixIPv4
		if n.cidr.Addr().Is6() {
			standard = networkv1alpha1.DefaultHostPrefixIPv6
		}
		want := n.hostPrefix
		if want == 0 {
			want = standard
		}
		return n.cidr.Contains(subnet.Addr()) && subnet.Bits() == want
	})
}
