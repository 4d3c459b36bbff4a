package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of Weft, and the prefix of its annotations.
const GroupName = "network.weft.dev"

var (
	// GroupVersion is network.weft.dev/v1alpha1.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this group to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterNetwork{}, &ClusterNetworkList{},
		&NodeNetwork{}, &NodeNetworkList{},
		&EgressFirewall{}, &EgressFirewallList{},
		&EgressIP{}, &EgressIPList{},
		&EgressQoS{}, &EgressQoSList{},
		&ExternalRoute{}, &ExternalRouteList{},
		&Network{}, &NetworkList{},
		&IPPool{}, &IPPoolList{},
		&FloatingIP{}, &FloatingIPList{},
		&LoadBalancerPool{}, &LoadBalancerPoolList{},
		&BGPPeer{}, &BGPPeerList{},
		&BGPAdvertisement{}, &BGPAdvertisementList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
