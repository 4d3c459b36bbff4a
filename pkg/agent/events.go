package agent

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/names"
)

// Reasons of events on pods.
const (
	eventNotAttached = "FailedInterfaceCreation" // an ADD ended at a stage that did not come
	eventCheckFailed = "FailedInterfaceCheck"    // the interface is not as it was made
)

// podOf is what an event regards: the agent does not read pods, but the runtime tells it of them.
func podOf(namespace, name, uid string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

// maxNote is the length in bytes of the longest note that the API server accepts.
const maxNote = 1024

func noteOf(why error) string {
	note := why.Error()
	return strings.ToValidUTF8(note[:min(len(note), maxNote)], "")
}

// failedAdd tells of ADDs that failed: by stage for metrics, and on the pod, where users look.
func failedAdd(recorder events.EventRecorder, o Options) func(cniwire.Request, string, error) {
	return func(req cniwire.Request, stage string, why error) {
		o.ObserveStageFailed(stage)
		pod := podOf(req.Args.PodNamespace, req.Args.PodName, req.Args.PodUID)
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, eventNotAttached, "AddInterface", "%s", noteOf(why))
	}
}

// failedCheck tells a pod that its interface is not as it was made.
func failedCheck(recorder events.EventRecorder) func(desired.Attachment, error) {
	return func(a desired.Attachment, why error) {
		namespace, name, _ := names.ParsePodPort(a.InterfaceID)
		recorder.Eventf(podOf(namespace, name, a.PodUID), nil, corev1.EventTypeWarning, eventCheckFailed, "CheckInterface", "%s", noteOf(why))
	}
}

// tellConditions makes an event of each condition of the node that changed. The write that it follows was of the version before it, so that
// what was there is known.
func (r *nodeReconciler) tellConditions(before *networkv1alpha1.NodeNetwork, now []metav1.Condition) {
	if r.events == nil {
		return
	}
	for _, change := range health.Changes(before.Status.Conditions, now) {
		kind := corev1.EventTypeNormal
		if change.Bad {
			kind = corev1.EventTypeWarning
		}
		r.events.Eventf(before, nil, kind, change.Reason, "Report"+change.Type, "%s", noteOf(fmt.Errorf("%s is %s: %s", change.Type, change.Status, change.Message)))
	}
}
