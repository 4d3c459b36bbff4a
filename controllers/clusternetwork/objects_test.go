package clusternetwork

import (
	"context"
	"errors"
	"fmt"
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

// Each reason is listed, however many objects another reason has, and counted.
func TestRefusalsAreGroupedByReason(t *testing.T) {
	var objects []health.Object
	add := func(kind, condition, reason, name string) {
		objects = append(objects, health.Object{Kind: kind, Namespace: "demo", Name: name, Conditions: bad(reason, condition)})
	}
	for i := range 2 * networkv1alpha1.MaxRefusals {
		add("Pod", string(networkv1alpha1.PodRequestsGranted), networkv1alpha1.ReasonAddressUnavailable, fmt.Sprintf("a-%03d", i))
	}
	add("Pod", string(networkv1alpha1.PodRequestsGranted), networkv1alpha1.ReasonInvalidRequest, "z")
	add("Service", networkv1alpha1.ServiceAddressesReady, networkv1alpha1.ReasonAddressConflict, "s")
	got := refusals(objects)
	want := []networkv1alpha1.RefusedReason{{Kind: "Pod", Reason: "AddressUnavailable", Total: 100},
		{Kind: "Pod", Reason: "InvalidRequest", Total: 1}, {Kind: "Service", Reason: "AddressConflict", Total: 1}}
	if got.Total != 102 || !slices.Equal(got.Reasons, want) || len(got.First) != networkv1alpha1.MaxRefusals {
		t.Errorf("%d objects, reasons %+v, %d listed", got.Total, got.Reasons, len(got.First))
	}
	for i, object := range []string{"Pod/demo/a-000", "Pod/demo/z", "Service/demo/s", "Pod/demo/a-001"} {
		if got.First[i].Object != object {
			t.Errorf("object %d is %s, want %s", i, got.First[i].Object, object)
		}
	}
}

// A pod for which kube-scheduler finds no node because of its IPPool waits for Weft. The condition of another pod is kube-scheduler's.
func TestAPodThatTheExtenderRefuses(t *testing.T) {
	pods := func(key, value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a", Annotations: map[string]string{key: value}}}
	}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		message string
		waits   bool
	}{
		"no such pool": {pods(networkv1alpha1.IPPoolAnnotation, "wbe"),
			"0/2 nodes are available: 2 IPPool wbe: there is no IPPool of this name.", true},
		"a typo": {pods(networkv1alpha1.ReleasePolicyAnnotation, "Never"),
			"annotation network.weft.dev/ip-release-policy: it needs network.weft.dev/ip-pool", true},
		"another reason":  {pods(networkv1alpha1.IPPoolAnnotation, "web"), "0/2 nodes are available: 2 Insufficient cpu.", false},
		"without request": {pods("example.com/a", "b"), "0/2 nodes are available: IPPool web", false},
	} {
		t.Run(name, func(t *testing.T) {
			c.pod.Status.Conditions = []corev1.PodCondition{
				{Type: networkv1alpha1.PodFloatingIP, Status: corev1.ConditionFalse, Reason: networkv1alpha1.ReasonAddressFreed, Message: "freed"},
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: c.message}}
			read, _ := objectOf(c.pod)
			_, requests := read.Problems()
			want := map[bool]string{true: networkv1alpha1.ReasonAddressUnavailable, false: networkv1alpha1.ReasonAddressFreed}[c.waits]
			if len(requests) != 1 || requests[0].Reason != want || c.waits && requests[0].Message != c.message {
				t.Errorf("requests %+v", requests)
			}
		})
	}
}

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
