package network

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/test/kindtest"
)

const words = "why it is not good"

// bad returns conditions that are False.
func bad(reason string, kinds ...string) (all []metav1.Condition) {
	for _, kind := range kinds {
		all = append(all, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: words})
	}
	return all
}

// someObjects returns an object of each kind with conditions of Weft, in the namespace demo if the kind has one. Each
// condition is False.
func someObjects() map[string]client.Object {
	named := metav1.ObjectMeta{Name: "a", Generation: 1}
	inDemo := metav1.ObjectMeta{Namespace: "demo", Name: "a", Generation: 1}
	network, egress, route := &networkv1alpha1.Network{ObjectMeta: named}, &networkv1alpha1.EgressIP{ObjectMeta: named},
		&networkv1alpha1.ExternalRoute{ObjectMeta: named}
	pool, balancers := &networkv1alpha1.IPPool{ObjectMeta: named}, &networkv1alpha1.LoadBalancerPool{ObjectMeta: named}
	peer, advertisement := &networkv1alpha1.BGPPeer{ObjectMeta: named}, &networkv1alpha1.BGPAdvertisement{ObjectMeta: named}
	firewall, qos := &networkv1alpha1.EgressFirewall{ObjectMeta: inDemo}, &networkv1alpha1.EgressQoS{ObjectMeta: inDemo}
	pod, service := &corev1.Pod{ObjectMeta: inDemo}, &corev1.Service{ObjectMeta: inDemo}
	admin, baseline := &policyv1alpha1.AdminNetworkPolicy{ObjectMeta: named}, &policyv1alpha1.BaselineAdminNetworkPolicy{ObjectMeta: named}
	cluster := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: named}
	admin.Status.Conditions = bad(networkv1alpha1.ReasonInvalidSpec, networkv1alpha1.ConditionReady)
	baseline.Status.Conditions = bad(networkv1alpha1.ReasonDatabaseRefused, networkv1alpha1.ConditionReady)
	cluster.Status.Conditions = bad(networkv1alpha1.ReasonInvalidSpec, networkv1alpha1.ConditionReady)
	network.Status.Conditions = bad(networkv1alpha1.ReasonInvalidSpec, networkv1alpha1.ConditionReady)
	egress.Status.Conditions = bad(networkv1alpha1.ReasonNoAssignableNode, networkv1alpha1.ConditionAssigned)
	route.Status.Conditions = bad(networkv1alpha1.ReasonNoNextHop, networkv1alpha1.ConditionReady)
	pool.Status.Conditions = bad(networkv1alpha1.ReasonRangeOverlaps, networkv1alpha1.ConditionReady)
	balancers.Status.Conditions = bad(networkv1alpha1.ReasonNoEligibleNode, networkv1alpha1.ConditionAnnounced)
	peer.Status.Conditions = bad(networkv1alpha1.ReasonNoNode, networkv1alpha1.ConditionEstablished)
	advertisement.Status.Conditions = bad(networkv1alpha1.ReasonNotAnnounced, networkv1alpha1.ConditionAdvertised)
	firewall.Status.Conditions = bad(networkv1alpha1.ReasonUnresolvedNames, networkv1alpha1.ConditionResolved)
	qos.Status.Conditions = bad(networkv1alpha1.ReasonInvalidSpec, networkv1alpha1.ConditionReady)
	service.Status.Conditions = bad(networkv1alpha1.ReasonNoPool, networkv1alpha1.ServiceLoadBalancerReady)
	pod.Status.Conditions = []corev1.PodCondition{{Type: networkv1alpha1.PodFloatingIP, Status: corev1.ConditionFalse,
		Reason: networkv1alpha1.ReasonAddressUnavailable, Message: words}}
	return map[string]client.Object{"Network/a": network, "EgressIP/a": egress, "ExternalRoute/a": route, "IPPool/a": pool,
		"LoadBalancerPool/a": balancers, "BGPPeer/a": peer, "BGPAdvertisement/a": advertisement, "EgressFirewall/demo/a": firewall,
		"EgressQoS/demo/a": qos, "Pod/demo/a": pod, "Service/demo/a": service,
		"AdminNetworkPolicy/a": admin, "BaselineAdminNetworkPolicy/a": baseline, "ClusterNetworkPolicy/a": cluster}
}

// ofNamespaces are the objects that do not make the network unhealthy, because the owner of a namespace can break them.
var ofNamespaces = []string{"ExternalRoute/a", "BGPAdvertisement/a", "EgressFirewall/demo/a", "EgressQoS/demo/a", "Pod/demo/a",
	"Service/demo/a"}

// listPolicies lets the reconciler read the policies of network-policy-api.
func listPolicies(env *kind.Env) {
	env.ClusterPolicies = func(ctx context.Context) (all []metav1.Object, err error) {
		for _, k := range health.PolicyKinds() {
			list, ok := k.List.(client.ObjectList)
			if !ok {
				continue
			}
			err = errors.Join(err, env.Client.List(ctx, list), meta.EachListItem(list, func(o runtime.Object) error {
				all = append(all, o.(metav1.Object))
				return nil
			}))
		}
		return all, err
	}
}

// The status names an object of each kind whose condition is not good. Without a requested object the network may be upgraded.
func TestStatusNamesEachKind(t *testing.T) {
	all := someObjects()
	if len(all) != len(health.Kinds())+len(health.PolicyKinds())+len([]string{"Pod", "Service"}) {
		t.Fatalf("objects of %d kinds", len(all))
	}
	for name, o := range all {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, listPolicies, append(aReadyNode(t, 1, "4"), aNetwork("4"), o)...)
			b.Reconcile("", Name.Name)
			got := kindtest.Get(b, aNetwork("4")).Status
			listed := slices.ContainsFunc(got.Problems, func(p networkv1alpha1.Problem) bool {
				return p.Object == name && strings.Contains(p.Message, words) && p.NextStep != ""
			})
			requested := got.Refused != nil && got.Refused.First[0].Object == name && strings.Contains(got.Refused.First[0].Message, words)
			if ofNamespace := slices.Contains(ofNamespaces, name); listed == ofNamespace || requested != ofNamespace {
				t.Errorf("problems %+v, refused %+v", got.Problems, got.Refused)
			}
			if meta.IsStatusConditionTrue(got.Conditions, networkv1alpha1.ConditionUpgradeable) != requested {
				t.Errorf("conditions %+v", got.Conditions)
			}
		})
	}
}
