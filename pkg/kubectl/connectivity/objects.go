package connectivity

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Names and labels of the check's objects.
const (
	// NamespacePrefix starts the names of the check's namespaces, and NamespaceLabel selects them.
	NamespacePrefix = "weft-check-"
	NamespaceLabel  = "network.weft.dev/check"
	// UntilAnnotation of such a namespace is the time (RFC 3339) at which its check has ended at the latest.
	UntilAnnotation = "network.weft.dev/check-until"
	// roleLabel of a pod is SenderLabel or GuardedLabel, and appLabel selects all pods.
	roleLabel = "network.weft.dev/check-role"
	appLabel  = "network.weft.dev/check-app"
	// anyUser is the user of the pods, who owns nothing in the image.
	anyUser = 65532
)

// NewNamespace returns the namespace of a check. Its pods must satisfy the Pod Security level "restricted".
func NewNamespace(name string, until time.Time) *corev1.Namespace {
	labels := map[string]string{NamespaceLabel: "connectivity"}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels,
		Annotations: map[string]string{UntilAnnotation: until.UTC().Format(time.RFC3339)}}}
}

// Ended reports whether the check of a namespace has ended. A namespace without a readable time has.
func Ended(n *corev1.Namespace, now time.Time) bool {
	until, err := time.Parse(time.RFC3339, n.Annotations[UntilAnnotation])
	return err != nil || now.After(until)
}

// PodName returns the name of a pod of the node with an index.
func PodName(role string, node int) string { return role + "-" + strconv.Itoa(node) }

// NewPod returns the pod with a role on the node with an index. It has no readiness probe, because kubelet would send it
// over the network that is tested.
func NewPod(namespace, role string, index int, node, image string) *corev1.Pod {
	no, yes, user, grace := false, true, int64(anyUser), int64(1)
	name := PodName(role, index)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{appLabel: ServiceName, roleLabel: role}},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			TerminationGracePeriodSeconds: &grace,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: image, ImagePullPolicy: corev1.PullNever, Command: []string{Program, "probe", "serve", name},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// NewServices returns the service with a cluster IP and node ports, and the service without.
func NewServices(namespace string) []*corev1.Service {
	both := corev1.IPFamilyPolicyPreferDualStack
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{appLabel: ServiceName}, IPFamilyPolicy: &both}}
	}
	web, headless := service(ServiceName), service(HeadlessName)
	web.Spec.Type, headless.Spec.ClusterIP = corev1.ServiceTypeNodePort, corev1.ClusterIPNone
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		port := corev1.ServicePort{Name: string(kindOf(protocol)), Protocol: protocol, Port: ServicePort, TargetPort: intstr.FromInt32(Port)}
		web.Spec.Ports = append(web.Spec.Ports, port)
	}
	return []*corev1.Service{web, headless}
}

func kindOf(p corev1.Protocol) Kind {
	if p == corev1.ProtocolUDP {
		return UDP
	}
	return TCP
}

// NodePortsOf returns the node ports of a service by transport.
func NodePortsOf(s *corev1.Service) map[string]int {
	found := map[string]int{}
	for _, p := range s.Spec.Ports {
		found[string(kindOf(p.Protocol))] = int(p.NodePort)
	}
	return found
}

// NewDenyPolicy returns the policy that isolates the pods b for ingress.
func NewDenyPolicy(namespace string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DenyPolicyName}}
	p.Spec.PodSelector.MatchLabels = map[string]string{roleLabel: GuardedLabel}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	return p
}

// NewAllowPolicy returns the policy that lets the pods a reach the pods b by TCP.
func NewAllowPolicy(namespace string) *networkingv1.NetworkPolicy {
	p := NewDenyPolicy(namespace)
	p.Name = AllowPolicyName
	protocol, port := corev1.ProtocolTCP, intstr.FromInt32(Port)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: SenderLabel}}}},
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}}}
	return p
}
