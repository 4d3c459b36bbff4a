package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReservedLabel on a FloatingIP keeps its address from every pod that does not have it already. Its value does not
// matter.
const ReservedLabel = GroupName + "/reserved"

// PoolLabel of a FloatingIP is the name of its IPPool.
const PoolLabel = GroupName + "/ip-pool"

// PoolNetworkLabel of a FloatingIP is the Network of its IPPool, or empty for a pool without one. It says after the pool was
// deleted on which Network the address still is.
const PoolNetworkLabel = GroupName + "/ip-pool-network"

// HistoryLength is how many earlier holders a FloatingIP remembers.
const HistoryLength = 16

// FloatingIP is an address of an IPPool, and who has it. Its name is made of the address, so that the object is the
// address' lock: the operator writes the holder before the pod gets the address. Weft creates FloatingIPs; delete one to
// forget its history, and use kubectl weft ip release to take the address away from its holder.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="network.weft.dev/goes-after-network=true"
// +kubebuilder:resource:scope=Cluster,shortName=fip
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.holder.namespace`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.holder.kind`
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.holder.pod`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.holder.node`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.holder.releasePolicy`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.spec.holder.since`
// +kubebuilder:selectablefield:JSONPath=`.spec.pool`
// +kubebuilder:validation:XValidation:rule="!isIP(self.spec.address) || self.metadata.name == self.spec.address || self.metadata.name.size() == 39 && isIP(self.metadata.name.replace('-', ':')) && ip(self.metadata.name.replace('-', ':')) == ip(self.spec.address)",message="metadata.name: it must be made of spec.address: the address itself, or for IPv6 all eight groups of four digits with dashes between, because the name is the address' lock"
type FloatingIP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FloatingIPSpec `json:"spec"`
	// status has no subresource: a change of the holder and of the history is one write.
	// +optional
	Status FloatingIPStatus `json:"status,omitempty,omitzero"`
}

// FloatingIPList is a list of FloatingIPs.
//
// +kubebuilder:object:root=true
type FloatingIPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FloatingIP `json:"items"`
}

// FloatingIPSpec says whose the address is.
type FloatingIPSpec struct {
	// address is the address. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="address is immutable"
	Address EgressAddress `json:"address"`

	// pool is the name of the IPPool. Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="pool is immutable"
	Pool string `json:"pool"`

	// holder is who has the address. Omitted, nobody.
	// +optional
	Holder *FloatingIPHolder `json:"holder,omitempty"`
}

// FloatingIPHolder is a workload that has an address, and its pod.
type FloatingIPHolder struct {
	// apiVersion is the workload's API group and version, "apps/v1".
	APIVersion string `json:"apiVersion"`
	// kind is the workload's kind: Deployment, StatefulSet, DaemonSet, Job, another workload with a scale subresource,
	// or Pod for a pod without a workload.
	Kind string `json:"kind"`
	// namespace is the workload's namespace.
	Namespace string `json:"namespace"`
	// name is the workload's name.
	Name string `json:"name"`
	// uid is the workload's UID, so that a recreated workload is another workload.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// pod is the name of the pod that has the address, or had it, if podUID is empty. Empty, no pod of the workload
	// has a claim on this address before others.
	// +optional
	Pod string `json:"pod,omitempty"`
	// podUID is the UID of the pod that has the address now.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// index numbers the addresses of a pod, from 0, for each family.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	Index int32 `json:"index,omitempty"`
	// node is the node of the pod.
	// +optional
	Node string `json:"node,omitempty"`

	// releasePolicy says when the address becomes free.
	// +optional
	ReleasePolicy ReleasePolicy `json:"releasePolicy,omitempty"`
	// ttl is how long the address is kept without a pod; omitted, without limit. It shortens the release policy.
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// since is when the pod got the address, or lost it, if podUID is empty.
	Since metav1.Time `json:"since"`
}

// ReleasePolicy says when the address of a pod becomes free.
//
// +kubebuilder:validation:Enum=Pod;Immutable;Never
type ReleasePolicy string

// Release policies. The annotation ReleasePolicyAnnotation also has the names of Galaxy: "", immutable and never.
const (
	// ReleaseWithPod frees the address when its pod has ended.
	ReleaseWithPod ReleasePolicy = "Pod"
	// ReleaseImmutable keeps the address for the workload, until the workload is deleted or has fewer replicas than
	// addresses.
	ReleaseImmutable ReleasePolicy = "Immutable"
	// ReleaseNever keeps the address for the workload's name until a person releases it.
	ReleaseNever ReleasePolicy = "Never"
)

// FloatingIPStatus has what was.
type FloatingIPStatus struct {
	// history has the earlier holders, the latest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	History []FloatingIPUse `json:"history,omitempty"`
}

// FloatingIPUse is a former use of an address.
type FloatingIPUse struct {
	// kind is the kind of the workload that had the address.
	Kind string `json:"kind"`
	// namespace is the workload's namespace.
	Namespace string `json:"namespace"`
	// name is the workload's name.
	Name string `json:"name"`
	// pod is the name of the pod that had the address.
	// +optional
	Pod string `json:"pod,omitempty"`
	// node is the pod's node.
	// +optional
	Node string `json:"node,omitempty"`
	// from is when the pod got the address.
	From metav1.Time `json:"from"`
	// until is when the pod lost the address.
	Until metav1.Time `json:"until"`
}
