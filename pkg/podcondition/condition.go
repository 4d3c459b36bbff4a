// Package podcondition changes conditions of pods. Its callers write them only when they differ, since a write of a
// pod's status wakes every program that watches pods.
package podcondition

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Find returns a condition of a pod; nil if the pod does not have it.
func Find(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Set gives a status a condition in place of the previous condition of its type.
func Set(status *corev1.PodStatus, want corev1.PodCondition) {
	for i := range status.Conditions {
		if status.Conditions[i].Type == want.Type {
			status.Conditions[i] = want
			return
		}
	}
	status.Conditions = append(status.Conditions, want)
}

// Differs reports whether a condition must be written. It sets the time of want's last transition: that of have if
// the status is the same.
func Differs(have, want *corev1.PodCondition) bool {
	want.LastTransitionTime = metav1.Now()
	if have == nil {
		return true
	}
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
}

// OfFailures returns the condition for a list of failures; ok is false if there is nothing to write: nothing fails,
// and nothing did before. With failures the condition is False with the reason and message, without it is True.
func OfFailures(pod *corev1.Pod, kind corev1.PodConditionType, reason, message string) (want corev1.PodCondition, ok bool) {
	have := Find(pod, kind)
	if have == nil && message == "" {
		return want, false
	}
	want = corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "AsExpected"}
	if message != "" {
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, reason, message
	}
	return want, Differs(have, &want)
}

// RefusedByExtender reports whether kube-scheduler finds no node for a pod because of what the pod requests of an IPPool. The
// message of its condition PodScheduled then has the extender's words, which name the pool or the annotation.
func RefusedByExtender(pod *corev1.Pod) bool {
	c := Find(pod, corev1.PodScheduled)
	if pod.Spec.NodeName != "" || c == nil || c.Status != corev1.ConditionFalse {
		return false
	}
	_, requests, err := networkv1alpha1.FloatingRequestOf(pod)
	return (requests || err != nil) &&
		(strings.Contains(c.Message, "IPPool ") || strings.Contains(c.Message, "annotation "))
}
