package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// newService creates a LoadBalancer service with policy Local, and its slice with an endpoint on this node and one
// elsewhere.
func (n *node) newService() (*corev1.Service, *discoveryv1.EndpointSlice) {
	n.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
	n.must(api.Create(n.Context(), service))
	n.Cleanup(func() { n.must(api.Delete(context.Background(), service)) })
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}
	n.must(api.Status().Update(n.Context(), service))
	here, elsewhere, ready := nodeName, "node2", true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.5"}, NodeName: &here, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			{Addresses: []string{"10.244.2.5"}, NodeName: &elsewhere, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		},
	}
	n.must(api.Create(n.Context(), slice))
	n.Cleanup(func() { n.must(api.Delete(context.Background(), slice)) })
	return service, slice
}

func (n *node) ruleset() string {
	n.Helper()
	out, err := exec.Command("nft", "list", "table", "inet", "weft").CombinedOutput()
	if err != nil {
		return ""
	}
	return string(out)
}

func (n *node) awaitRule(what, want string) {
	n.Helper()
	n.until(what, func() error { text := n.ruleset(); return isTrue(strings.Contains(text, want), text) })
}

// getHealth requests the health check as a load balancer does.
func getHealth(port int32) (status, endpoints int, err error) {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Service        struct{ Namespace, Name string }
		LocalEndpoints int
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, 0, err
	}
	if answer.Service.Namespace != "default" || answer.Service.Name != "web" {
		return 0, 0, fmt.Errorf("the answer is %+v", answer)
	}
	return response.StatusCode, answer.LocalEndpoints, nil
}

func (n *node) awaitHealth(port int32, wantStatus, wantEndpoints int) {
	n.Helper()
	n.until("the health check", func() error {
		status, endpoints, err := getHealth(port)
		if err == nil && (status != wantStatus || endpoints != wantEndpoints) {
			err = fmt.Errorf("status %d, %d endpoints", status, endpoints)
		}
		return err
	})
}

// Flows admit a service's clients, the host's own connections are translated, and load balancers get its health.
func TestAServiceComesAndGoes(t *testing.T) {
	n := gatewayNode(t)
	service, slice := n.newService()
	nodePort, health := service.Spec.Ports[0].NodePort, service.Spec.HealthCheckNodePort
	n.awaitFlows("the node port", fmt.Sprintf("ct_nw_dst=%s,ct_nw_proto=6,ct_tp_dst=%d,ip actions=ct(commit", encapIP, nodePort))
	n.awaitFlows("the load balancer's address", "ct_nw_dst=192.0.2.9,ct_nw_proto=6,ct_tp_dst=80,ip actions=ct(commit")
	n.awaitRule("the host's translation", fmt.Sprintf("%s . tcp . %d : %s . 80", encapIP, nodePort, service.Spec.ClusterIP))
	n.awaitHealth(health, http.StatusOK, 1)
	notReady := false
	slice.Endpoints[0].Conditions.Ready = &notReady
	n.must(api.Update(n.Context(), slice))
	n.awaitHealth(health, http.StatusServiceUnavailable, 0)
	service.Spec.Type, service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = corev1.ServiceTypeClusterIP, "", 0
	service.Spec.Ports[0].NodePort = 0
	n.must(api.Update(n.Context(), service))
	n.until("no flows of the service", func() error {
		text := strings.Join(n.flows(), "\n")
		return isTrue(!strings.Contains(text, "ct_tp_dst"), text)
	})
	n.until("no rules of the service", func() error {
		text := n.ruleset()
		return isTrue(!strings.Contains(text, service.Spec.ClusterIP+" . 80"), text)
	})
	n.until("no health check", func() error {
		_, _, err := getHealth(health)
		return isTrue(err != nil, "it answers")
	})
}

// In Local mode the host translates connections from outside, and drops them if this node has no endpoint.
func TestLocalModeTranslates(t *testing.T) {
	n := gatewayNode(t)
	n.setGateway(networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayLocal, SNAT: networkv1alpha1.SNATNode})
	service, slice := n.newService()
	nodePort := service.Spec.Ports[0].NodePort
	n.awaitRule("the node port", fmt.Sprintf("%s . tcp . %d : 169.254.169.3 . %d", encapIP, nodePort, nodePort))
	n.awaitRule("pods' egress", `ip saddr 10.244.0.0/16 oifname != "ovn-k8s-mp0" masquerade`)
	n.until("the routes to this node's endpoints", func() error {
		got, err := mp0Has()
		text := strings.Join(got, "\n")
		if err != nil {
			return err
		}
		return isTrue(strings.Contains(text, "169.254.169.3/32 via 10.244.1.1") &&
			strings.Contains(text, "fd69::3/128 via fd00:10:244:1::1"), text)
	})
	slice.Endpoints = slice.Endpoints[1:]
	n.must(api.Update(n.Context(), slice))
	refused := func() string {
		_, after, _ := strings.Cut(n.ruleset(), "set refused4 {")
		elements, _, _ := strings.Cut(after, "\t}\n")
		return elements
	}
	n.until("the refused destinations", func() error {
		text := refused()
		return isTrue(strings.Contains(text, fmt.Sprintf("%s . tcp . %d", encapIP, nodePort)) &&
			strings.Contains(text, "192.0.2.9 . tcp . 80"), text)
	})
}

// The flows of services stay while a restarted agent reads the services.
func TestARestartKeepsServices(t *testing.T) {
	n := gatewayNode(t)
	service, _ := n.newService()
	n.awaitFlows("the node port", fmt.Sprintf("ct_tp_dst=%d", service.Spec.Ports[0].NodePort))
	n.awaitRule("the host's translation", fmt.Sprintf("%s . tcp . %d", encapIP, service.Spec.Ports[0].NodePort))
	flows := n.flows()
	n.stopAgent()
	n.startAgent()
	n.until("STATUS", n.ready)
	n.awaitHealth(service.Spec.HealthCheckNodePort, http.StatusOK, 1)
	n.until("the flows", func() error {
		now := n.flows()
		gone := slices.DeleteFunc(slices.Clone(flows), func(flow string) bool { return slices.Contains(now, flow) })
		return isTrue(len(gone) == 0, strings.Join(gone, "\n"))
	})
}

// While conntrack entries of a former UDP endpoint cannot be removed, the status says so.
func TestAFailedFlushIsNamed(t *testing.T) {
	n := gatewayNode(t)
	service, slice := n.newService()
	service.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	n.must(api.Update(n.Context(), service))
	slice.Ports[0].Protocol = new(corev1.ProtocolUDP)
	n.must(api.Update(n.Context(), slice))
	n.awaitRule("the host's translation", fmt.Sprintf("%s . udp . %d", encapIP, service.Spec.Ports[0].NodePort))
	pidFile := filepath.Join(n.ovs.RunDir(), "ovs-vswitchd.pid")
	pid, err := os.ReadFile(pidFile)
	n.must(err)
	n.must(os.WriteFile(pidFile, []byte("0\n"), 0o600)) // there is no control socket with this number
	slice.Endpoints = slice.Endpoints[1:]
	n.must(api.Update(n.Context(), slice))
	n.until("the status", func() error {
		c := meta.FindStatusCondition(n.status().Conditions, networkv1alpha1.ConditionGatewayReady)
		return isTrue(c != nil && c.Status == metav1.ConditionFalse &&
			strings.Contains(c.Message, "clients of UDP services may still reach former endpoints"), fmt.Sprint(c))
	})
	n.must(os.WriteFile(pidFile, pid, 0o600))
	n.until("STATUS", n.ready)
}
