//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/test/lab"
)

// faulted is the namespace of the pods of TestTraceNamesFaults.
const faulted = "e2e-faulted"

// flowFault is a fault of a single flow, and the words with which trace or why name its cause.
type flowFault struct {
	name   string
	inject func(*wound)
	// args are the arguments of kubectl weft, code its exit code, and says the words of its output.
	args string
	code int
	says string
	// to is a destination that client must not reach. It is empty for faults without a packet.
	to func(*flows) netip.AddrPort
}

// flows is the fixture of TestTraceNamesFaults.
type flows struct {
	client, web, unready *corev1.Pod
}

// TestTraceNamesFaults injects faults of single flows and of the start of single pods. kubectl weft trace or why must
// name the cause of each.
func TestTraceNamesFaults(t *testing.T) {
	plugin := newWeft(t)
	installClusterPolicies(t)
	bed.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: faulted}})
	eventually(t, readyTimeout, func() error {
		return bed.api.Get(t.Context(), types.NamespacedName{Namespace: faulted, Name: "default"}, &corev1.ServiceAccount{})
	})
	f := &flows{labelled(bed.peerPod("client", "n1"), "client"), labelled(bed.peerPod("web", "n2"), "web"),
		labelled(bed.peerPod("unready", "n1"), "unready")}
	f.unready.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.org/never"}}
	f.client.Namespace, f.web.Namespace, f.unready.Namespace = faulted, faulted, faulted
	bed.create(t, f.unready)
	bed.run(t, f.client, f.web)
	bed.serveOn(t, lab.Outside().Name)
	for _, fault := range append(f.ofPackets(), f.ofPods()...) {
		t.Run(fault.name, func(t *testing.T) { f.test(t, &weft{t, plugin.folder}, fault) })
	}
}

func (f *flows) test(t *testing.T, plugin *weft, fault flowFault) {
	w := &wound{T: t}
	t.Cleanup(w.heal)
	fault.inject(w)
	eventually(t, 2*recoveryTimeout, func() error {
		out, errs, code := plugin.run("", strings.Fields(fault.args)...)
		if code != fault.code || !strings.Contains(out, fault.says) {
			return fmt.Errorf("exit code %d, want %d and %q:\n%s%s", code, fault.code, fault.says, out, errs)
		}
		t.Log(strings.SplitN(out, "\n", 2)[0])
		return nil
	})
	if fault.to == nil {
		return
	}
	eventually(t, recoveryTimeout, func() error {
		became, err := bed.podCaller(f.client).callAll(t.Context(), []calls{{Protocol: "tcp", To: fault.to(f).String(), Count: 1}})
		if err == nil && became[0][0].Error == "" {
			err = fmt.Errorf("%s answered, and trace says %q", became[0][0].Server, fault.says)
		}
		return err
	})
}

func toWeb(f *flows) netip.AddrPort {
	return netip.AddrPortFrom(family2(addressesOf(f.web), false), whoPort)
}

func toOutside(*flows) netip.AddrPort { return netip.AddrPortFrom(lab.Outside().IPv4.Addr(), whoPort) }

const (
	traceWeb     = "trace " + faulted + "/client " + faulted + "/web --family IPv4 --port 7001"
	traceOutside = "trace " + faulted + "/client 198.51.100.10 --port 7001"
	traceService = "trace " + faulted + "/client svc/" + faulted + "/fault --family IPv4 --protocol tcp"
)

// ofPackets are faults that stop a packet.
func (f *flows) ofPackets() []flowFault {
	return []flowFault{
		{"an isolated receiver", f.policy(app("web"), networkingv1.PolicyTypeIngress, nil), traceWeb, 1,
			"dropped by NetworkPolicy e2e-faulted/fault, which isolates web for ingress", toWeb},
		{"an isolated sender", f.policy(app("client"), networkingv1.PolicyTypeEgress, nil), traceWeb, 1,
			"dropped by NetworkPolicy e2e-faulted/fault, which isolates client for egress", toWeb},
		{"a policy that allows another port", f.policy(app("web"), networkingv1.PolicyTypeIngress, ptr(intstr.FromInt32(whoPort+1))),
			traceWeb, 1, "no rule allows client TCP port 7001", toWeb},
		{"an administrator's policy", denyByAdministrator, traceWeb, 1, "ClusterNetworkPolicy fault", toWeb},
		{"an egress firewall", func(w *wound) {
			w.create(&networkv1alpha1.EgressFirewall{
				ObjectMeta: metav1.ObjectMeta{Namespace: faulted, Name: networkv1alpha1.EgressFirewallName},
				Spec: networkv1alpha1.EgressFirewallSpec{Egress: []networkv1alpha1.EgressFirewallRule{
					deny(cidr(lab.Outside().IPv4.Addr()))}}})
		}, traceOutside, 1, "EgressFirewall e2e-faulted/default", toOutside},
		{"an egress IP that no node carries", unassigned(networkv1alpha1.UnassignedDrop), traceOutside, 1, "EgressIP fault", toOutside},
		{"an egress IP that is not in use", unassigned(""), traceOutside, 0, "NoAssignableNode", nil},
		{"a service that selects no pod", f.service("nobody"), traceService + " --port 80", 1,
			"Service e2e-faulted/fault has no endpoint for port 80", nil},
		{"a service whose pod is not ready", f.service("unready"), traceService + " --port 80", 1, "unready is not ready", nil},
		{"a port that the service does not have", f.service("web"), traceService + " --port 81", 1,
			"Service e2e-faulted/fault has no TCP port 81", nil},
		{"policy Local, and no endpoint on the node", f.service("web", nodePorts, local),
			"trace outside svc/" + faulted + "/fault --family IPv4 --port 80 --node n1", 1,
			"Service e2e-faulted/fault has traffic policy Local", nil},
		{"an endpoint without a pod", endpointOfNobody, traceService + " --port 80", 1, "has the address 10.244.", nil},
		{"an API server that is no node", func(*wound) {}, "trace " + faulted + "/client svc/default/kubernetes --family IPv4", 0,
			"delivered to the network outside", nil},
		{"a silent next hop of an ExternalRoute", silentNextHop, traceOutside, 2,
			"ExternalRoute fault: the next hop 172.30.0.250 is down, because it does not answer BFD", toOutside},
		{"a foreign ACL", func(w *wound) {
			w.cure(func() { nbctl(w, "acl-del", "n2", "to-lport", "2000", f.match()) })
			nbctl(w, "--name=fault", "acl-add", "n2", "to-lport", "2000", f.match(), "drop")
		}, traceWeb, 1, "dropped by foreign row ACL fault, which is not Weft's", toWeb},
		{"a foreign router policy", func(w *wound) {
			w.cure(func() { nbctl(w, "--if-exists", "lr-policy-del", names.ClusterRouter, "20000") })
			nbctl(w, "lr-policy-add", names.ClusterRouter, "20000", f.match(), "drop")
		}, traceWeb, 1, "foreign row Logical_Router_Policy", toWeb},
		{"a foreign route", func(w *wound) {
			address := family2(addressesOf(f.web), false).String() + "/32"
			w.cure(func() { nbctl(w, "--if-exists", "lr-route-del", names.ClusterRouter, address) })
			nbctl(w, "lr-route-add", names.ClusterRouter, address, "discard")
		}, traceWeb, 1, "foreign row Logical_Router_Static_Route", toWeb},
		{"Geneve stopped between nodes", withoutGeneve("n2"), traceWeb, 0, "TunnelSilent", toWeb},
		{"ovn-northd paused, between pods that run", northdPaused, traceWeb, 0, "NorthdSilent: ovn-northd is paused", nil},
		{"ovn-northd hangs, between pods that run", northdHangs, "why " + faulted + "/web", 0,
			"NorthdSilent: ovn-northd does not respond", nil},
	}
}

// match selects the packets from client to web.
func (f *flows) match() string {
	return fmt.Sprintf("ip4.src == %s && ip4.dst == %s", family2(addressesOf(f.client), false), family2(addressesOf(f.web), false))
}

// policy isolates pods in a direction, and allows a port if it is not nil.
func (f *flows) policy(subject metav1.LabelSelector, direction networkingv1.PolicyType, port *intstr.IntOrString) func(*wound) {
	return func(w *wound) {
		p := policy("fault", subject, direction)
		p.Namespace = faulted
		if port != nil {
			p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: port}}}}
		}
		w.create(p)
	}
}

func denyByAdministrator(w *wound) {
	pods := func(label string) *policyv1alpha2.NamespacedPod {
		return &policyv1alpha2.NamespacedPod{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: faulted}},
			PodSelector:       app(label)}
	}
	p := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "fault"}}
	p.Spec.Tier, p.Spec.Subject.Pods = policyv1alpha2.AdminTier, pods("web")
	p.Spec.Ingress = []policyv1alpha2.ClusterNetworkPolicyIngressRule{{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
		From: []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Pods: pods("client")}}}}
	w.create(p)
}

// service makes the service "fault" of the pods with a label.
func (f *flows) service(label string, change ...func(*corev1.ServiceSpec)) func(*wound) {
	return func(w *wound) {
		s := service("fault", label, change...)
		s.Namespace = faulted
		w.create(s)
	}
}

// silentNextHop makes client leave by a router that does not exist.
func silentNextHop(w *wound) {
	e := &networkv1alpha1.ExternalRoute{ObjectMeta: metav1.ObjectMeta{Name: "fault"}}
	e.Spec.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: faulted}
	e.Spec.PodSelector = app("client")
	e.Spec.NextHops.Static = []networkv1alpha1.StaticNextHop{{Address: "172.30.0.250", BFD: true}}
	w.create(e)
}

// endpointOfNobody makes a service with an endpoint at an address that no pod has.
func endpointOfNobody(w *wound) {
	s := service("fault", "")
	s.Namespace, s.Spec.Selector = faulted, nil
	w.create(s)
	var n1 networkv1alpha1.NodeNetwork
	must(w.T, bed.api.Get(w.Context(), types.NamespacedName{Name: "n1"}, &n1))
	subnet, err := n1.Spec.PodSubnets[0].Prefix()
	must(w.T, err)
	nobody := subnet.Addr().As4()
	nobody[3] = 250
	protocol, port, name, ready := corev1.ProtocolTCP, int32(whoPort), "t", true
	w.create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: faulted, Name: "fault",
		Labels: map[string]string{discoveryv1.LabelServiceName: "fault"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{netip.AddrFrom4(nobody).String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}}})
}

// ofPods are faults that stop the start of a pod.
func (f *flows) ofPods() []flowFault {
	const why = "why " + faulted + "/fault"
	return []flowFault{
		{"a pod without a node", f.pod(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.NodeSelector = "", map[string]string{"no-such-label": "true"}
		}), why, 1, "waits for the scheduler (stage scheduling", nil},
		{"a requested address outside the node's subnets", f.pod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: "192.0.2.77"}
		}), why, 1, "(stage address on node n1", nil},
		{"a foreign row with the name of the pod's port", func(w *wound) {
			w.cure(func() { nbctl(w, "--if-exists", "ls-del", "somebodys") })
			nbctl(w, "ls-add", "somebodys", "--", "lsp-add", "somebodys", names.PodPort(names.DefaultNetwork, faulted, "fault"))
			f.pod(nil)(w)
		}, why, 1, "waits for the OVN northbound database (stage address on node n1", nil},
		{"a network that does not exist", f.pod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "no-such-network"}
		}), why, 1, "(stage secondary networks on node n1", nil},
		{"an ovn-controller that hangs", func(w *wound) {
			frozen("n1", controller)(w)
			f.pod(nil)(w)
		}, why, 1, "waits for ovn-controller (stage", nil},
		{"ovn-northd paused at a pod's start", func(w *wound) {
			northdPaused(w)
			f.pod(nil)(w)
		}, why, 1, "waits for ovn-northd (stage address on node n1", nil},
	}
}

// northdPaused pauses the ovn-northd of a bare lab.
func northdPaused(w *wound) {
	northd := func(command string) {
		_, err := bed.Kubectl(cleanup(), "-n", product, "exec", "weft-central-0", "-c", "northd", "--",
			"ovn-appctl", "-t", "ovn-northd", command)
		must(w.T, err)
	}
	w.cure(func() { northd("resume") })
	northd("pause")
}

// northdHangs stops the ovn-northd of a bare lab by a signal.
func northdHangs(w *wound) { frozen(bed.central, northd)(w) }

// unassigned makes an egress IP that no node may carry.
func unassigned(when networkv1alpha1.WhenUnassigned) func(*wound) {
	return func(w *wound) {
		e := egressIP(w.T, "fault", "")
		e.Spec.WhenUnassigned = when
		e.Spec.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: faulted}
		e.Spec.PodSelector = app("client")
		w.create(e)
	}
}

// pod makes the pod "fault". Its removal does not wait for a sandbox that never comes.
func (f *flows) pod(change func(*corev1.Pod)) func(*wound) {
	return func(w *wound) {
		p := bed.peerPod("fault", "n1")
		p.Namespace = faulted
		if change != nil {
			change(p)
		}
		must(w.T, bed.api.Create(w.Context(), p))
		w.cure(func() { bed.removeNow(w.T, p) })
	}
}
