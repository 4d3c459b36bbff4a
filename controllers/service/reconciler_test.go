package service

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var web = topology.ServiceKey("demo", "web")

// aService is the service demo/web with the TCP port 80 on these cluster IPs.
func aService(clusterIPs []string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", Generation: 7}}
	s.Spec.ClusterIPs = clusterIPs
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	for _, c := range change {
		c(s)
	}
	return s
}

// theNetworks is a ClusterNetwork with the service network 10.96.0.0/16.
func theNetworks() *networkv1alpha1.ClusterNetwork {
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	cn.Spec.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16", HostPrefix: 24}}
	cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{"10.96.0.0/16"}
	return cn
}

// aSlice lists endpoints of demo/web, whose port "http" is 8080. An endpoint is "<address>" or "<address>@<node>".
func aSlice(name string, endpoints ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for _, text := range endpoints {
		address, node, placed := strings.Cut(text, "@")
		endpoint := discoveryv1.Endpoint{Addresses: []string{address}}
		if placed {
			endpoint.NodeName = &node
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	return slice
}

// udpSlice is aSlice with a UDP port.
func udpSlice(name string, endpoints ...string) *discoveryv1.EndpointSlice {
	slice := aSlice(name, endpoints...)
	slice.Ports[0].Protocol = new(corev1.ProtocolUDP)
	return slice
}

// aNode is a node with a chassis.
func aNode(name, address string) []client.Object {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	nn.Status.Chassis = "chassis-" + name
	return []client.Object{node, nn}
}

// balancer is the text of a load balancer of demo/web with these vips, and of its place in a group or at a node.
func balancer(protocol, scope, vips string) []string { return affine(protocol, scope, vips, 0) }

// affine is balancer with session affinity, with its timeout in seconds.
func affine(protocol, scope, vips string, timeout int) []string {
	affinity, selection := "", ""
	if timeout > 0 {
		affinity, selection = fmt.Sprintf("affinity_timeout:%d ", timeout), " selection_fields=[ip_src]"
	}
	parents := map[string]string{"cluster": "Load_Balancer_Group clusterLBGroup",
		"node_switch": "Load_Balancer_Group clusterSwitchLBGroup", "node_router": "Load_Balancer_Group clusterRouterLBGroup"}
	optional := ""
	reach, template, isTemplate := strings.Cut(scope, "_template_")
	if on, node, ofNode := strings.Cut(scope, "_of_"); ofNode {
		reach, optional = on, " (optional)"
		parents = map[string]string{"cluster": "Load_Balancer_Group node/" + node,
			"node_switch": "Logical_Switch " + unit.UUID(nbdb.LogicalSwitchTable, node),
			"node_router": "Logical_Router " + unit.UUID(nbdb.LogicalRouterTable, "GR_"+node)}
	}
	family, end := "", ""
	if isTemplate {
		family, end = "address-family:"+strings.ToLower(template)+" ", " template:true"
	}
	flush := ""
	if protocol == "UDP" {
		flush = "ct_flush:true "
	}
	name := fmt.Sprintf("Service_demo/web_%s_%s", protocol, scope)
	row := fmt.Sprintf("LoadBalancer %s external_ids=map[k8s.ovn.org/kind:Service k8s.ovn.org/owner:demo/web] "+
		"options=map[%s%s%sevent:false hairpin_snat_ip:169.254.169.5 fd69::5 neighbor_responder:none reject:true "+
		"skip_snat:%t%s] protocol=%s%s vips=map[%s]",
		name, family, affinity, flush, reach == "node_router", end, strings.ToLower(protocol), selection, vips)
	return []string{row, fmt.Sprintf("%s: load_balancer += %s%s", parents[reach], name, optional)}
}

// applied is the unit of demo/web with these lines.
func applied(lines ...[]string) map[unit.Key][]string {
	return map[unit.Key][]string{web: slices.Concat(lines...)}
}

var (
	v4, v6 = []string{"10.96.0.10"}, []string{"fd02::a"}
	dual   = []string{"10.96.0.10", "fd02::a"}

	refuse4 = []string{"Address_Set cluster_ips_IPv4: addresses += 10.96.0.10"}
	refuse6 = []string{"Address_Set cluster_ips_IPv6: addresses += fd02::a"}
)

// dropped is the text of an ACL of the join switch that drops packets to a cluster IP on nodes without an endpoint.
func dropped(match string) []string {
	return []string{fmt.Sprintf("ACL %s action=drop direction=from-lport external_ids=map[weft.dev/rule:no endpoint on the client's node] "+
		"match=%s priority=1001", match, match), "Logical_Switch join: acls += " + match}
}

// onNode keeps traffic to the cluster IPs on its node.
func onNode(s *corev1.Service) {
	s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
}

func TestReconcile(t *testing.T) {
	loadBalancer := func(addresses ...string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			for _, a := range addresses {
				s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
			}
		}
	}
	createdAt := func(second int64) func(*corev1.Service) {
		return func(s *corev1.Service) { s.CreationTimestamp = metav1.Unix(second, 0) }
	}
	external := func(address string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.ExternalIPs = []string{address} }
	}
	natPool := func(created int64, inForce ...string) *networkv1alpha1.IPPool {
		p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: metav1.Unix(created, 0)}}
		p.Spec.Location, p.Spec.Ranges = networkv1alpha1.LocationNAT, []networkv1alpha1.IPPoolRange{{Addresses: "192.0.2.70-192.0.2.79"}}
		p.Status.Ranges = inForce
		return p
	}
	egress := func(name string, change func(*networkv1alpha1.EgressIPStatus)) *networkv1alpha1.EgressIP {
		e := &networkv1alpha1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(300, 0)}}
		e.Spec.EgressIPs = []networkv1alpha1.EgressAddress{"192.0.2.71"}
		change(&e.Status)
		return e
	}
	carried := func(s *networkv1alpha1.EgressIPStatus) {
		s.Items = []networkv1alpha1.EgressIPStatusItem{{EgressIP: "192.0.2.71", Node: "n1"}}
	}
	held := func(s *networkv1alpha1.EgressIPStatus) { s.Held = []networkv1alpha1.IP{"192.0.2.71"} }
	former := func(s *networkv1alpha1.EgressIPStatus) { s.Former = []networkv1alpha1.IP{"192.0.2.71"} }
	notReady, ending := aSlice("web-1", "10.244.0.3", "10.244.0.4", "10.244.0.5"), aSlice("web-1", "10.244.0.3")
	notReady.Endpoints[1].Conditions.Ready = new(false)
	ending.Endpoints[0].Conditions = discoveryv1.EndpointConditions{
		Ready: new(false), Serving: new(true), Terminating: new(true),
	}
	foreign := aSlice("other", "10.244.0.9")
	foreign.Labels[discoveryv1.LabelServiceName] = "other"
	inServices := "TCP 10.96.0.12:80 is reserved for the cluster's own network 10.96.0.0/16; " +
		"TCP 10.96.0.11:80 belongs to service kube-system/dns"
	serverOfNode := "TCP 192.0.2.1:6443 is reserved for the Kubernetes API server on node n1"
	local := names.BackendsVariable("demo", "web", "TCP", 80, "IPv4", "local")
	rejected := &ovndb.RejectedError{Unit: web, Err: errors.New("constraint violation")}

	refusedPool := natPool(300, "192.0.2.71")
	refusedPool.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	type test struct {
		objects []client.Object
		fails   error // of the database
		want    kindtest.Outcome
		// condition, if set, is the expected ServiceAddressesReady: "<status> <reason>: <message>".
		condition string
	}
	// refused is the test of an external IP that another object has, kept of an external IP that no other object has.
	refused := func(by string, objects ...client.Object) test {
		message := "TCP 192.0.2.71:80 is reserved for " + by
		return test{
			objects: append(objects, aService(v4, external("192.0.2.71"), createdAt(200))),
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: " + message},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: " + message,
		}
	}
	kept := func(objects ...client.Object) test {
		return test{
			objects: append(objects, aService(v4, external("192.0.2.71"), createdAt(200))),
			want:    kindtest.Outcome{Units: applied(balancer("TCP", "cluster", "10.96.0.10:80: 192.0.2.71:80:"), refuse4)},
		}
	}
	for name, c := range map[string]test{
		"IPv4": {
			objects: []client.Object{aService(v4),
				aSlice("web-2", "10.244.1.3", "10.244.0.3"), aSlice("web-1", "10.244.0.3"), foreign},
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080,10.244.1.3:8080"), refuse4)},
		},
		"IPv6": {
			objects: []client.Object{aService(v6), aSlice("web-1", "fd01::3", "10.244.0.3")},
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "[fd02::a]:80:[fd01::3]:8080"), refuse6)},
		},
		"dual stack": {
			objects: []client.Object{aService(dual), aSlice("web-1", "10.244.0.3"), aSlice("web-2", "fd01::3")},
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080 [fd02::a]:80:[fd01::3]:8080"), refuse4, refuse6)},
		},
		"without endpoints the load balancer refuses connections": {
			objects: []client.Object{aService(v4)},
			want:    kindtest.Outcome{Units: applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4)},
		},
		"an endpoint that is not ready gets no connections": {
			objects: []client.Object{aService(v4), notReady},
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080,10.244.0.5:8080"), refuse4)},
		},
		"an ending endpoint serves while there is no other": {
			objects: []client.Object{aService(v4), ending},
			want:    kindtest.Outcome{Units: applied(balancer("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080"), refuse4)},
		},
		"a UDP port": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
			})},
			want: kindtest.Outcome{Units: applied(balancer("UDP", "cluster", "10.96.0.10:80:"), refuse4)},
		},
		"session affinity": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			})},
			want: kindtest.Outcome{Units: applied(
				affine("TCP", "cluster", "10.96.0.10:80:", 10800), refuse4)},
		},
		"session affinity at node ports, with a timeout": {
			objects: slices.Concat(aNode("n1", "192.0.2.1"), aNode("n2", "2001:db8::2"), []client.Object{aService(dual, func(s *corev1.Service) {
				s.Spec.SessionAffinity, s.Spec.Ports[0].NodePort = corev1.ServiceAffinityClientIP, 30080
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(86400))}}
			}), aSlice("web-1", "10.244.0.3"), aSlice("web-2", "fd01::3")}),
			want: kindtest.Outcome{Units: applied(
				affine("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080 [fd02::a]:80:[fd01::3]:8080", 65535),
				affine("TCP", "cluster_of_n1", "192.0.2.1:30080:10.244.0.3:8080", 65535),
				affine("TCP", "cluster_of_n2", "[2001:db8::2]:30080:[fd01::3]:8080", 65535), refuse4, refuse6)},
		},
		"session affinity on the node": {
			objects: slices.Concat(aNode("n1", "192.0.2.1"), aNode("n2", "192.0.2.2"), []client.Object{
				aService(v4, loadBalancer("192.0.2.80"), func(s *corev1.Service) {
					s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
					s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
					s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
				}), aSlice("web-1", "10.244.0.3@n1")}),
			want: kindtest.Outcome{Units: applied(
				affine("TCP", "cluster_of_n1", "10.96.0.10:80:10.244.0.3:8080", 10800),
				affine("TCP", "node_router_of_n1", "192.0.2.80:80:10.244.0.3:8080", 10800),
				affine("TCP", "node_router_of_n2", "192.0.2.80:80:169.254.169.4:1", 10800),
				affine("TCP", "node_switch", "192.0.2.80:80:10.244.0.3:8080", 10800),
				dropped("ip4.dst == 10.96.0.10 && tcp.dst == 80"), refuse4)},
		},
		"traffic within the cluster stays on its node": {
			objects: slices.Concat(aNode("n1", "192.0.2.1"), aNode("n2", "192.0.2.2"), aNode("n3", "192.0.2.3"), []client.Object{
				aService(dual, onNode, func(s *corev1.Service) {
					s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP})
				}), aSlice("web-1", "10.244.0.3@n1", "10.244.0.4@n1", "10.244.1.3@n2", "10.244.9.3@absent", "10.244.9.4"),
				aSlice("web-2", "fd01::3@n2")}),
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:443: [fd02::a]:443:"),
				balancer("TCP", "cluster_of_n1", "10.96.0.10:80:10.244.0.3:8080,10.244.0.4:8080"),
				balancer("TCP", "cluster_of_n2", "10.96.0.10:80:10.244.1.3:8080 [fd02::a]:80:[fd01::3]:8080"),
				dropped("ip4.dst == 10.96.0.10 && tcp.dst == {80, 443}"), dropped("ip6.dst == fd02::a && tcp.dst == {80, 443}"),
				refuse4, refuse6)},
		},
		"UDP within the cluster stays on its node": {
			objects: slices.Concat(aNode("n1", "192.0.2.1"), aNode("n2", "192.0.2.2"), []client.Object{
				aService(v4, onNode, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), udpSlice("web-1", "10.244.0.3@n1")}),
			want: kindtest.Outcome{Units: applied(
				balancer("UDP", "cluster_of_n1", "10.96.0.10:80:10.244.0.3:8080"),
				balancer("UDP", "cluster_of_n2", "10.96.0.10:80:169.254.169.4:1"), refuse4)},
		},
		"traffic within the cluster stays on its node, without endpoints": {
			objects: slices.Concat(aNode("n1", "192.0.2.1"), []client.Object{aService(v4, onNode)}),
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80:"), dropped("ip4.dst == 10.96.0.10 && tcp.dst == 80"), refuse4)},
		},
		"the load balancer's address": {
			objects: []client.Object{aService(dual, loadBalancer("192.0.2.80", "2001:db8::80"))},
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80: 192.0.2.80:80: [2001:db8::80]:80: [fd02::a]:80:"), refuse4, refuse6)},
		},
		"addresses of a load balancer that belong to every host, or have another family": {
			objects: []client.Object{aService(v4, loadBalancer("127.0.0.1", "0.0.0.0", "2001:db8::80", "192.0.2.080"))},
			want: kindtest.Outcome{
				Units: applied(balancer("TCP", "cluster", "10.96.0.10:80: 192.0.2.80:80:"), refuse4),
				Events: []string{"Warning InvalidService Service demo/web: status.loadBalancer.ingress: 127.0.0.1 belongs to every host; " +
					"status.loadBalancer.ingress: 0.0.0.0 belongs to every host; " +
					"status.loadBalancer.ingress: 2001:db8::80 has another family than the service's cluster IPs"},
			},
		},
		"source ranges that cannot be parsed": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{" 203.0.113.0/24", "everybody"}
			})},
			want: kindtest.Outcome{
				Units: applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{`Warning InvalidService Service demo/web: spec.loadBalancerSourceRanges: "everybody" is not a CIDR, ` +
					"and admits nobody"},
			},
		},
		"a node port in both families": {
			objects: []client.Object{aService(dual, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 })},
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80: [fd02::a]:80:"),
				balancer("TCP", "cluster_template_IPv4", "^NODEIP_IPv4_0:30080:"),
				balancer("TCP", "cluster_template_IPv6", "^NODEIP_IPv6_0:30080:"),
				refuse4, refuse6)},
		},
		"external traffic stays on its node": {
			objects: slices.Concat(aNode("n1", "192.0.2.1"), aNode("n2", "192.0.2.2"), []client.Object{
				aService(v4, loadBalancer("192.0.2.80"), func(s *corev1.Service) {
					s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				}), aSlice("web-1", "10.244.0.3@n1", "10.244.1.3@n2")}),
			want: kindtest.Outcome{Units: applied(
				balancer("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080,10.244.1.3:8080"),
				balancer("TCP", "node_switch", "192.0.2.80:80:10.244.0.3:8080,10.244.1.3:8080"),
				balancer("TCP", "node_router_template_IPv4", "192.0.2.80:80:^"+local),
				[]string{"Chassis_Template_Var chassis-n1: variables += " + local + "=10.244.0.3:8080"},
				[]string{"Chassis_Template_Var chassis-n2: variables += " + local + "=10.244.1.3:8080"}, refuse4)},
		},
		"a headless service": {
			objects: []client.Object{aService([]string{corev1.ClusterIPNone}), aSlice("web-1", "10.244.0.3")},
			want:    kindtest.Outcome{Units: applied()},
		},
		"another proxy's service": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "x"}
			})},
			want: kindtest.Outcome{Units: applied()},
		},
		"a service that does not exist": {
			want: kindtest.Outcome{Units: applied()},
		},
		"an endpoint that is not an IP address": {
			objects: []client.Object{aService(v4), aSlice("web-1", "10.244.0.3", "bad")},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:10.244.0.3:8080"), refuse4),
				Events: []string{`Warning InvalidService Service demo/web: EndpointSlice web-1: "bad" is not an IP address`},
			},
		},
		"an external address that is not an IP address": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"bad", "192.0.2.80"}
			})},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80: 192.0.2.80:80:"), refuse4),
				Events: []string{`Warning InvalidService Service demo/web: spec.externalIPs: "bad" is not an IP address`},
			},
		},
		"an address of an older service": {
			objects: []client.Object{
				aService(v4, func(s *corev1.Service) {
					s.Spec.ExternalIPs, s.CreationTimestamp = []string{"192.0.2.80"}, metav1.Unix(200, 0)
				}),
				aService([]string{"10.96.0.11"}, func(s *corev1.Service) {
					s.Name, s.Spec.ExternalIPs, s.CreationTimestamp = "older", []string{"192.0.2.80"}, metav1.Unix(100, 0)
				}),
			},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{"Warning AddressConflict Service demo/web: TCP 192.0.2.80:80 belongs to service demo/older"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False AddressConflict: TCP 192.0.2.80:80 belongs to service demo/older",
		},
		"a reserved node port": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Spec.Ports[0].NodePort = 10250
			})},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: node port TCP/10250 is reserved for kubelet"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: node port TCP/10250 is reserved for kubelet",
		},
		"a node's address with a reserved port": {
			objects: append(aNode("n1", "192.0.2.1"), aService(v4, func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"192.0.2.1"}
				s.Spec.Ports[0].Port = 6443
			})),
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:6443:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: " + serverOfNode},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: " + serverOfNode,
		},
		"another address of a node's host with a reserved port": {
			objects: append(withHostAddress(aNode("n1", "192.0.2.1"), "192.0.2.99"), aService(v4, func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"192.0.2.99"}
				s.Spec.Ports[0].Port = 10250
			})),
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:10250:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: TCP 192.0.2.99:10250 is reserved for kubelet on node n1"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: TCP 192.0.2.99:10250 is reserved for kubelet on node n1",
		},
		"the address of a BGPPeer at its port": {
			objects: []client.Object{&networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "tor"},
				Spec: networkv1alpha1.BGPPeerSpec{PeerAddress: "192.0.2.254"}}, aService(v4, func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"192.0.2.254"}
				s.Spec.Ports[0].Port = 179
			})},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:179:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: TCP 192.0.2.254:179 is reserved for BGPPeer tor"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: TCP 192.0.2.254:179 is reserved for BGPPeer tor",
		},
		"the address of a router that an ExternalRoute watches": {
			objects: []client.Object{&networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "out"},
				Spec: networkv1alpha1.ExternalRouteSpec{NextHops: networkv1alpha1.ExternalNextHops{
					Static: []networkv1alpha1.StaticNextHop{{Address: "192.0.2.253", BFD: true}}}}}, aService(v4, func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"192.0.2.253"}
				s.Spec.Ports[0].Port, s.Spec.Ports[0].Protocol = 3784, corev1.ProtocolUDP
			})},
			want: kindtest.Outcome{
				Units:  applied(balancer("UDP", "cluster", "10.96.0.10:3784:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: UDP 192.0.2.253:3784 is reserved for BFD of ExternalRoute out"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: UDP 192.0.2.253:3784 is reserved for BFD of ExternalRoute out",
		},
		"another service's cluster IP at another port, and a free one": {
			objects: []client.Object{theNetworks(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"},
				Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.11"}, Ports: []corev1.ServicePort{{Port: 53}}}},
				aService(v4, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"10.96.0.11", "10.96.0.12"} })},
			want: kindtest.Outcome{
				Units: applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{"Warning AddressConflict Service demo/web: TCP 10.96.0.11:80 belongs to service kube-system/dns",
					"Warning ReservedDestination Service demo/web: " + inServices},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: " + inServices,
		},
		"an external IP that a younger NAT pool has in force": refused("IPPool edge", natPool(300, "192.0.2.70-192.0.2.72")),
		"an external IP that a refused NAT pool has in force": refused("IPPool edge", refusedPool),
		"an external IP that an older NAT pool claims":        kept(natPool(100)),
		"an external IP that a NAT pool had before":           kept(natPool(100, "192.0.2.72")),
		"an external IP that an EgressIP was granted":         refused("EgressIP out", egress("out", carried)),
		"an external IP that no node carries for a moment":    refused("EgressIP out", egress("out", held)),
		"an external IP that an EgressIP keeps":               refused("EgressIP out", egress("out", former)),
		"an external IP of two EgressIPs":                     refused("EgressIP a", egress("out", held), egress("a", carried)),
		"an external IP that an EgressIP requests":            kept(egress("out", func(*networkv1alpha1.EgressIPStatus) {})),
		"addresses that a NAT pool has in force": {
			objects: []client.Object{natPool(100, "192.0.2.70-192.0.2.79"), aService(v4, loadBalancer("192.0.2.71", "192.0.2.81"), createdAt(200))},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80: 192.0.2.81:80:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: TCP 192.0.2.71:80 is reserved for IPPool edge"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: TCP 192.0.2.71:80 is reserved for IPPool edge",
		},
		"an address that Weft gave and an EgressIP was granted": {
			objects: []client.Object{egress("out", carried), aService(v4, loadBalancer("192.0.2.71"), func(s *corev1.Service) {
				s.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ServiceLoadBalancerReady}}
			})},
			want: kindtest.Outcome{Units: applied(balancer("TCP", "cluster", "10.96.0.10:80: 192.0.2.71:80:"), refuse4)},
		},
		"an address that another controller gave and an EgressIP was granted": {
			objects: []client.Object{egress("out", carried), aService(v4, loadBalancer("192.0.2.71"))},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{"Warning ReservedDestination Service demo/web: TCP 192.0.2.71:80 is reserved for EgressIP out"},
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "False Reserved: TCP 192.0.2.71:80 is reserved for EgressIP out",
		},
		"a reserved port that was given up": {
			objects: []client.Object{aService(v4, func(s *corev1.Service) {
				s.Status.Conditions = []metav1.Condition{{
					Type: networkv1alpha1.ServiceAddressesReady, Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonReserved,
					Message: "node port TCP/10250 is reserved for kubelet"}}
			})},
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Writes: []string{"patch status Service demo/web"},
			},
			condition: "True AsExpected: ",
		},
		"the database refuses it": {
			objects: []client.Object{aService(v4)}, fails: rejected,
			want: kindtest.Outcome{
				Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
				Events: []string{"Warning FailedLoadBalancer Service demo/web: " + rejected.Error()},
				Err:    rejected.Error(),
			},
		},
		"the database is away": { // the engine applies the unit later
			objects: []client.Object{aService(v4)}, fails: &ovndb.PendingError{Unit: web, Reason: "database is not connected"},
			want: kindtest.Outcome{Units: applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4)},
		},
		"the database refuses a deletion": {
			fails: rejected,
			want:  kindtest.Outcome{Units: applied(), Err: rejected.Error()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := kindtest.New(t, Kinds, topology.KindService, nil, c.objects...)
			for _, name := range []string{"n1", "n2"} {
				b.Seed(topology.NodeUnit(facts.Node{Name: name, Chassis: "chassis-" + name}))
			}
			if c.fails != nil {
				b.Database.Refusals[web] = c.fails
			}
			have := b.Reconcile("demo", "web")
			if turns := strings.Contains(fmt.Sprint(c.want.Units), "affinity_timeout"); (have.Result.RequeueAfter > 0) != turns {
				t.Errorf("again after %s; want it: %t", have.Result.RequeueAfter, turns)
			}
			have.Result.RequeueAfter = 0
			kindtest.Expect(t, c.want, have)
			if c.condition != "" {
				expectCondition(t, b, c.condition)
			}
			// A second reconciliation writes nothing. It reports only errors in the specification again.
			again := kindtest.Outcome{Units: c.want.Units, Err: c.want.Err}
			for _, event := range c.want.Events {
				if !strings.Contains(event, "ReservedDestination") {
					again.Events = append(again.Events, event)
				}
			}
			have = b.Reconcile("demo", "web")
			have.Result.RequeueAfter = 0
			kindtest.Expect(t, again, have)
		})
	}
}

func expectCondition(t *testing.T, b *kindtest.Bed, want string) {
	t.Helper()
	conditions := kindtest.Get(b, aService(nil)).Status.Conditions
	if len(conditions) != 1 {
		t.Fatalf("conditions %v, want one", conditions)
	}
	c := conditions[0]
	have := fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	if want = networkv1alpha1.ServiceAddressesReady + " " + want; have != want || c.ObservedGeneration != 7 {
		t.Errorf("condition of generation %d: %s; want of generation 7: %s", c.ObservedGeneration, have, want)
	}
}

// A deleted service takes its load balancers along, and is forgotten by the measurement.
func TestDeletion(t *testing.T) {
	s := aService(dual)
	b := kindtest.New(t, Kinds, topology.KindService, nil, s, aSlice("web-1", "10.244.0.3"))
	if have := b.Reconcile("demo", "web"); len(have.Units[web]) == 0 {
		t.Fatal("the service has no unit")
	}
	b.Delete(s)
	kindtest.Expect(t, kindtest.Outcome{Units: applied()}, b.Reconcile("demo", "web"))
}

// A condition that another program has written meanwhile is read again before it is written.
func TestConflictIsRetried(t *testing.T) {
	reserved := aService(v4, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 10250 })
	b := kindtest.New(t, Kinds, topology.KindService, nil, reserved)
	b.Before = func(string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", errors.New("it has changed"))
	}
	if have := b.Reconcile("demo", "web"); !strings.Contains(have.Err, "it has changed") {
		t.Errorf("error %q, want the conflict, so that the controller retries", have.Err)
	}
	b.Before = nil
	kindtest.Expect(t, kindtest.Outcome{
		Units:  applied(balancer("TCP", "cluster", "10.96.0.10:80:"), refuse4),
		Events: []string{"Warning ReservedDestination Service demo/web: node port TCP/10250 is reserved for kubelet"},
		Writes: []string{"patch status Service demo/web"},
	}, b.Reconcile("demo", "web"))
	b.ExpectSettled("demo", "web")
}

// withHostAddress lets the agent of each node report a further address of its host.
func withHostAddress(objects []client.Object, address networkv1alpha1.IP) []client.Object {
	for _, o := range objects {
		if nn, ok := o.(*networkv1alpha1.NodeNetwork); ok {
			nn.Status.HostAddresses = append(nn.Status.HostAddresses, address)
		}
	}
	return objects
}
