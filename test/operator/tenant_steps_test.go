package operator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
)

// tenantNamespace is the only namespace in which the tenant may write.
const tenantNamespace = "tenant"

// tenant is a user with the rights of the cluster role edit in one namespace, and with rights on Weft's namespaced kinds there.
type tenant struct {
	*world
	user   client.Client
	random *rand.Rand
	// addresses, macs and services are what others have: addresses of pods and machines, MACs, and addresses of services.
	addresses, macs, services []string
	refused                   int // steps that the API server refused
}

// tenantKinds are the kinds that the tenant may write.
func tenantKinds() []client.Object {
	return []client.Object{&corev1.Pod{}, &corev1.Service{}, &networkingv1.NetworkPolicy{}, &nadv1.NetworkAttachmentDefinition{},
		&ipamclaimsv1alpha1.IPAMClaim{}, &networkv1alpha1.EgressFirewall{}, &networkv1alpha1.EgressQoS{}}
}

// login creates the tenant's namespace and rights.
func (u *tenant) login() {
	ctx, verbs := u.Context(), []string{"*"}
	in := metav1.ObjectMeta{Namespace: tenantNamespace, Name: "edit"}
	role := &rbacv1.Role{ObjectMeta: in, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "services"}, Verbs: verbs},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: verbs},
		{APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"network-attachment-definitions", "ipamclaims"}, Verbs: verbs},
		{APIGroups: []string{networkv1alpha1.GroupName}, Resources: []string{"egressfirewalls", "egressqoses"}, Verbs: verbs}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: in, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "tenant"}}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}, role, binding} {
		u.must(client.IgnoreAlreadyExists(api.Create(ctx, object)))
	}
	u.Cleanup(u.logout)
	config := rest.CopyConfig(adminConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "tenant", Groups: []string{"system:authenticated"}}
	user, err := client.New(config, client.Options{Scheme: api.Scheme()})
	u.must(err)
	u.user = user
	u.until(func() error {
		return user.List(ctx, &networkv1alpha1.EgressQoSList{}, client.InNamespace(tenantNamespace))
	})
}

// logout deletes everything of the tenant.
func (u *tenant) logout() {
	for _, kind := range append(tenantKinds(), &eventsv1.Event{}) {
		options := []client.DeleteAllOfOption{client.InNamespace(tenantNamespace), client.GracePeriodSeconds(0)}
		if _, service := kind.(*corev1.Service); !service {
			u.must(api.DeleteAllOf(context.Background(), kind, options...))
			continue
		}
		var all corev1.ServiceList
		u.must(api.List(context.Background(), &all, client.InNamespace(tenantNamespace)))
		for i := range all.Items {
			u.must(client.IgnoreNotFound(api.Delete(context.Background(), &all.Items[i])))
		}
	}
}

func one[T any](u *tenant, of ...T) T { return of[u.random.IntN(len(of))] }

// maybe returns true once in n times.
func (u *tenant) maybe(n int) bool { return u.random.IntN(n) == 0 }

func (u *tenant) address() string { return one(u, u.addresses...) }

// some returns up to two addresses, separated by commas.
func (u *tenant) some() string {
	if u.maybe(3) {
		return u.address() + "," + u.address()
	}
	return u.address()
}

// step creates, replaces or deletes one object.
func (u *tenant) step() {
	u.Helper()
	object := one(u, u.pod, u.pod, u.pod, u.service, u.service, u.policy, u.definition, u.claim, u.firewall, u.qos)()
	object.SetNamespace(tenantNamespace)
	object.SetName(fmt.Sprintf("%s%d", one(u, "web", "b", "x"), u.random.IntN(4)))
	err := u.write(object)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsBadRequest(err) {
		u.refused++
		return
	}
	u.must(client.IgnoreNotFound(client.IgnoreAlreadyExists(err)))
}

// write creates an object, or replaces or deletes the present one of its name.
func (u *tenant) write(object client.Object) error {
	ctx, have := u.Context(), object.DeepCopyObject().(client.Object)
	err := u.user.Get(ctx, client.ObjectKeyFromObject(object), have)
	_, isPod := object.(*corev1.Pod)
	switch {
	case apierrors.IsNotFound(err):
		return u.user.Create(ctx, object)
	case err != nil:
		return err
	case u.maybe(3) || isPod && u.maybe(2):
		return u.user.Delete(ctx, have, client.GracePeriodSeconds(0))
	case isPod:
		have.SetAnnotations(object.GetAnnotations())
		have.SetLabels(object.GetLabels())
		return u.user.Update(ctx, have)
	}
	object.SetResourceVersion(have.GetResourceVersion())
	return u.user.Update(ctx, object)
}

func (u *tenant) labels() map[string]string {
	return map[string]string{"app": one(u, "web", "db"), "out": one(u, "yes", "no"), "team": one(u, "victims", "none")}
}

// pod requests addresses, MACs, host ports, Networks and pools of others.
func (u *tenant) pod() client.Object {
	p := pod("", one(u, "n1", "n2", "n2", "n1", ""))
	p.Labels, p.Annotations = u.labels(), map[string]string{}
	for name, value := range map[string]func() string{
		networkv1alpha1.RequestedIPsAnnotation:     u.some,
		networkv1alpha1.RequestedMACAnnotation:     func() string { return one(u, u.macs...) },
		networkv1alpha1.IPPoolAnnotation:           func() string { return one(u, "nat", "private-nat", "none") },
		networkv1alpha1.IPRangesAnnotation:         func() string { return u.address() + "-" + u.address() },
		networkv1alpha1.ReleasePolicyAnnotation:    func() string { return one(u, "Pod", "Immutable", "Never", "x") },
		networkv1alpha1.FloatingIPsAnnotation:      u.some,
		networkv1alpha1.PodRecordAnnotation:        func() string { return one(u, "true", "x") },
		networkv1alpha1.RandomHostPortsAnnotation:  func() string { return "true" },
		networkv1alpha1.IngressBandwidthAnnotation: func() string { return one(u, "1M", "-1", "x") },
		networkv1alpha1.MulticastAnnotation:        func() string { return "true" },
		networkv1alpha1.GalaxyArgsAnnotation:       func() string { return `{"common":{"ipinfos":[{"ip":"` + u.address() + `/24","vlan":0}]}}` },
		networks.Annotation:                        u.requests,
		networks.DefaultAnnotation:                 func() string { return one(u, "default/private", "private", "kube-system/weft") },
	} {
		if u.maybe(6) || name == networks.Annotation && u.maybe(2) {
			p.Annotations[name] = value()
		}
	}
	if u.maybe(3) {
		number := one[int32](u, 8080, 8080, 8080, 8080, 22, 53, 80, 443, 6081, 6443, 6641, 6642, 8080, 10250, 10256, 30080)
		ports := []corev1.ContainerPort{{ContainerPort: 80, HostPort: number, HostIP: one(u, "", "::", "::ffff:192.0.2.12", u.address()),
			Protocol: one(u, corev1.ProtocolTCP, corev1.ProtocolUDP)}}
		if p.Spec.Containers[0].Ports = ports; u.maybe(3) {
			p.Spec.Containers[0].Ports = nil
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "none", Ports: ports}}
		}
		if u.maybe(2) {
			p.Annotations = nil // nothing else keeps the port from it
		}
	}
	return p
}

// requests returns an annotation with requests of Networks, by definitions of all namespaces.
func (u *tenant) requests() string {
	var all []string
	for range 1 + u.random.IntN(3) {
		element := fmt.Sprintf(`"name":%q`, one(u, "private", "shared", "routed", "bare", "web0", "b1", "x2"))
		for field, value := range map[string]string{
			"namespace": one(u, `"default"`, `"default"`, `"tenant"`, `"kube-system"`),
			"ips":       `["` + strings.ReplaceAll(u.some(), ",", `","`) + `"]`, "mac": `"` + one(u, u.macs...) + `"`,
			"interface": one(u, `"net1"`, `"eth0"`, `"all"`, `"x"`), "default-route": `["` + u.address() + `"]`,
			"ipam-claim-reference": one(u, `"web0"`, `"b1"`, `"vm"`), "bandwidth": `{"ingressRate":1000,"egressRate":-1}`,
		} {
			if u.maybe(4) {
				element += fmt.Sprintf(`,%q:%s`, field, value)
			}
		}
		all = append(all, "{"+element+"}")
	}
	return one(u, "["+strings.Join(all, ",")+"]", "["+strings.Join(all, ",")+"]", "default/private@x,shared", "[{", "shared")
}

// service takes addresses and node ports of others.
func (u *tenant) service() client.Object {
	s := serviceObject("", func(s *corev1.Service) {
		s.Spec.Type = one(u, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
		s.Spec.Selector = u.labels()
		s.Spec.Ports[0].Port = one[int32](u, 53, 80, 443, 6443, 8080, 10250, 30080)
		s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080)
		if s.Spec.Type != corev1.ServiceTypeClusterIP && u.maybe(2) {
			s.Spec.Ports[0].NodePort = one[int32](u, 30080, 30081, 30082)
		}
		if u.maybe(2) {
			s.Spec.ExternalIPs = strings.Split(one(u, u.some(), one(u, u.services...)), ",")
		}
		if u.maybe(4) {
			s.Spec.LoadBalancerIP = u.address()
		}
		if u.maybe(6) {
			s.Spec.ClusterIP = one(u, "None", one(u, u.services...), "10.96.0.99")
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			s.Spec.LoadBalancerSourceRanges = one(u, nil, []string{" 203.0.113.0/24"}, []string{"0.0.0.0/0"})
		}
	})
	s.Annotations = map[string]string{}
	for name, value := range map[string]string{networkv1alpha1.EgressSourceAnnotation: "LoadBalancer",
		networkv1alpha1.LoadBalancerIPsAnnotation: u.some(), networkv1alpha1.AllowSharedIPAnnotation: "k",
		networkv1alpha1.IdleAnnotation: "true"} {
		if u.maybe(4) {
			s.Annotations[name] = value
		}
	}
	return s
}

func (u *tenant) policy() client.Object {
	p := &networkingv1.NetworkPolicy{}
	p.Spec.PodSelector.MatchLabels = one(u, nil, u.labels(), map[string]string{"app": "web"})
	type types = []networkingv1.PolicyType
	p.Spec.PolicyTypes = one(u, types{"Ingress"}, types{"Egress"}, types{"Ingress", "Egress"})
	from := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: one(u, nil, map[string]string{"team": "victims"})},
		PodSelector:       one(u, nil, &metav1.LabelSelector{})}
	if u.maybe(3) {
		from = networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: one(u, "0.0.0.0/0", "10.244.0.0/16", "::/0")}}
	}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{from}}}
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{from}}}
	return p
}

// definition names Networks of others, and claims to be the operator's.
func (u *tenant) definition() client.Object {
	nad := &nadv1.NetworkAttachmentDefinition{}
	nad.Spec.Config = one(u, networks.ConfigOf("private"), networks.ConfigOf("shared"), networks.ConfigOf("routed"),
		networks.ConfigOf("bare"), `{"type":"weft-cni"}`, `{"type":"macvlan"}`, "{", "")
	if u.maybe(3) {
		nad.Labels = map[string]string{networkv1alpha1.NetworkLabel: "private"}
	}
	if u.maybe(3) {
		nad.OwnerReferences = []metav1.OwnerReference{{APIVersion: networkv1alpha1.GroupVersion.String(), Kind: "Network", Name: "private",
			UID: "x", Controller: new(true)}}
	}
	return nad
}

func (u *tenant) claim() client.Object {
	return &ipamclaimsv1alpha1.IPAMClaim{Spec: ipamclaimsv1alpha1.IPAMClaimSpec{Network: one(u, "private", "shared", "routed", "none"),
		Interface: one(u, "net1", "x")}}
}

func (u *tenant) firewall() client.Object {
	f := &networkv1alpha1.EgressFirewall{}
	f.Spec.Egress = []networkv1alpha1.EgressFirewallRule{{
		Type: one(u, networkv1alpha1.EgressFirewallAllow, networkv1alpha1.EgressFirewallDeny),
		To:   networkv1alpha1.EgressFirewallDestination{CIDRSelector: one(u, "0.0.0.0/0", "192.0.2.0/24", "10.244.0.0/16")}}}
	return f
}

func (u *tenant) qos() client.Object {
	q := &networkv1alpha1.EgressQoS{}
	q.Spec.Egress = []networkv1alpha1.EgressQoSRule{{DSCP: new(int32(46)), DstCIDR: "0.0.0.0/0"}}
	return q
}
