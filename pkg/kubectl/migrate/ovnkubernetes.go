package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ovnKubernetesFacts reads the ConfigMap ovn-config, the workloads' flags and the nodes' annotations.
func (in *inspector) ovnKubernetesFacts() {
	p := in.plan
	for _, family := range []struct{ env, flag string }{{"OVN_V4_JOIN_SUBNET", "gateway-v4-join-subnet"},
		{"OVN_V6_JOIN_SUBNET", "gateway-v6-join-subnet"}} {
		p.join = append(p.join, in.networksOf(family.env, in.option(ovnKubernetes, family.env, family.flag))...)
	}
	in.ovnNodes()
	in.ovnConfig()
	if len(p.pods) == 0 {
		p.pods = in.ovnPods("--cluster-subnets", in.option(ovnKubernetes, "OVN_NET_CIDR", "cluster-subnets"))
	}
	in.adoptLengths()
}

// ovnConfig reads the ConfigMap of upstream's installations.
func (in *inspector) ovnConfig() {
	p := in.plan
	i, data := in.configMap("ovn-config")
	if i == nil {
		return
	}
	i.partOf("the cluster's networks and the MTU of pods")
	p.pods = in.ovnPods("ovn-config data.net_cidr", data["net_cidr"])
	p.services = in.networksOf("ovn-config data.svc_cidr", data["svc_cidr"])
	if mtu, err := strconv.Atoi(data["mtu"]); err == nil {
		p.mtu = int32(mtu)
	} else if data["mtu"] != "" {
		i.lose("data.mtu", "%q is not a number; Weft detects the MTU", data["mtu"])
	}
	for _, key := range sortedKeys(data) {
		switch key {
		case "net_cidr", "svc_cidr", "mtu":
		case "k8s_apiserver":
			i.note("data."+key, "%s: the ConfigMap weft-apiserver has it, where the cluster has no kube-proxy", data[key])
		case "host_network_namespace":
			i.note("data."+key, "not needed: policies match hosts by their addresses")
		default:
			i.lose("data."+key, "unknown field, not translated")
		}
	}
}

// ovnPods parses networks with the length of nodes' subnets: "10.244.0.0/16/24,fd00:10:244::/48/64".
func (in *inspector) ovnPods(what, text string) (pods []podNetwork) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		parts := strings.Split(word, "/")
		length := 0
		if len(parts) == 3 {
			length, _ = strconv.Atoi(parts[2])
			word = parts[0] + "/" + parts[1]
		}
		for _, cidr := range in.networksOf(what, word) {
			pods = append(pods, podNetwork{cidr: cidr, hostPrefix: length})
		}
	}
	return pods
}

// ovnNodes reads the gateway mode and the subnets of nodes.
func (in *inspector) ovnNodes() {
	p := in.plan
	mode := in.option(ovnKubernetes, "OVN_GATEWAY_MODE", "gateway-mode")
	for _, o := range in.byKind[nodeKind] {
		annotations := o.GetAnnotations()
		var gateway map[string]struct {
			Mode string `json:"mode"`
		}
		if text := annotations["k8s.ovn.org/l3-gateway-config"]; text != "" && json.Unmarshal([]byte(text), &gateway) == nil && mode == "" {
			mode = gateway["default"].Mode
		}
		if text := annotations["k8s.ovn.org/node-subnets"]; text != "" {
			p.nodes[o.GetName()] = in.ovnSubnets(o.GetName(), text)
		}
		if _, ok := o.GetLabels()["k8s.ovn.org/egress-assignable"]; ok {
			in.step("kubectl label node %s %s=", o.GetName(), networkv1alpha1.EgressAssignableLabel)
		}
	}
	if mode == "local" {
		p.mode = networkv1alpha1.GatewayLocal
	} else if mode != "" {
		p.mode = networkv1alpha1.GatewayShared
	}
	in.report.Source.Mode = "gateway mode " + mode
	if mode == "" {
		in.report.Source.Mode = ""
	}
}

// ovnSubnets parses a node's subnets: {"default": ["10.244.1.0/24"]}, or one text instead of the list.
func (in *inspector) ovnSubnets(node, text string) (subnets []netip.Prefix) {
	var all map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		in.problem("Node %s: annotation k8s.ovn.org/node-subnets: %v", node, err)
		return nil
	}
	var words []string
	switch v := all["default"].(type) {
	case string:
		words = []string{v}
	case []any:
		for _, one := range v {
			words = append(words, fmt.Sprint(one))
		}
	}
	return in.networksOf("Node "+node, strings.Join(words, ","))
}

// openShiftNetwork reads the networks of config.openshift.io.
func openShiftNetwork(i *item) {
	p, spec := i.in.plan, i.spec()
	i.partOf("the cluster's networks")
	i.entry.Next = "OpenShift's network operator must be stopped first, or it restores ovn-kubernetes: Weft is not tried on OpenShift"
	for _, n := range spec.list("clusterNetwork") {
		for _, cidr := range i.in.networksOf("clusterNetwork", n.text("cidr")) {
			p.addPods(podNetwork{cidr: cidr, hostPrefix: int(n.number("hostPrefix"))})
		}
	}
	if len(p.services) == 0 {
		p.services = i.in.networksOf("serviceNetwork", strings.Join(spec.texts("serviceNetwork"), ","))
	}
	spec.drop(i, "no counterpart", false, "networkType")
	spec.drop(i, "no counterpart", true, "externalIP", "serviceNodePortRange", "networkDiagnostics")
}

// ovnEgressIP translates an EgressIP of ovn-kubernetes.
func ovnEgressIP(i *item) {
	spec := i.spec()
	made := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: i.GetName()}}
	made.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("EgressIP"))
	for _, text := range spec.texts("egressIPs") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			i.cannot(fmt.Sprintf("spec.egressIPs: %q is not an address", text), "correct it, and run the command again")
			return
		}
		made.Spec.EgressIPs = append(made.Spec.EgressIPs, networkv1alpha1.EgressAddress(address.String()))
	}
	if len(made.Spec.EgressIPs) == 0 {
		i.notNeeded("it has no addresses")
		return
	}
	made.Spec.NamespaceSelector, _ = spec.selector("namespaceSelector")
	made.Spec.PodSelector, _ = spec.selector("podSelector")
	i.in.addEgressIP(i, made)
}

// addEgressIP adds an EgressIP to the manifests. Its nodes must be in mode Shared.
func (in *inspector) addEgressIP(i *item, made *networkv1alpha1.EgressIP) {
	i.becomes(fileEgress, made, "")
	in.step("label the nodes that may carry egress IPs: kubectl label node NODE %s=", networkv1alpha1.EgressAssignableLabel)
}

// ovnEgressFirewall translates an EgressFirewall of ovn-kubernetes. Its rules have an order, so all are translated or
// none.
func ovnEgressFirewall(i *item) {
	spec := i.spec()
	made := &networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: i.GetNamespace(), Name: i.GetName()}}
	made.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("EgressFirewall"))
	if i.GetName() != networkv1alpha1.EgressFirewallName {
		i.cannot("an EgressFirewall is named default", "rename it")
		return
	}
	reason := ""
	for n, r := range spec.list("egress") {
		rule := networkv1alpha1.EgressFirewallRule{Type: networkv1alpha1.EgressFirewallRuleType(r.text("type"))}
		to := r.inner("to")
		rule.To.DNSName = to.text("dnsName")
		if strings.HasPrefix(rule.To.DNSName, "*") {
			reason = fmt.Sprintf("spec.egress[%d].to.dnsName %s: the asterisk is one label in ovn-kubernetes, and one or more in Weft",
				n, rule.To.DNSName)
		}
		if text := to.text("cidrSelector"); text != "" {
			for _, cidr := range i.in.networksOf(i.entry.Object, text) {
				rule.To.CIDRSelector = cidr.String()
			}
		}
		if s, ok := to.selector("nodeSelector"); ok {
			rule.To.NodeSelector = &s
		}
		for _, port := range r.list("ports") {
			rule.Ports = append(rule.Ports, networkv1alpha1.EgressFirewallPort{
				Protocol: corev1.Protocol(port.text("protocol")), Port: int32(port.number("port"))})
		}
		made.Spec.Egress = append(made.Spec.Egress, rule)
	}
	if len(i.rest()) > 0 || len(*i.wrong) > 0 {
		i.cannot("unknown fields decide what its rules mean: "+strings.Join(i.rest(), ", "), "write the EgressFirewall by hand")
		return
	}
	i.becomes(fileEgress, made, reason)
}
