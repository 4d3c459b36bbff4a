//go:build e2e

package load

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// namespace holds the services and a part of the pods; alone holds the pods for the API server's own rate.
const namespace, alone = "bench", "alone"

// namespaceOf returns the namespace of a pod, or of a policy, by its number. Pods with a floating address are in the
// namespace of their Deployments.
func namespaceOf(i int) string {
	if i >= firstFloating {
		return namespace
	}
	if i %= *namespaces; i > 0 {
		return fmt.Sprintf("%s-%02d", namespace, i)
	}
	return namespace
}

func podName(i int) string     { return fmt.Sprintf("pod-%06d", i) }
func nodeName(i int) string    { return fmt.Sprintf("nod-%06d", i) }
func serviceName(i int) string { return fmt.Sprintf("svc-%06d", i) }
func policyName(i int) string  { return fmt.Sprintf("pol-%06d", i) }

// backend returns an endpoint's address, and changed an endpoint's new address, which is always unused before.
func backend(i int) string { return fmt.Sprintf("10.250.%d.%d", i/250%250, i%250+1) }
func changed(i int) string { return fmt.Sprintf("10.251.%d.%d", i/250%250, i%250+1) }

func podOf(i, nodes int, in string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(i), Namespace: in,
			Labels: map[string]string{"app": appName(i), "load": "bench"}},
		Spec: corev1.PodSpec{NodeName: nodeName(i % nodes), AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "c", Image: "registry.invalid/none"}}},
	}
}

func serviceOf(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i), Namespace: namespace},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80,
			TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}},
	}
}

// sliceOf returns endpoints with addresses that no other service has.
func sliceOf(i, endpoints int) *discoveryv1.EndpointSlice {
	port, name, protocol := int32(8080), "http", corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i) + "-1", Namespace: namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: serviceName(i)}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for n := range endpoints {
		slice.Endpoints = append(slice.Endpoints, endpointOf(backend(i*endpoints+n)))
	}
	return slice
}

func endpointOf(address string) discoveryv1.Endpoint {
	ready := true
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready}}
}

// apps is the number of values of the pods' label app.
const apps = 50

func appName(i int) string { return fmt.Sprintf("app-%d", i%apps) }

func labelled(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// newPolicyOf allows the pods of one app of a namespace to send to the pods of another. The first apps policies have
// no selector in common: pod i is in namespace i modulo their number and has the app i modulo apps, so a namespace has
// the apps of every step.
func newPolicyOf(i int) *networkingv1.NetworkPolicy {
	step := commonDivisor(*namespaces, apps)
	app := i%*namespaces%step + i / *namespaces * step
	policy := policyOf(i, 0)
	policy.Name, policy.Namespace = policyName(newPolicies+i), namespaceOf(i)
	policy.Spec.PodSelector = labelled("app", appName(app))
	from := labelled("app", appName(app+step))
	policy.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{PodSelector: &from}}
	return policy
}

// newPolicies is the number of the first policy of newPolicyOf, above the policies of policyOf.
const newPolicies = 500_000

// distinctPolicies returns how many policies of newPolicyOf have no selector in common.
func distinctPolicies() int { return *namespaces * apps / commonDivisor(*namespaces, apps) }

func commonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// policyOf allows the namespace's pods to send to the pods of an app, or to each other if selectors is 0, which
// selects every pod.
func policyOf(i, selectors int) *networkingv1.NetworkPolicy {
	port := intstr.FromInt32(int32(8000 + i%1000))
	every := labelled("load", "bench")
	selected := every
	if selectors > 0 {
		selected = labelled("app", fmt.Sprintf("app-%d", i%selectors))
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName(i), Namespace: namespaceOf(i)},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: selected, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &every}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}}},
	}
}

func clusterNetwork() *networkv1alpha1.ClusterNetwork {
	return &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName},
		Spec: networkv1alpha1.ClusterNetworkSpec{
			ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.128.0.0/10", HostPrefix: 24}},
			ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"},
		}}
}

// report fills in what an agent reports about its node.
func report(nn *networkv1alpha1.NodeNetwork) {
	var i int
	_, _ = fmt.Sscanf(nn.Name, "nod-%d", &i)
	high, low := i/250, i%250+1
	nn.Status.Chassis, nn.Status.LinkMTU = "chassis-"+nn.Name, 1500
	nn.Status.EncapIP = networkv1alpha1.IP(fmt.Sprintf("172.16.%d.%d", high, low))
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared,
		Uplink: networkv1alpha1.UplinkBridge, Bridge: "br-ex", Interface: "eth0",
		MACAddress: networkv1alpha1.MACAddress(fmt.Sprintf("02:00:ac:10:%02x:%02x", high, low)),
		Addresses:  []networkv1alpha1.InterfaceAddress{networkv1alpha1.InterfaceAddress(fmt.Sprintf("172.16.%d.%d/16", high, low))},
		NextHops:   []networkv1alpha1.IP{"172.16.255.254"}}
	meta.SetStatusCondition(&nn.Status.Conditions, metav1.Condition{
		Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected,
		Message: "pods can be attached"})
}
