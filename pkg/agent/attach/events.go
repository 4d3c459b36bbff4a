package attach

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Reasons of events on pods.
const (
	eventNotAttached = "FailedInterfaceCreation" // an ADD failed at a stage
	eventCheckFailed = "FailedInterfaceCheck"    // the interface differs from what was made
)

// podOf returns the object of an event. The agent does not read pods, but the runtime's requests name them.
func podOf(namespace, name, uid string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

// FailedAdd records an event on the pod of an ADD that failed, and passes the stage to observe.
func FailedAdd(recorder events.EventRecorder, observe func(stage string)) func(cniwire.Request, string, error) {
	return func(req cniwire.Request, stage string, why error) {
		observe(stage)
		pod := podOf(req.Args.PodNamespace, req.Args.PodName, req.Args.PodUID)
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, eventNotAttached, "AddInterface", "%s", nodeevents.Note(why))
	}
}

// FailedCheck records an event on the pod whose interface differs from what was made.
func FailedCheck(recorder events.EventRecorder) func(desired.Attachment, error) {
	return func(a desired.Attachment, why error) {
		namespace, name, _ := names.PodOfPort(a.InterfaceID)
		pod := podOf(namespace, name, a.PodUID)
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, eventCheckFailed, "CheckInterface", "%s", nodeevents.Note(why))
	}
}
