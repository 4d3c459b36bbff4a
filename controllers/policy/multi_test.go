package policy

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/kindtest"
)

var multi = topology.MultiNetworkPolicyKey("demo", "allow")

// aMultiPolicy is demo/allow for pods with the label app=web, on the networks of an annotation.
func aMultiPolicy(annotation string, rule networkingv1.NetworkPolicyIngressRule) *cniv1beta1.MultiNetworkPolicy {
	same := aPolicy(rule)
	p := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "allow"}, Spec: same.Spec}
	p.Annotations = map[string]string{cniv1beta1.PolicyForAnnotation: annotation}
	return p
}

// aDefinition is a NetworkAttachmentDefinition of the namespace demo.
func aDefinition(name, config string) *nadv1.NetworkAttachmentDefinition {
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
	nad.Spec.Config = config
	return nad
}

// definitions are two of the Network blue, and one each of the Network green, of another plugin and without a readable
// configuration.
func definitions() []client.Object {
	return []client.Object{aDefinition("blue", networks.ConfigOf("blue")), aDefinition("alias", networks.ConfigOf("blue")),
		aDefinition("green", networks.ConfigOf("green")), aDefinition("vlan", `{"type":"macvlan"}`), aDefinition("bad", "{")}
}

// attached is the pod demo/web, which requests networks.
func attached() *corev1.Pod {
	return aPod(func(p *corev1.Pod) { p.Annotations = map[string]string{networks.Annotation: "blue, green"} })
}

func newMultiBed(t *testing.T, objects ...client.Object) *kindtest.Bed {
	t.Helper()
	b := newBed(t, topology.KindMultiNetworkPolicy, append(definitions(), objects...)...)
	b.Serve(topology.KindMultiNetworkPolicy, &cniv1beta1.MultiNetworkPolicy{})
	return b
}

// multiUnit is the unit of demo/allow on Networks, where its rule allows what matches, unless that is empty.
func multiUnit(match string, on ...string) map[unit.Key][]string {
	u := map[unit.Key][]string{multi: {}}
	for _, network := range on {
		group := "pods_" + topology.PodGroupKey(facts.PodSelector{Namespace: "demo", Network: network,
			Pods: labels.SelectorFromSet(labels.Set{"app": "web"})}).Name()
		acl := func(rule, action, match string, priority, tier int) {
			u[multi] = append(u[multi], fmt.Sprintf("ACL MNP:demo/allow:%s on %s action=%s direction=to-lport "+
				"external_ids=map[weft.dev/rule:%[1]s on %[2]s] match=outport == @%[4]s && %[5]s priority=%[6]d tier=%[7]d",
				rule, network, action, group, match, priority, tier),
				fmt.Sprintf("Port_Group %s: acls += MNP:demo/allow:%s on %s", group, rule, network))
		}
		acl("ingress isolation", "drop", "ip", 1000, 2)
		u[multi] = append(u[multi], passes("MNP:demo/allow:", " on "+network, group)...)
		if match != "" {
			acl("ingress[0]", "allow-related", match, 1001, 2)
		} else {
			acl("tracking", "allow-related", "ip", 1, 3)
		}
	}
	return u
}

func TestReconcileMulti(t *testing.T) {
	rejected := &ovndb.RejectedError{Unit: multi, Err: errors.New("constraint violation")}
	const policy, match = "MultiNetworkPolicy demo/allow: ", "ip4.src == 192.0.2.0/24"
	const apart = "Warning PolicyNotApplied " + policy + "the policy does not apply where its annotation says: "
	for name, c := range map[string]struct {
		annotation, cidr string
		fails            error // of the database
		want             kindtest.Outcome
	}{
		"a Network":       {annotation: "blue", want: kindtest.Outcome{Units: multiUnit(match, "blue")}},
		"two definitions": {annotation: "demo/blue, alias", want: kindtest.Outcome{Units: multiUnit(match, "blue")}},
		"two Networks":    {annotation: "green,blue", want: kindtest.Outcome{Units: multiUnit(match, "blue", "green")}},
		"IPv6": {annotation: "blue", cidr: "2001:db8::/64",
			want: kindtest.Outcome{Units: multiUnit("ip6.src == 2001:db8::/64", "blue")}},
		"with another plugin's": {annotation: "vlan, blue", want: kindtest.Outcome{Units: multiUnit(match, "blue"),
			Events: []string{apart + "NetworkAttachmentDefinition demo/vlan is not of a Network of Weft"}}},
		"another plugin's alone": {annotation: "vlan", want: kindtest.Outcome{Units: multiUnit(match),
			Events: []string{apart + "NetworkAttachmentDefinition demo/vlan is not of a Network of Weft"}}},
		"a definition that does not exist": {annotation: "blue, other/blue", want: kindtest.Outcome{Units: multiUnit(match, "blue"),
			Events: []string{apart + "NetworkAttachmentDefinition other/blue does not exist"}}},
		"a definition that cannot be read": {annotation: "blue, bad", want: kindtest.Outcome{Units: multiUnit(match, "blue"),
			Events: []string{apart + "NetworkAttachmentDefinition demo/bad: spec.config: unexpected end of JSON input"}}},
		"no annotation": {want: kindtest.Outcome{Units: multiUnit(match),
			Events: []string{apart + "annotation k8s.v1.cni.cncf.io/policy-for: no NetworkAttachmentDefinition is listed"}}},
		"a peer that cannot be read allows nothing": {annotation: "blue", cidr: "bad", want: kindtest.Outcome{Units: multiUnit("", "blue"),
			Events: []string{"Warning InvalidSpec " + policy +
				`what cannot be read allows nothing: spec.ingress[0].from[0].ipBlock.cidr: netip.ParsePrefix("bad"): no '/'`}}},
		"the database refuses it": {annotation: "blue", fails: rejected, want: kindtest.Outcome{Units: multiUnit(match, "blue"),
			Err: rejected.Error(), Events: []string{"Warning DatabaseRefused " + policy + rejected.Error()}}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cidr == "" {
				c.cidr = "192.0.2.0/24"
			}
			b := newMultiBed(t, attached())
			b.Create(aMultiPolicy(c.annotation, from(c.cidr)))
			b.Reconcile("demo", "allow") // creates the groups
			if c.fails != nil {
				b.Database.Refusals[multi] = c.fails
			}
			kindtest.Expect(t, c.want, b.Reconcile("demo", "allow"))
			kindtest.Expect(t, c.want, b.Reconcile("demo", "allow")) // the same unit, and no write
		})
	}
}

// The groups of a Network wait for the pods that request networks, and for those alone; the group of the cluster
// network with the same selector is another.
func TestGroupsOfNetworksWaitForPorts(t *testing.T) {
	other := aPod(func(p *corev1.Pod) { p.Name = "other" })
	b := newMultiBed(t, attached(), other)
	b.Create(aMultiPolicy("blue", from("192.0.2.0/24")))
	b.Env.Selectors.Started(topology.PodKey("demo", "web")) // not the unit that has the port
	b.Env.Selectors.Started(topology.PodPortsKey("demo", "web"))
	kindtest.Expect(t, kindtest.Outcome{Enqueued: []string{"podports demo/web"}}, b.Reconcile("demo", "allow"))
	b.Env.Selectors.Reconciled(topology.PodKey("demo", "web"))
	makeSets(b)
	kindtest.Expect(t, kindtest.Outcome{}, b.Reconcile("demo", "allow"))
	b.Env.Selectors.Reconciled(topology.PodPortsKey("demo", "web"))
	b.Env.Selectors.Started(topology.PodPortsKey("demo", "web"))
	b.Env.Selectors.Reconciled(topology.PodPortsKey("demo", "web"))
	makeSets(b)
	kindtest.Expect(t, kindtest.Outcome{Units: multiUnit("ip4.src == 192.0.2.0/24", "blue")}, b.Reconcile("demo", "allow"))
}

// A policy goes with its object, and with its kind. Then the units of its pods' ports no longer name its group.
func TestEndOfAMultiPolicy(t *testing.T) {
	for name, end := range map[string]func(*kindtest.Bed, client.Object){
		"deleted":    func(b *kindtest.Bed, p client.Object) { b.Delete(p) },
		"not served": func(b *kindtest.Bed, p client.Object) { b.Unserve(topology.KindMultiNetworkPolicy, p) },
	} {
		t.Run(name, func(t *testing.T) {
			policy := aMultiPolicy("blue", from("192.0.2.0/24"))
			b := newMultiBed(t, attached(), policy)
			b.Reconcile("demo", "allow")
			end(b, policy)
			have := b.Reconcile("demo", "allow")
			if len(have.Units[multi]) > 0 || len(have.Units) != 2 || have.Err != "" {
				t.Errorf("%+v", have)
			}
		})
	}
}

// A policy follows its definitions, its namespace's logging and its kind.
func TestWhatConcernsAMultiPolicy(t *testing.T) {
	b := newMultiBed(t, aMultiPolicy("vlan, other/blue", from("192.0.2.0/24")))
	at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == topology.KindMultiNetworkPolicy })
	r := b.Kinds[at].Reconciler.(*Multi)
	elsewhere := aDefinition("blue", "")
	elsewhere.Namespace = "other"
	for name, c := range map[string]struct {
		have []reconcile.Request
		want int
	}{
		"a listed definition":     {r.naming(t.Context(), elsewhere), 1},
		"another definition":      {r.naming(t.Context(), aDefinition("blue", "")), 0},
		"the policy's namespace":  {r.in(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}), 1},
		"a namespace without any": {r.in(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}), 0},
	} {
		if len(c.have) != c.want {
			t.Errorf("%s: %v, want %d", name, c.have, c.want)
		}
	}
	before, after := aMultiPolicy("blue", from()), aMultiPolicy("green", from())
	if !multiPolicyChanged(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a change of the annotation does not reconcile the policy")
	}
	after.Annotations = map[string]string{cniv1beta1.PolicyForAnnotation: "blue", networkv1alpha1.PodRecordAnnotation: "true"}
	if multiPolicyChanged(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a change of another annotation reconciles the policy")
	}
}

// The kind comes with its definition, and its policies are then in force.
func TestMultiPolicyKindArrives(t *testing.T) {
	b := newMultiBed(t, aMultiPolicy("blue", from()))
	b.Unserve(topology.KindMultiNetworkPolicy, &cniv1beta1.MultiNetworkPolicy{})
	crd := &unstructured.Unstructured{Object: definition(cniv1beta1.GroupVersion.Version, "True")}
	crd.SetGroupVersionKind(customResourceDefinition)
	crd.SetName(cniv1beta1.Definition)
	b.Create(crd)
	at := slices.IndexFunc(b.Kinds, func(k *kind.Kind) bool { return k.Name == "policy-kinds" })
	reconciler, watching := b.Kinds[at].Reconciler.(*Definitions), &watches{}
	reconciler.cache, reconciler.of(cniv1beta1.Definition).controller = kindtest.Cache(), watching
	kindtest.Expect(t, kindtest.Outcome{}, b.ReconcileKind("policy-kinds", "", cniv1beta1.Definition))
	if !b.Env.Served.Has(topology.KindMultiNetworkPolicy) || watching.begun != 1 {
		t.Errorf("the kind is not served, or %d watches have begun", watching.begun)
	}
	b.Delete(crd)
	kindtest.Expect(t, kindtest.Outcome{Enqueued: []string{"multinetworkpolicy demo/allow"}},
		b.ReconcileKind("policy-kinds", "", cniv1beta1.Definition))
}
