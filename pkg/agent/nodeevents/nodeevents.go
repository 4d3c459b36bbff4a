// Package nodeevents records Events that name the node they come from. The API server accepts an agent's Event only if
// its reportingInstance is the Node in the agent's token (config/policy/agents.yaml). client-go's own recorders write
// the host's name there, which can differ from the Node's.
package nodeevents

import (
	"context"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Controller is the reportingController of an agent's Events.
const Controller = "weft-agent"

// NewRecorder returns a recorder of Events from a Node, which writes them while the manager runs, and ends with ctx.
func NewRecorder(ctx context.Context, mgr ctrl.Manager, node string) (events.EventRecorder, error) {
	broadcaster := events.NewBroadcaster(NewSink(mgr.GetClient(), node))
	context.AfterFunc(ctx, broadcaster.Shutdown) // also of a manager that ends before it starts its parts
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		<-ctx.Done()
		return nil
	}))
	return broadcaster.NewRecorder(mgr.GetScheme(), Controller), err
}

// NewSink returns a sink that writes Events from a Node.
func NewSink(c client.Client, node string) events.EventSink { return &sink{c, node} }

type sink struct {
	client client.Client
	node   string
}

// Create implements events.EventSink.
func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	created := event.DeepCopy() // the broadcaster identifies its series by the original event
	created.ReportingInstance = s.node
	return created, s.client.Create(ctx, created)
}

// Update implements events.EventSink.
func (s *sink) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	updated := event.DeepCopy()
	updated.ReportingInstance = s.node
	return updated, s.client.Update(ctx, updated)
}

// Patch implements events.EventSink. It adds to the series of an event.
func (s *sink) Patch(ctx context.Context, event *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	patched := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: event.Namespace, Name: event.Name}}
	return patched, s.client.Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
}

// maxNote is the length in bytes of the longest note that the API server accepts.
const maxNote = 1024

// Note returns an error's text as an event's note, truncated to the permitted length.
func Note(why error) string {
	note := why.Error()
	return strings.ToValidUTF8(note[:min(len(note), maxNote)], "")
}
