package facts_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
)

func reservations() reserved.Table {
	return reserved.Table{Ports: reserved.Defaults(), Destinations: reserved.Remotes("the Kubernetes API server", "tcp:192.0.2.1:443"),
		Nodes: map[netip.Addr]string{netip.MustParseAddr("192.0.2.1"): "n1", netip.MustParseAddr("2001:db8::1"): "n1"}}
}

// A service keeps its VIPs that are not reserved, in each family and for each kind of address.
func TestReservedAddressesAreRefused(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "thief"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, ClusterIPs: []string{"10.96.0.7", "fd00:10:96::7"},
		ExternalIPs:           []string{"192.0.2.1", "2001:db8::1", "203.0.113.7"},
		ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: []corev1.ServicePort{{Port: 10250, Protocol: corev1.ProtocolTCP, NodePort: 6641},
			{Port: 80, Protocol: corev1.ProtocolTCP, NodePort: 30080}},
	}}
	parsed, problems := facts.ParseService(service, nil, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	refused := parsed.Refuse(service, reservations())
	want := []string{"TCP 192.0.2.1:10250 is reserved for kubelet on node n1",
		"TCP [2001:db8::1]:10250 is reserved for kubelet on node n1",
		"node port TCP/6641 is reserved for the OVN northbound database"}
	if !slices.Equal(refused, want) {
		t.Errorf("refused %q, want %q", refused, want)
	}
	left := map[string]bool{}
	for _, port := range parsed.Ports {
		for _, vip := range port.VIPs {
			left[vip.String()] = true
		}
	}
	for vip, want := range map[string]bool{"192.0.2.1:10250": false, "[2001:db8::1]:10250": false,
		"0.0.0.0:6641": false, "[::]:6641": false, "169.254.169.3:6641": false,
		"10.96.0.7:10250": true, "[fd00:10:96::7]:10250": true, "203.0.113.7:10250": true, "192.0.2.1:80": true,
		"0.0.0.0:30080": true, "169.254.169.3:30080": true} {
		if left[vip] != want {
			t.Errorf("VIP %s is there: %t, want %t", vip, left[vip], want)
		}
	}
}

func TestReservedHostPortsAreRefused(t *testing.T) {
	ports := []facts.HostPort{
		{Protocol: corev1.ProtocolTCP, Port: 6641, Target: 80}, {Protocol: corev1.ProtocolUDP, Port: 6081, Target: 80},
		{Protocol: corev1.ProtocolTCP, Port: 443, Target: 80},
		{Protocol: corev1.ProtocolTCP, Port: 10248, Target: 80, Address: netip.MustParseAddr("127.0.0.1")},
		{Protocol: corev1.ProtocolTCP, Port: 30080, Target: 80},
		{Protocol: corev1.ProtocolUDP, Port: 30080, Target: 80},
		{Protocol: corev1.ProtocolTCP, Port: 30080, Target: 80, Address: netip.MustParseAddr("127.0.0.1")},
		{Protocol: corev1.ProtocolTCP, Port: 8080, Target: 80},
	}
	kept, refused := facts.RefuseHostPorts("n1", ports, reservations(), func(port facts.HostPort) string {
		return facts.NodePortHolder(port, map[string]string{"TCP/30080": "demo/web"})
	})
	if !slices.Equal(kept, ports[5:]) {
		t.Errorf("kept %+v", kept)
	}
	want := []string{"host port TCP/6641 is reserved for the OVN northbound database", "host port UDP/6081 is reserved for Geneve tunnels",
		"host port TCP/443 is reserved for the Kubernetes API server", "host port TCP/10248 is reserved for kubelet",
		"host port TCP/30080 is the node port of service demo/web"}
	if !slices.Equal(refused, want) {
		t.Errorf("refused %q, want %q", refused, want)
	}
}

// A pod has host ports only at addresses of its own node, on any of its links, and at the host's loopback address.
func TestHostPortsAtForeignAddressesAreRefused(t *testing.T) {
	table := reservations()
	table.Nodes[netip.MustParseAddr("192.0.2.2")] = "n2"
	at := func(texts ...string) (ports []facts.HostPort) {
		for _, text := range texts {
			port := facts.HostPort{Protocol: corev1.ProtocolTCP, Port: 8443, Target: 80}
			if text != "" {
				port.Address = netip.MustParseAddr(text)
			}
			ports = append(ports, port)
		}
		return ports
	}
	own := at("", "192.0.2.1", "2001:db8::1", "127.0.0.1", "127.0.0.2")
	foreign := at("10.96.0.1", "192.0.2.2", "203.0.113.7", "fd00:10:96::1", "2001:db8::2")
	kept, refused := facts.RefuseHostPorts("n1", slices.Concat(foreign, own), table, func(facts.HostPort) string { return "" })
	if !slices.Equal(kept, own) {
		t.Errorf("kept %+v, want %+v", kept, own)
	}
	var want []string
	for _, port := range foreign {
		want = append(want, "host port TCP/8443 is not served at "+port.Address.String()+", which is no address of node n1")
	}
	if !slices.Equal(refused, want) {
		t.Errorf("refused %q, want %q", refused, want)
	}
}

// The port of a Service's health checks is a node port of the Service, while the API server's other fields make it one.
func TestTheHealthCheckPortIsANodePort(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.7",
		ClusterIPs: []string{"10.96.0.7"}, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 31234,
		Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP, NodePort: 30053}}}}
	if got := facts.NodePorts(service); !slices.Equal(got, []string{"UDP/30053", "TCP/31234"}) {
		t.Errorf("node ports %q", got)
	}
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	if got := facts.NodePorts(service); !slices.Equal(got, []string{"UDP/30053"}) {
		t.Errorf("node ports without health checks %q", got)
	}
}

// No Service may have an address of a pod, a gateway router or a load balancer's own. The operator and the agents agree.
func TestReservedNetworks(t *testing.T) {
	cn := &networkv1alpha1.ClusterNetwork{Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16", HostPrefix: 24}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}, JoinSubnet: []networkv1alpha1.CIDR{"100.64.0.0/16"}}}
	plan, err := facts.ParseClusterNetwork(cn)
	if err != nil {
		t.Fatal(err)
	}
	of := facts.NodeReserved(networkv1alpha1.NodeNetworkSpec{ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16", "?"},
		JoinAddresses: []networkv1alpha1.InterfaceAddress{"100.64.0.2/16"}})
	if got := fmt.Sprint(plan.Reserved()); got != "[10.244.0.0/16 100.64.0.0/16 fd69::4/127]" || got != fmt.Sprint(of) {
		t.Errorf("the operator reserves %s, an agent %s", got, of)
	}
}
