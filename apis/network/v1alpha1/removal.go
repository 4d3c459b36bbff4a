package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// ConfirmRemovalAnnotation on the ClusterNetwork confirms its deletion. The value is the UID of the
	// ClusterNetwork, so that a manifest confirms nothing when it is applied again or to another cluster.
	ConfirmRemovalAnnotation = GroupName + "/confirm-removal"
	// ConfirmLossAnnotation on an IPPool, a LoadBalancerPool or a Network confirms its deletion, although pods or Services use it. On a
	// LoadBalancerPool it also confirms that Services lose addresses that the pool does not give any more. On the ClusterNetwork it
	// confirms that pods lose physical networks which spec does not have for their node any more, and not the deletion. The value is the
	// object's name.
	ConfirmLossAnnotation = GroupName + "/remove"
	// OperandsFinalizer on the ClusterNetwork keeps it until weft-operands has removed the network from every node.
	OperandsFinalizer = GroupName + "/operands"
)

// ConditionRemoving of a ClusterNetwork is true while the ClusterNetwork has a deletionTimestamp, and absent
// otherwise. weft-operands writes it if the ClusterNetwork has OperandsFinalizer. Without the finalizer, or until
// weft-operands has written the condition, the operator writes it.
const ConditionRemoving = "Removing"

// Reasons of ConditionRemoving.
const (
	// ReasonRemoving: weft-operands has not reported what the removal waits for. Of Ready, Available and Upgradeable:
	// the message describes the progress of the removal.
	ReasonRemoving = "Removing"
	// ReasonWaitingForConfirmation: ConfirmRemovalAnnotation does not confirm the deletion. Nothing is removed.
	ReasonWaitingForConfirmation = "WaitingForConfirmation"
	// ReasonPodsRemain: pods use the network. Nothing is removed.
	ReasonPodsRemain = "PodsRemain"
	// ReasonRemovingOperands: the removal has begun and cannot be taken back.
	ReasonRemovingOperands = "RemovingOperands"
	// ReasonFinalizersRemain: finalizers of other programs keep the ClusterNetwork. Weft removes nothing, or nothing
	// more.
	ReasonFinalizersRemain = "FinalizersRemain"
)

// RemovalConfirmed reports whether the object's annotation confirms its deletion.
func RemovalConfirmed(object metav1.Object) bool {
	uid := string(object.GetUID())
	return uid != "" && object.GetAnnotations()[ConfirmRemovalAnnotation] == uid
}

// LossConfirmed reports whether the object's annotation confirms that its users lose what they have of it.
func LossConfirmed(object metav1.Object) bool {
	return object.GetAnnotations()[ConfirmLossAnnotation] == object.GetName()
}
