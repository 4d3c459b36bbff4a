package migrate

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// flannelFacts reads net-conf.json of flannel and canal, and the nodes' pod CIDRs.
func (in *inspector) flannelFacts() {
	p := in.plan
	p.mode, p.snat = networkv1alpha1.GatewayLocal, networkv1alpha1.SNATNone
	if in.hasFlag(flannel, "ip-masq") || in.option(flannel, "FLANNELD_IP_MASQ", "") == "true" {
		p.snat = networkv1alpha1.SNATNode
	}
	in.podCIDRs()
	i, data := in.configMap("kube-flannel-cfg", "canal-config")
	if i == nil {
		in.problem("ConfigMap kube-flannel-cfg was not found: the network of pods is in its net-conf.json")
		return
	}
	i.partOf("net-conf.json has the networks of pods")
	tree := map[string]any{}
	if err := json.Unmarshal([]byte(data["net-conf.json"]), &tree); err != nil {
		i.cannot(fmt.Sprintf("data.net-conf.json: %v", err), "correct it, and run the command again")
		return
	}
	f := newFields("net-conf.json", tree)
	backend := f.inner("Backend")
	in.report.Source.Mode = backend.text("Type")
	if in.report.Source.Mode == "wireguard" {
		i.encrypted("net-conf.json.Backend.Type")
	} else {
		i.note("net-conf.json.Backend.Type", "%s becomes Geneve", in.report.Source.Mode)
	}
	length, length6 := int(f.number("SubnetLen")), int(f.number("IPv6SubnetLen"))
	for _, one := range []struct {
		key    string
		length int
	}{{"Network", length}, {"IPv6Network", length6}} {
		for _, cidr := range in.networksOf("net-conf.json."+one.key, f.text(one.key)) {
			p.addPods(podNetwork{cidr: cidr, hostPrefix: one.length})
		}
	}
	f.drop(i, "no meaning for Weft", false, "EnableIPv4", "EnableIPv6", "EnableNFTables", "SubnetMin", "SubnetMax",
		"IPv6SubnetMin", "IPv6SubnetMax")
	for _, path := range f.rest() {
		i.note(path, "no counterpart")
	}
	i.entry.Fields = append(i.entry.Fields, *f.wrong...)
	for _, key := range sortedKeys(data) {
		if key != "net-conf.json" {
			i.note("data."+key, "no counterpart")
		}
	}
	in.adoptLengths()
}

// podCIDRs takes the nodes' spec.podCIDRs as their subnets.
func (in *inspector) podCIDRs() {
	for _, o := range in.byKind[nodeKind] {
		cidrs, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "podCIDRs")
		if one, ok, _ := unstructured.NestedString(o.Object, "spec", "podCIDR"); ok && len(cidrs) == 0 {
			cidrs = []string{one}
		}
		for _, text := range cidrs {
			in.plan.nodes[o.GetName()] = append(in.plan.nodes[o.GetName()], in.networksOf(nameOf(o), text)...)
		}
	}
}

// adoptLengths sets the hostPrefix of entries without one to the length of the nodes' subnets.
func (in *inspector) adoptLengths() {
	for n := range in.plan.pods {
		pods := &in.plan.pods[n]
		for _, subnets := range in.plan.nodes {
			for _, s := range subnets {
				if pods.hostPrefix == 0 && pods.cidr.Contains(s.Addr()) && hostPrefixAllowed(s) {
					pods.hostPrefix = s.Bits()
				}
			}
		}
	}
}

// hostPrefixAllowed reports whether Weft can give nodes subnets of this length.
func hostPrefixAllowed(s netip.Prefix) bool {
	return s.Addr().Is4() && s.Bits() <= 29 || s.Addr().Is6() && s.Bits() <= 112
}
