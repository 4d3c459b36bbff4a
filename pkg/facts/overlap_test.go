package facts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func nodeAt(name string, addresses ...string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return node
}

func networkOf(clusters ...networkv1alpha1.CIDR) *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{}
	for _, cidr := range clusters {
		cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, networkv1alpha1.ClusterNetworkEntry{CIDR: cidr})
	}
	cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"}
	cn.Spec.JoinSubnet = []networkv1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"}
	return cn
}

// inForce sets the states of networks. The others are held.
func inForce(cn *networkv1alpha1.ClusterNetwork, networks ...networkv1alpha1.CIDR) {
	for _, cidr := range networks {
		cn.Status.Networks = append(cn.Status.Networks, networkv1alpha1.NetworkStatus{CIDR: cidr, State: networkv1alpha1.NetworkInForce})
	}
}

// judged returns the result of JudgeNetworks as text: the networks in force, and the held networks with the reason.
func judged(t *testing.T, cn *networkv1alpha1.ClusterNetwork, nodes []corev1.Node,
	networks []networkv1alpha1.NodeNetwork, apiServers ...discoveryv1.EndpointSlice) string {
	t.Helper()
	plan, err := ParseClusterNetwork(cn)
	if err != nil {
		t.Fatal(err)
	}
	cn.Status.Networks = JudgeNetworks(cn, plan, nodes, networks, HostAddresses(nodes, networks, apiServers))
	var texts []string
	for _, s := range cn.Status.Networks {
		texts = append(texts, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", s.CIDR, s.State, s.Message), ": "))
	}
	return strings.Join(texts, "\n")
}

func TestNetworksAreJudged(t *testing.T) {
	const (
		pods, more, pods6, services, join = "10.244.0.0/16", "10.245.0.0/16", "FD00:10:244::/48", "10.96.0.0/16", "100.64.0.0/16"
		all                               = "10.244.0.0/16 InForce\n10.96.0.0/16 InForce\nfd00:10:96::/112 InForce\n100.64.0.0/16 InForce"
	)
	used := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec: networkv1alpha1.NodeNetworkSpec{PodSubnets: []networkv1alpha1.CIDR{"10.244.0.0/24"},
			ClusterSubnets: []networkv1alpha1.CIDR{pods},
			ServiceSubnets: []networkv1alpha1.CIDR{services, "fd00:10:96::/112"},
			JoinAddresses:  []networkv1alpha1.InterfaceAddress{"100.64.0.2/16"}}}
	linked := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: networkv1alpha1.NodeNetworkStatus{Gateway: &networkv1alpha1.NodeGatewayStatus{
			Addresses: []networkv1alpha1.InterfaceAddress{"10.245.0.7/8"}, NextHops: []networkv1alpha1.IP{"100.64.0.1"}}}}
	held := func(why string) string {
		texts := strings.Split(strings.ReplaceAll(all, "InForce", "Held: waits: "+why), "\n")
		for i, text := range texts {
			if field, network, _ := strings.Cut(strings.Split(why, " contains ")[0], " "); field != "" &&
				strings.HasPrefix(text, network+" ") {
				texts[i] = strings.Replace(text, "waits: ", "", 1)
			}
		}
		return strings.Join(texts, "\n")
	}
	for name, test := range map[string]struct {
		clusters   []networkv1alpha1.CIDR
		before     []networkv1alpha1.CIDR // in force
		nodes      []corev1.Node
		networks   []networkv1alpha1.NodeNetwork
		apiServers string
		want       string
	}{
		"no node": {clusters: []networkv1alpha1.CIDR{pods}},
		"no node any more": {clusters: []networkv1alpha1.CIDR{pods},
			before: []networkv1alpha1.CIDR{pods, services, "fd00:10:96::/112", join}, want: all},
		"no node any more, and an appended entry": {clusters: []networkv1alpha1.CIDR{pods, more},
			before: []networkv1alpha1.CIDR{pods, services, "fd00:10:96::/112", join}},
		"nodes without address": {clusters: []networkv1alpha1.CIDR{pods}, nodes: []corev1.Node{nodeAt("n1")}, want: all},
		"nodes elsewhere": {clusters: []networkv1alpha1.CIDR{pods},
			nodes: []corev1.Node{nodeAt("n1", "192.0.2.1", "2001:db8::1")}, want: all},
		"a node in clusterNetwork": {clusters: []networkv1alpha1.CIDR{pods},
			nodes: []corev1.Node{nodeAt("n1", "192.0.2.1"), nodeAt("n2", "10.244.3.4")},
			want:  held("clusterNetwork 10.244.0.0/16 contains 10.244.3.4, an address of node n2")},
		"a node in serviceNetwork": {clusters: []networkv1alpha1.CIDR{pods}, nodes: []corev1.Node{nodeAt("n1", "fd00:10:96::5")},
			want: held("serviceNetwork fd00:10:96::/112 contains fd00:10:96::5, an address of node n1")},
		"a node in joinSubnet": {clusters: []networkv1alpha1.CIDR{pods}, nodes: []corev1.Node{nodeAt("n1", "100.64.0.5")},
			want: held("joinSubnet 100.64.0.0/16 contains 100.64.0.5, an address of node n1")},
		"a node in a joinSubnet that is not used": {clusters: []networkv1alpha1.CIDR{pods},
			nodes: []corev1.Node{nodeAt("n1", "fd98::5")}, want: all},
		"an API server in clusterNetwork": {clusters: []networkv1alpha1.CIDR{pods},
			nodes: []corev1.Node{nodeAt("n1", "192.0.2.1")}, apiServers: "10.244.0.9",
			want: held("clusterNetwork 10.244.0.0/16 contains 10.244.0.9, an address of the API server")},
		"a next hop in joinSubnet": {clusters: []networkv1alpha1.CIDR{pods}, nodes: []corev1.Node{nodeAt("n1")},
			networks: []networkv1alpha1.NodeNetwork{linked},
			want:     held("joinSubnet 100.64.0.0/16 contains 100.64.0.1, the next hop of node n1")},
		"a link of a node that is gone": {clusters: []networkv1alpha1.CIDR{pods}, nodes: []corev1.Node{nodeAt("n2")},
			networks: []networkv1alpha1.NodeNetwork{linked}, want: all},
		"in force before": {clusters: []networkv1alpha1.CIDR{pods},
			before: []networkv1alpha1.CIDR{pods, services, "fd00:10:96::/112", join},
			nodes:  []corev1.Node{nodeAt("n2", "10.244.3.4")}, want: all},
		"in use": {clusters: []networkv1alpha1.CIDR{pods}, networks: []networkv1alpha1.NodeNetwork{used},
			nodes: []corev1.Node{nodeAt("n1", "10.244.3.4")}, want: all},
		"as the spec spells it": {clusters: []networkv1alpha1.CIDR{pods6}, nodes: []corev1.Node{nodeAt("n1")},
			want: "FD00:10:244::/48 InForce\n10.96.0.0/16 InForce\nfd00:10:96::/112 InForce\nfd98::/64 InForce"},
		"an appended entry, and one behind it": {clusters: []networkv1alpha1.CIDR{pods, more, "10.246.0.0/16"},
			before: []networkv1alpha1.CIDR{pods}, networks: []networkv1alpha1.NodeNetwork{linked, used},
			nodes: []corev1.Node{nodeAt("n1", "192.0.2.1")},
			want: strings.Replace(all, "\n",
				"\n10.245.0.0/16 Held: clusterNetwork 10.245.0.0/16 contains 10.245.0.7, an address of the link outside of node n1\n"+
					"10.246.0.0/16 Held: waits: clusterNetwork 10.245.0.0/16 contains 10.245.0.7, an address of "+
					"the link outside of node n1\n", 1)},
		"an appended entry elsewhere": {clusters: []networkv1alpha1.CIDR{pods, more},
			before: []networkv1alpha1.CIDR{pods}, nodes: []corev1.Node{nodeAt("n1", "10.244.3.4")},
			want: strings.Replace(all, "\n", "\n10.245.0.0/16 InForce\n", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			cn := networkOf(test.clusters...)
			inForce(cn, test.before...)
			var apiServers []discoveryv1.EndpointSlice
			if test.apiServers != "" {
				apiServers = []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{test.apiServers}}}}}
			}
			if got := judged(t, cn, test.nodes, test.networks, apiServers...); got != test.want {
				t.Errorf("judged:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// A node may use the networks in force. Before the networks are judged, no node gets a network, and a complete node
// keeps its networks.
func TestPlanIsOfWhatIsInForce(t *testing.T) {
	cn := networkOf("10.244.0.0/16", "10.245.0.0/16")
	plan, err := PlanInForce(cn)
	if err != nil || !plan.Pending || len(plan.Clusters) != 2 {
		t.Fatalf("before it is judged the plan is %+v, %v", plan, err)
	}
	have := networkv1alpha1.NodeNetworkSpec{NodeID: 1, PodSubnets: []networkv1alpha1.CIDR{"10.244.0.0/24"},
		ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16"},
		ServiceSubnets: []networkv1alpha1.CIDR{"10.96.0.0/16"}, JoinAddresses: []networkv1alpha1.InterfaceAddress{"100.64.0.2/16"}}
	want, err := NodeSpec(have, plan, nil, Settings{MTU: 1400})
	if err != nil || want.MTU != 1400 || !slices.Equal(want.ClusterSubnets, have.ClusterSubnets) ||
		!slices.Equal(want.ServiceSubnets, have.ServiceSubnets) || !slices.Equal(want.JoinAddresses, have.JoinAddresses) {
		t.Errorf("before it is judged a node gets %+v, %v", want, err)
	}
	inForce(cn, "10.244.0.0/16", "10.96.0.0/16", "fd00:10:96::/112", "100.64.0.0/16")
	if plan, err = PlanInForce(cn); err != nil || plan.Pending || len(plan.Clusters) != 1 || len(plan.Services) != 2 ||
		len(plan.Join) != 1 {
		t.Errorf("one entry is in force, and the plan is %+v, %v", plan, err)
	}
	cn.Status.Networks = []networkv1alpha1.NetworkStatus{{CIDR: "10.244.0.0/16", State: networkv1alpha1.NetworkHeld,
		Message: "waits: for another"}}
	var held *HeldError
	if _, err = PlanInForce(cn); !errors.As(err, &held) || held.Message != "for another" {
		t.Errorf("nothing is in force, and the error is %v", err)
	}
}

func TestOverlapOfAGateway(t *testing.T) {
	for name, test := range map[string]struct {
		address networkv1alpha1.InterfaceAddress
		hop     networkv1alpha1.IP
		want    string
	}{
		"elsewhere": {"192.0.2.11/24", "192.0.2.1", ""},
		"around":    {"10.1.2.3/8", "10.0.0.1", ""},
		"pods": {"10.244.3.4/16", "192.0.2.1",
			"clusterNetwork 10.244.0.0/16 contains 10.244.3.4, an address of the link outside of node n1"},
		"services": {"192.0.2.11/24", "fd00:10:96::1", "serviceNetwork fd00:10:96::/112 contains fd00:10:96::1, the next hop of node n1"},
		"join": {"100.64.9.9/24", "192.0.2.1",
			"joinSubnet 100.64.0.0/16 contains 100.64.9.9, an address of the link outside of node n1"},
	} {
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		nn.Spec.ClusterSubnets, nn.Spec.ServiceSubnets = []networkv1alpha1.CIDR{"10.244.0.0/16"},
			[]networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"}
		nn.Spec.JoinAddresses = []networkv1alpha1.InterfaceAddress{"100.64.0.2/16"}
		nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Addresses: []networkv1alpha1.InterfaceAddress{test.address},
			NextHops: []networkv1alpha1.IP{test.hop}}
		if got := OverlapOfGateway(nn); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
