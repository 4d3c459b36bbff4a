package kind

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Zone is the part of the cluster whose rows an operator writes; empty is the default zone. The operator of the default zone also decides
// for the whole cluster: it writes all objects except other zones' pods. The other operators follow what it has written.
type Zone networkv1alpha1.ZoneName

// Follows reports whether the operator leaves the decisions for the cluster to another.
func (z Zone) Follows() bool { return z != "" }

// Database returns what the zone's database names as its owner. cluster is the UID of the namespace kube-system.
func (z Zone) Database(cluster string) string {
	if z == "" {
		return cluster
	}
	return cluster + "/" + string(z)
}

// Elsewhere reports whether another operator writes a node's rows.
func (z Zone) Elsewhere(nn *networkv1alpha1.NodeNetwork) bool { return Zone(nn.Spec.Zone) != z }

// Own returns the nodes of the zone. It returns the list itself if all are.
func (z Zone) Own(all []networkv1alpha1.NodeNetwork) []networkv1alpha1.NodeNetwork {
	first := 0
	for first < len(all) && !z.Elsewhere(&all[first]) {
		first++
	}
	if first == len(all) {
		return all
	}
	own := slices.Clone(all[:first])
	for i := first + 1; i < len(all); i++ {
		if !z.Elsewhere(&all[i]) {
			own = append(own, all[i])
		}
	}
	return own
}

// Client returns a client for an operator of this zone: a follower writes only pods and the conditions of NodeNetworks.
func (z Zone) Client(c client.Client) client.Client {
	if !z.Follows() {
		return c
	}
	return follower{c}
}

// Events returns a recorder for an operator of this zone: a follower records only events of pods.
func (z Zone) Events(r events.EventRecorder) events.EventRecorder {
	if !z.Follows() {
		return r
	}
	return quiet{r}
}

// ErrFollows is the error of a write that belongs to another operator and cannot be left out.
var ErrFollows = errors.New("this zone's operator does not create, change or delete objects")

// follower is a client that leaves out the writes that belong to the operator which decides for the cluster. Statuses are written by both
// from the same objects, so one of them is enough.
type follower struct{ client.Client }

func (follower) Create(context.Context, client.Object, ...client.CreateOption) error {
	return ErrFollows
}
func (follower) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return ErrFollows
}
func (follower) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return ErrFollows
}
func (follower) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return ErrFollows
}

func (follower) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return ErrFollows
}

// Patch writes the annotations of pods.
func (f follower) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if _, pod := o.(*corev1.Pod); pod {
		return f.Client.Patch(ctx, o, p, options...)
	}
	return ErrFollows
}

// SubResource implements client.Client. It only reads.
func (f follower) SubResource(name string) client.SubResourceClient {
	return followerSubResource{f.Client.SubResource(name)}
}

type followerSubResource struct{ client.SubResourceClient }

func (followerSubResource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return ErrFollows
}
func (followerSubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return ErrFollows
}
func (followerSubResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return ErrFollows
}
func (followerSubResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return ErrFollows
}

// Status implements client.Client.
func (f follower) Status() client.SubResourceWriter { return followerStatus{f.Client.Status()} }

type followerStatus struct{ client.SubResourceWriter }

// Patch writes the statuses of pods and NodeNetworks.
func (s followerStatus) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
	switch o.(type) {
	case *corev1.Pod, *networkv1alpha1.NodeNetwork:
		return s.SubResourceWriter.Patch(ctx, o, p, options...)
	}
	return nil
}

// Create implements client.SubResourceWriter.
func (followerStatus) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return nil
}

// Apply implements client.SubResourceWriter.
func (followerStatus) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

// Update implements client.SubResourceWriter.
func (followerStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return nil
}

// quiet is a recorder of events that are about pods.
type quiet struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (q quiet) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if _, pod := regarding.(*corev1.Pod); pod {
		q.EventRecorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	}
}
