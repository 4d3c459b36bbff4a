package policy

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var allow = topology.NetworkPolicyKey("demo", "allow")

// aPolicy is the NetworkPolicy demo/allow with one ingress rule for the pods with the label app=web.
func aPolicy(rule networkingv1.NetworkPolicyIngressRule,
	change ...func(*networkingv1.NetworkPolicy)) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "allow"}}
	p.Spec.PodSelector.MatchLabels = map[string]string{"app": "web"}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{rule}
	for _, c := range change {
		c(p)
	}
	return p
}

func from(cidrs ...string) (rule networkingv1.NetworkPolicyIngressRule) {
	for _, cidr := range cidrs {
		rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	return rule
}

// aPod is demo/web on a node, with the label app=web and a port "http".
func aPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}
	p.Labels, p.Spec.NodeName = map[string]string{"app": "web"}, "n1"
	http := corev1.ContainerPort{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}
	p.Spec.Containers = []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{http}}}
	for _, c := range change {
		c(p)
	}
	return p
}

// newBed holds a cluster whose start is over: every pod was reconciled once.
func newBed(t *testing.T, kindName string, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	b := kindtest.New(t, Kinds, kindName, nil, objects...)
	b.Serve(topology.KindClusterNetworkPolicy, &policyv1alpha2.ClusterNetworkPolicy{})
	if err := b.Env.Selectors.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Env.Selectors.Begin()
	return b
}

// makeSets reconciles the groups and sets that are enqueued.
func makeSets(b *kindtest.Bed) {
	for _, name := range []string{topology.KindPodGroup, topology.KindPodSet} {
		for _, request := range b.Env.Triggers.Of(name).Take() {
			b.ReconcileKind(name, request.Namespace, request.Name)
		}
	}
}

// Groups of the pods with the label app=web, and of those with a port "http".
const (
	webPods  = "pods_4b60d2bab44f058eddcb"
	httpPods = "pods_8abfd9fd315673fa5f98"
	webGroup = "podgroup 4b60d2bab44f058eddcb"
)

// acl is the text of a rule of demo/allow, and of its place in a group.
func acl(rule, action, match string, priority int, group string) []string {
	return []string{
		fmt.Sprintf("ACL NP:demo/allow:%s action=%s direction=to-lport external_ids=map[weft.dev/rule:%[1]s] match=%[3]s "+
			"priority=%[4]d tier=2", rule, action, match, priority),
		fmt.Sprintf("Port_Group %s: acls += NP:demo/allow:%s", group, rule),
	}
}

// passes is the text of the ACLs of tier 2's policy that lead to it, and of their place in a group.
func passes(name, on, group string) (lines []string) {
	for i, tier := range []string{"", " tier=1"} {
		rule := fmt.Sprintf("pass to tier %d%s", i+1, on)
		lines = append(lines, fmt.Sprintf("ACL %s%s action=pass direction=to-lport external_ids=map[weft.dev/rule:%[2]s] match=ip%s",
			name, rule, tier), fmt.Sprintf("Port_Group %s: acls += %s%s", group, name, rule))
	}
	return lines
}

// isolated is the unit of demo/allow with these lines besides the lines of every ingress policy.
func isolated(more ...string) map[unit.Key][]string {
	own := "outport == @" + webPods + " && ((inport == @management_ports && (ip4.src == $management_IPv4 || " +
		"ip6.src == $management_IPv6)) || ip4.src == 169.254.169.5 || ip6.src == fd69::5)"
	return map[unit.Key][]string{allow: slices.Concat(more, passes("NP:demo/allow:", "", webPods),
		acl("ingress isolation", "drop", "outport == @"+webPods+" && ip", 1000, webPods),
		acl("ingress of the own node", "allow-related", own, 1001, webPods))}
}

// allowed is the unit of demo/allow whose rule allows what matches.
func allowed(match string) map[unit.Key][]string {
	return isolated(acl("ingress[0]", "allow-related", "outport == @"+webPods+" && "+match, 1001, webPods)...)
}

func TestReconcile(t *testing.T) {
	rejected := &ovndb.RejectedError{Unit: allow, Err: errors.New("constraint violation")}
	annotated := func(text string) func(*networkingv1.NetworkPolicy) {
		return func(p *networkingv1.NetworkPolicy) {
			p.Annotations = map[string]string{networkv1alpha1.ACLLoggingAnnotation: text}
		}
	}
	http := networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("http"))}
	named := networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{http}}
	for name, c := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		fails  error // of the database
		want   kindtest.Outcome
	}{
		"IPv4": {
			policy: aPolicy(from("192.0.2.0/24")),
			want:   kindtest.Outcome{Units: allowed("ip4.src == 192.0.2.0/24")},
		},
		"IPv6": {
			policy: aPolicy(from("2001:db8::/64")),
			want:   kindtest.Outcome{Units: allowed("ip6.src == 2001:db8::/64")},
		},
		"dual stack": {
			policy: aPolicy(from("192.0.2.0/24", "2001:db8::/64")),
			want:   kindtest.Outcome{Units: allowed("(ip4.src == 192.0.2.0/24 || ip6.src == 2001:db8::/64)")},
		},
		"a port with a name": {
			policy: aPolicy(named),
			want: kindtest.Outcome{Units: isolated(acl("ingress[0]", "allow-related",
				"outport == @"+httpPods+" && tcp.dst == 8080", 1001, httpPods)...)},
		},
		"a peer that cannot be read allows nothing": {
			policy: aPolicy(from("bad")),
			want: kindtest.Outcome{Units: isolated(), Events: []string{"Warning InvalidSpec NetworkPolicy demo/allow: " +
				`what cannot be read allows nothing: spec.ingress[0].from[0].ipBlock.cidr: netip.ParsePrefix("bad"): no '/'`}},
		},
		"logging that cannot be read logs nothing": {
			policy: aPolicy(from("192.0.2.0/24"), annotated("bad")),
			want: kindtest.Outcome{Units: allowed("ip4.src == 192.0.2.0/24"),
				Events: []string{"Warning InvalidAnnotation NetworkPolicy demo/allow: nothing is logged: " +
					"annotation network.weft.dev/acl-logging: invalid character 'b' looking for beginning of value"}},
		},
		"the database refuses it": {
			policy: aPolicy(from("192.0.2.0/24")), fails: rejected,
			want: kindtest.Outcome{Units: allowed("ip4.src == 192.0.2.0/24"), Err: rejected.Error(),
				Events: []string{"Warning DatabaseRefused NetworkPolicy demo/allow: " + rejected.Error()}},
		},
		"the database is away": { // the engine applies the unit later
			policy: aPolicy(from("192.0.2.0/24")),
			fails:  &ovndb.PendingError{Unit: allow, Reason: "database is not connected"},
			want:   kindtest.Outcome{Units: allowed("ip4.src == 192.0.2.0/24")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, topology.KindNetworkPolicy, c.policy, aPod())
			b.Reconcile("demo", "allow") // creates the groups
			if c.fails != nil {
				b.Database.Refusals[allow] = c.fails
			}
			kindtest.Expect(t, c.want, b.Reconcile("demo", "allow"))
			kindtest.Expect(t, c.want, b.Reconcile("demo", "allow")) // nothing changed: the same unit, and no write
		})
	}
}

// A new policy waits until its group is created. The units of its pods join the group without a reconciliation, except
// a unit whose pod is being reconciled: the group waits for that.
func TestPolicyWaitsForItsGroup(t *testing.T) {
	b := newBed(t, topology.KindNetworkPolicy, aPod(), aPod(func(p *corev1.Pod) { p.Name, p.Labels = "other", nil }),
		aPod(func(p *corev1.Pod) { p.Name, p.Spec.HostNetwork = "host", true }))
	web := topology.PodUnit(topology.Pod{Namespace: "demo", Name: "web", UID: "uid", Node: "n1"})
	b.Seed(web)
	pod := web.Key
	b.Create(aPolicy(from("192.0.2.0/24")))
	group := unit.Key(strings.Replace(webGroup, " ", "/", 1))
	made := kindtest.Outcome{Enqueued: []string{"networkpolicy demo/allow"},
		Units: map[unit.Key][]string{group: b.Text(topology.PodGroupUnit(group))}}

	b.Env.Selectors.Started(pod)
	kindtest.Expect(t, kindtest.Outcome{Enqueued: []string{"pod demo/web"}}, b.Reconcile("demo", "allow"))
	kindtest.Expect(t, kindtest.Outcome{}, b.ReconcileKind(topology.KindPodGroup, "", group.Name()))
	b.Env.Selectors.Reconciled(pod) // it began before the policy came
	b.Env.Selectors.Started(pod)
	kindtest.Expect(t, kindtest.Outcome{}, b.ReconcileKind(topology.KindPodGroup, "", group.Name()))
	b.Env.Selectors.Reconciled(pod)
	kindtest.Expect(t, made, b.ReconcileKind(topology.KindPodGroup, "", group.Name()))
	kindtest.Expect(t, kindtest.Outcome{Units: allowed("ip4.src == 192.0.2.0/24")}, b.Reconcile("demo", "allow"))
	b.ExpectSettled("demo", "allow")
}

// The group of a new policy joins the units of its pods, and leaves them with it.
func TestPodsJoinTheGroup(t *testing.T) {
	b := newBed(t, topology.KindNetworkPolicy, aPod(), aPod(func(p *corev1.Pod) { p.Name, p.Labels = "other", nil }))
	for _, name := range []string{"web", "other"} {
		b.Seed(topology.PodUnit(topology.Pod{Namespace: "demo", Name: name, UID: name, Node: "n1", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}))
	}
	group := unit.Key(strings.Replace(webGroup, " ", "/", 1))
	joined := func(name string) bool {
		return slices.ContainsFunc(b.Database.Unit(topology.PodKey("demo", name)).Members, func(m unit.Membership) bool {
			return m.Parent == topology.SelectedRows(group)[0] && m.Element == topology.PodPortUUID("demo", name, name)
		})
	}
	policy := aPolicy(from("192.0.2.0/24"))
	b.Create(policy)
	want := kindtest.Outcome{Units: allowed("ip4.src == 192.0.2.0/24")}
	want.Units[group] = b.Text(topology.PodGroupUnit(group))
	kindtest.Expect(t, want, b.Reconcile("demo", "allow"))
	if !joined("web") || joined("other") {
		t.Errorf("the selected pod joined: %t, the other: %t", joined("web"), joined("other"))
	}
	b.Delete(policy)
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{allow: nil, group: nil}}, b.Reconcile("demo", "allow"))
	if joined("web") {
		t.Error("the unit of the pod names a group that is gone")
	}
}

// A group that the database refuses is reported at its policy, whose unit waits for the group in the engine.
func TestGroupThatIsRefused(t *testing.T) {
	b := newBed(t, topology.KindPodGroup, aPolicy(from("192.0.2.0/24")), aPod())
	group := unit.Key(strings.Replace(webGroup, " ", "/", 1))
	b.Database.Refusals[group] = &ovndb.RejectedError{Unit: group, Err: errors.New("constraint violation")}
	want := kindtest.Outcome{Units: map[unit.Key][]string{group: b.Text(topology.PodGroupUnit(group))},
		Err: b.Database.Refusals[group].Error()}
	kindtest.Expect(t, want, b.Reconcile("", group.Name()))
	want.Events = []string{"Warning DatabaseRefused NetworkPolicy demo/allow: " + want.Err}
	maps.Copy(want.Units, allowed("ip4.src == 192.0.2.0/24"))
	kindtest.Expect(t, want, b.ReconcileKind(topology.KindNetworkPolicy, "demo", "allow"))
}

// The rules of a deleted policy are removed first. Then its group is removed, and the units of its pods no longer
// name it.
func TestDeletion(t *testing.T) {
	policy := aPolicy(from("192.0.2.0/24"))
	b := newBed(t, topology.KindNetworkPolicy, policy, aPod())
	b.Reconcile("demo", "allow")
	b.Delete(policy)
	group := unit.Key(strings.Replace(webGroup, " ", "/", 1))
	gone := kindtest.Outcome{Units: map[unit.Key][]string{allow: nil, group: nil}}
	kindtest.Expect(t, gone, b.Reconcile("demo", "allow"))
	again := b.ReconcileKind(topology.KindPodGroup, "", group.Name()) // if the database refused it
	kindtest.Expect(t, kindtest.Outcome{Units: map[unit.Key][]string{group: nil}}, again)
}
