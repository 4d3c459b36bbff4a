package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weft-network/weft/pkg/topology"
)

// ClusterKinds returns the supported kinds of network-policy-api.
func ClusterKinds() []OptionalKind {
	return []OptionalKind{
		{topology.KindClusterNetworkPolicy, "clusternetworkpolicies.policy.networking.k8s.io", "v1alpha2",
			func() client.Object { return &policyv1alpha2.ClusterNetworkPolicy{} }, func() client.ObjectList {
				return &policyv1alpha2.ClusterNetworkPolicyList{}
			}},
		{topology.KindAdminNetworkPolicy, "adminnetworkpolicies.policy.networking.k8s.io", "v1alpha1",
			func() client.Object { return &policyv1alpha1.AdminNetworkPolicy{} }, func() client.ObjectList {
				return &policyv1alpha1.AdminNetworkPolicyList{}
			}},
		{topology.KindBaselineAdminNetworkPolicy, "baselineadminnetworkpolicies.policy.networking.k8s.io", "v1alpha1",
			func() client.Object { return &policyv1alpha1.BaselineAdminNetworkPolicy{} }, func() client.ObjectList {
				return &policyv1alpha1.BaselineAdminNetworkPolicyList{}
			}},
	}
}

// conditionsOf returns the conditions in a policy's status.
func conditionsOf(policy client.Object) *[]metav1.Condition {
	switch policy := policy.(type) {
	case *policyv1alpha2.ClusterNetworkPolicy:
		return &policy.Status.Conditions
	case *policyv1alpha1.AdminNetworkPolicy:
		return &policy.Status.Conditions
	case *policyv1alpha1.BaselineAdminNetworkPolicy:
		return &policy.Status.Conditions
	}
	return nil
}
