package topology_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// actions lists the directions and actions of a policy's ACLs, without the ACLs that pass to its tier.
func actions(u unit.Unit) (all []string) {
	for _, row := range u.Rows {
		if acl, ok := row.Model.(*nbdb.ACL); ok && acl.Action != nbdb.ACLActionPass {
			all = append(all, acl.Direction+" "+acl.Action)
		}
	}
	slices.Sort(all)
	return all
}

// Any CustomResourceDefinition may have admitted a policy. What the API server refuses in a NetworkPolicy isolates.
func TestInvalidMultiNetworkPoliciesIsolate(t *testing.T) {
	for name, c := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		want string
		acls []string
	}{
		"policyTypes": {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"ingress"}},
			`spec.policyTypes[0]: "ingress" is not Ingress or Egress`,
			[]string{"from-lport drop", "to-lport allow-related", "to-lport drop"}}, // one tracks connections
		"podSelector": {networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"": "x"}}},
			"spec.podSelector", []string{"to-lport allow-related", "to-lport drop"}},
		"an ipBlock with a selector": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}, IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}}}}},
			"spec.ingress[0].from[0].ipBlock: a peer with it has neither", []string{"to-lport allow-related", "to-lport drop"}},
		"endPort without port": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			Ports: []networkingv1.NetworkPolicyPort{{EndPort: new(int32(80))}}}}},
			"spec.ingress[0].ports[0].endPort", []string{"to-lport allow-related", "to-lport drop"}},
		"endPort before port": {networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(90)), EndPort: new(int32(80))}}}}},
			"spec.egress[0].ports[0].port: 90 to 80",
			[]string{"from-lport drop", "to-lport allow-related", "to-lport drop"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p"}, Spec: c.spec}
			read, err := facts.ParseMultiNetworkPolicy(o, []string{"blue"}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if have := actions(topology.MultiNetworkPolicyUnit(read)); !slices.Equal(have, c.acls) {
				t.Errorf("ACLs %q, want %q", have, c.acls)
			}
		})
	}
}

// A policy of no Network of Weft has no rows, and selectors of two networks are never the same.
func TestNetworksOfMultiNetworkPolicies(t *testing.T) {
	o := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p"}}
	for _, on := range [][]string{nil, {"blue"}, {"blue", "green"}} {
		read, err := facts.ParseMultiNetworkPolicy(o, on, nil)
		if err != nil {
			t.Fatal(err)
		}
		selectors := topology.MultiNetworkPolicySelectors(read)
		if u := topology.MultiNetworkPolicyUnit(read); len(selectors) != len(on) || u.Empty() != (len(on) == 0) {
			t.Errorf("%v: selectors %v, unit %v", on, selectors, actions(u))
		}
		for _, selector := range selectors {
			if selector.Matches(facts.SelectedPod{Namespace: "demo"}) ||
				!selector.Matches(facts.SelectedPod{Namespace: "demo", Network: selector.Network}) {
				t.Errorf("%s selects a port of another network, or none of its own", selector)
			}
		}
	}
}

// The unit that keeps a pod's ports is that from which they were made.
func TestKeptPorts(t *testing.T) {
	blue := networkObject(networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.2.0.0/16"}}})
	blue.Name = "blue"
	group := topology.PodGroupKey(facts.AllPods().On("green"))
	var ports []topology.PodPort
	for name, o := range map[string]*networkv1alpha1.Network{"net1": blue, "net2": networkObject(layer3())} {
		n, err := facts.ParseNetwork(o)
		if err != nil {
			t.Fatal(err)
		}
		port := topology.PodPort{Namespace: "demo", Name: "web", UID: "uid", Node: "n3", Chassis: "c3", Network: n, Interface: name,
			Addresses: []netip.Prefix{netip.PrefixFrom(n.Subnets[0].CIDR.Addr().Next(), 16)}, MAC: topology.NetworkMAC(name),
			Bandwidth: networkv1alpha1.Bandwidth{Ingress: 1_000_000, Egress: 1_000_000}}
		if n.Name == "green" {
			port.Selected = []unit.Key{group, topology.PodSetKey(facts.AllPods().On("green"))}
		}
		ports = append(ports, port)
	}
	made := topology.PodPortsUnit("demo", "web", ports)
	kept := topology.KeptPortsUnit("demo", "web", "n3", made.Rows, func(network string) []unit.Key {
		if network == "green" {
			return []unit.Key{group, topology.PodSetKey(facts.AllPods().On("green"))}
		}
		return nil
	})
	if made, kept := render([]unit.Unit{made}), render([]unit.Unit{kept}); sorted(made) != sorted(kept) {
		t.Errorf("made:\n%s\nkept:\n%s", made, kept)
	}
	if len(made.Members) != len(kept.Members) {
		t.Errorf("%d elements were made, %d kept", len(made.Members), len(kept.Members))
	}
}

func sorted(text string) string {
	all := strings.Split(text, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}
