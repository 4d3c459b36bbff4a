package v1beta1

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PolicyForAnnotation is the annotation of a MultiNetworkPolicy that lists the NetworkAttachmentDefinitions to which
// it applies: "blue, other/green".
const PolicyForAnnotation = "k8s.v1.cni.cncf.io/policy-for"

// Definition is the name of the CustomResourceDefinition of MultiNetworkPolicies.
const Definition = "multi-networkpolicies.k8s.cni.cncf.io"

var (
	// GroupVersion is k8s.cni.cncf.io/v1beta1.
	GroupVersion = schema.GroupVersion{Group: "k8s.cni.cncf.io", Version: "v1beta1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds MultiNetworkPolicy to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MultiNetworkPolicy{}, &MultiNetworkPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// MultiNetworkPolicy is a NetworkPolicy for the interfaces that pods have on secondary networks.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=multi-networkpolicies
type MultiNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec networkingv1.NetworkPolicySpec `json:"spec,omitempty"`
}

// MultiNetworkPolicyList is a list of MultiNetworkPolicies.
//
// +kubebuilder:object:root=true
type MultiNetworkPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MultiNetworkPolicy `json:"items"`
}
