package floating

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// State is what is known of a workload.
type State struct {
	// Exists is false when there is no workload of the name. UID is its UID.
	Exists bool
	UID    types.UID
	// Replicas is how many pods the workload wants; negative: it does not say, as a DaemonSet.
	Replicas int
	// FirstOrdinal is that of a StatefulSet.
	FirstOrdinal int
}

// Outcome is the next state of an address whose pod has ended.
type Outcome struct {
	// Released is true if the address becomes free. Otherwise the workload keeps it.
	Released bool
	// Again is when to decide again, because the address is kept for a limited time; 0: when something changes.
	Again time.Duration
}

// Decide returns what becomes of an address without a pod. before is Book.Before.
func Decide(f *networkv1alpha1.FloatingIP, w State, before func(*networkv1alpha1.FloatingIP) int, since, now time.Time) Outcome {
	h := f.Spec.Holder
	switch {
	case h.ReleasePolicy == networkv1alpha1.ReleaseNever:
	case h.ReleasePolicy != networkv1alpha1.ReleaseImmutable, !w.Exists || w.UID != h.UID, isSurplus(f, w, before):
		return Outcome{Released: true}
	}
	if h.TTL == nil {
		return Outcome{}
	}
	if left := since.Add(h.TTL.Duration).Sub(now); left > 0 {
		return Outcome{Again: left}
	}
	return Outcome{Released: true}
}

// isSurplus reports whether a workload has scaled below the address.
func isSurplus(f *networkv1alpha1.FloatingIP, w State, before func(*networkv1alpha1.FloatingIP) int) bool {
	h := f.Spec.Holder
	if w.Replicas < 0 {
		return false
	}
	if h.Kind == "StatefulSet" {
		ordinal, err := strconv.Atoi(h.Pod[strings.LastIndex(h.Pod, "-")+1:])
		return err != nil || ordinal < w.FirstOrdinal || ordinal >= w.FirstOrdinal+w.Replicas
	}
	return h.Kind != "Pod" && before(f) >= w.Replicas
}

// Dropped returns what becomes of an address that a pod has and does not use, because it got another one, as on a node
// that does not carry the first. What a workload keeps until a person releases it returns to the workload.
func Dropped(f *networkv1alpha1.FloatingIP) Outcome {
	h := f.Spec.Holder
	return Outcome{Released: h.ReleasePolicy != networkv1alpha1.ReleaseNever || !wasKept(f)}
}

// wasKept reports whether an address was kept for its holder before the pod of the holder got it.
func wasKept(f *networkv1alpha1.FloatingIP) bool {
	h := f.Spec.Holder
	if h.ReleasePolicy == networkv1alpha1.ReleaseWithPod || len(f.Status.History) == 0 {
		return false
	}
	last := f.Status.History[0]
	return last.Kind == h.Kind && last.Namespace == h.Namespace && last.Name == h.Name && (!WorkloadOf(h).NamesPods() || last.Pod == h.Pod)
}

// Ended returns the FloatingIP after its pod has ended, with the outcome. The caller writes it.
func Ended(f *networkv1alpha1.FloatingIP, o Outcome, now metav1.Time) *networkv1alpha1.FloatingIP {
	after := f.DeepCopy()
	h := after.Spec.Holder
	if h.PodUID != "" {
		after.Status.History = slices.Insert(after.Status.History, 0, networkv1alpha1.FloatingIPUse{
			Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, Pod: h.Pod, Node: h.Node, From: h.Since, Until: now})
		if len(after.Status.History) > networkv1alpha1.HistoryLength {
			after.Status.History = after.Status.History[:networkv1alpha1.HistoryLength]
		}
		h.PodUID, h.Since = "", now
		if !WorkloadOf(h).NamesPods() {
			h.Pod = ""
		}
	}
	if o.Released {
		after.Spec.Holder = nil
	}
	return after
}

// freedAt returns when the last pod gave the address back.
func freedAt(f *networkv1alpha1.FloatingIP) *metav1.Time {
	if len(f.Status.History) == 0 {
		return &metav1.Time{}
	}
	return &f.Status.History[0].Until
}
