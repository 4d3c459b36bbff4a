package health

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Object is an object with conditions of Weft. Namespace is empty for a cluster-scoped object.
type Object struct {
	Kind, Namespace, Name string
	// Generation is the generation of the spec.
	Generation int64
	Conditions []metav1.Condition
}

// String returns "IPPool/web" or "Pod/demo/web-0".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// Kind is a kind of Weft whose conditions are in the status. Its object and its list are empty.
type Kind struct{ Object, List runtime.Object }

// Kinds returns the kinds whose conditions are in the status, without NodeNetwork, whose conditions are the stages of a node.
func Kinds() []Kind {
	return []Kind{
		{&networkv1alpha1.Network{}, &networkv1alpha1.NetworkList{}},
		{&networkv1alpha1.EgressIP{}, &networkv1alpha1.EgressIPList{}},
		{&networkv1alpha1.ExternalRoute{}, &networkv1alpha1.ExternalRouteList{}},
		{&networkv1alpha1.IPPool{}, &networkv1alpha1.IPPoolList{}},
		{&networkv1alpha1.LoadBalancerPool{}, &networkv1alpha1.LoadBalancerPoolList{}},
		{&networkv1alpha1.BGPPeer{}, &networkv1alpha1.BGPPeerList{}},
		{&networkv1alpha1.BGPAdvertisement{}, &networkv1alpha1.BGPAdvertisementList{}},
		{&networkv1alpha1.EgressFirewall{}, &networkv1alpha1.EgressFirewallList{}},
		{&networkv1alpha1.EgressQoS{}, &networkv1alpha1.EgressQoSList{}},
	}
}

// PolicyKinds returns the kinds of network-policy-api, which the API server may not serve. Their conditions are in the status, too.
func PolicyKinds() []Kind {
	return []Kind{
		{&policyv1alpha2.ClusterNetworkPolicy{}, &policyv1alpha2.ClusterNetworkPolicyList{}},
		{&policyv1alpha1.AdminNetworkPolicy{}, &policyv1alpha1.AdminNetworkPolicyList{}},
		{&policyv1alpha1.BaselineAdminNetworkPolicy{}, &policyv1alpha1.BaselineAdminNetworkPolicyList{}},
	}
}

// ObjectsOf returns the objects of a list of Kinds or PolicyKinds that are not being deleted.
func ObjectsOf(list runtime.Object) (all []Object) {
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function returns no error
		if o, known := ObjectOf(item); known {
			all = append(all, o)
		}
		return nil
	})
	return all
}

// ObjectOf reads an object of Kinds or PolicyKinds. known is false for an object of another kind, and for an object that is being deleted.
func ObjectOf(item any) (o Object, known bool) {
	switch item := item.(type) {
	case *networkv1alpha1.Network:
		return read("Network", item, item.Status.Conditions)
	case *networkv1alpha1.EgressIP:
		return read("EgressIP", item, item.Status.Conditions)
	case *networkv1alpha1.ExternalRoute:
		return read("ExternalRoute", item, item.Status.Conditions)
	case *networkv1alpha1.IPPool:
		return read("IPPool", item, item.Status.Conditions)
	case *networkv1alpha1.LoadBalancerPool:
		return read("LoadBalancerPool", item, item.Status.Conditions)
	case *networkv1alpha1.BGPPeer:
		return read("BGPPeer", item, item.Status.Conditions)
	case *networkv1alpha1.BGPAdvertisement:
		return read("BGPAdvertisement", item, item.Status.Conditions)
	case *networkv1alpha1.EgressFirewall:
		return read("EgressFirewall", item, item.Status.Conditions)
	case *networkv1alpha1.EgressQoS:
		return read("EgressQoS", item, item.Status.Conditions)
	case *policyv1alpha2.ClusterNetworkPolicy:
		return read("ClusterNetworkPolicy", item, item.Status.Conditions)
	case *policyv1alpha1.AdminNetworkPolicy:
		return read("AdminNetworkPolicy", item, item.Status.Conditions)
	case *policyv1alpha1.BaselineAdminNetworkPolicy:
		return read("BaselineAdminNetworkPolicy", item, item.Status.Conditions)
	}
	return o, false
}

func read(kind string, of metav1.Object, conditions []metav1.Condition) (o Object, known bool) {
	return Object{Kind: kind, Namespace: of.GetNamespace(), Name: of.GetName(), Generation: of.GetGeneration(), Conditions: conditions},
		of.GetDeletionTimestamp() == nil
}

// Problems returns the conditions that are not good. The owner of a namespace can cause requests, so that they do not
// make the network unhealthy.
func (o Object) Problems() (problems, requests []networkv1alpha1.Problem) {
	for c, why := range o.bad {
		state := networkv1alpha1.StateDegraded
		if why == underway {
			state = networkv1alpha1.StateProgressing
		}
		p := New(judgements[conditionOf{o.Kind, c.Type}].area, state, c.Reason, o.String(), cmp.Or(c.Message, c.Reason))
		if why == requested {
			requests = append(requests, p)
			continue
		}
		problems = append(problems, p)
	}
	return problems, requests
}

// bad yields the conditions that are not good, with their causes.
func (o Object) bad(yield func(metav1.Condition, cause) bool) {
	for _, c := range o.Conditions {
		judgement, judged := judgements[conditionOf{o.Kind, c.Type}]
		if c.Status == metav1.ConditionTrue || !judged { // not judged: a condition of another program
			continue
		}
		why, listed := judgement.causes[c.Reason]
		if !listed && o.Namespace != "" {
			why = requested
		}
		if why != intended && !yield(c, why) {
			return
		}
	}
}

// Wait is a condition of an object that is not good.
type Wait struct {
	Kind, Type, Reason string
	// Since is the condition's last transition.
	Since metav1.Time
	// Underway means that the condition becomes good by itself.
	Underway bool
}

// Waits lists the conditions of objects that are not good.
func Waits(objects []Object) (all []Wait) {
	for _, o := range objects {
		for c, why := range o.bad {
			all = append(all, Wait{Kind: o.Kind, Type: c.Type, Reason: c.Reason, Since: c.LastTransitionTime, Underway: why == underway})
		}
	}
	return all
}

// Refusal sums up the requests of an object.
func Refusal(requests []networkv1alpha1.Problem) networkv1alpha1.Refusal {
	var texts []string
	for _, p := range requests {
		text := p.Message
		if p.NextStep != "" {
			text += ". Next: " + p.NextStep
		}
		texts = append(texts, text)
	}
	return networkv1alpha1.Refusal{Object: requests[0].Object, Reason: requests[0].Reason, Message: Cut(strings.Join(texts, "; "))}
}

// Unobserved returns the problem of an object whose present spec the operator has not judged yet. ok is false if it has, and
// for an object without a generation.
func (o Object) Unobserved() (p networkv1alpha1.Problem, ok bool) {
	if o.Generation == 0 {
		return p, false
	}
	for _, c := range o.Conditions {
		if _, judged := judgements[conditionOf{o.Kind, c.Type}]; judged && c.ObservedGeneration >= o.Generation {
			return p, false
		}
	}
	return New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateProgressing, ReasonNotObserved, o.String(),
		fmt.Sprintf("the operator has not seen generation %d of the spec yet", o.Generation)), true
}
