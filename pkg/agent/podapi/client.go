// Package podapi reads and writes single pods. A node's agent watches none: the few pods that request more than an
// ordinary pod cost a read each.
package podapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/attach"
)

// ErrReplaced says that a sandbox's pod does not exist any more.
var ErrReplaced = errors.New("the pod of this sandbox does not exist any more")

// uncached reads from the API server: a node's agent watches neither pods nor definitions.
type uncached struct {
	client.Client
	live client.Reader
}

// Uncached returns a manager's client, with reads past the cache.
func Uncached(mgr manager.Manager) client.Client {
	return uncached{Client: mgr.GetClient(), live: mgr.GetAPIReader()}
}

// Get implements client.Reader.
func (u uncached) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return u.live.Get(ctx, name, object, options...)
}

// Read returns the pod of a sandbox, or ErrReplaced.
func Read(ctx context.Context, api client.Reader, sandbox attach.Sandbox) (*corev1.Pod, error) {
	var pod corev1.Pod
	name := types.NamespacedName{Namespace: sandbox.Namespace, Name: sandbox.Pod}
	if err := api.Get(ctx, name, &pod); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s: %w", name, ErrReplaced)
	} else if err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	if sandbox.UID != "" && networkv1alpha1.InterfaceUID(&pod) != sandbox.UID {
		return nil, fmt.Errorf("pod %s has UID %s, not %s: %w", name, pod.UID, sandbox.UID, ErrReplaced)
	}
	return &pod, nil
}

// Patch writes a pod's status and, with it, its annotations. The UID makes the patch fail on a pod that was recreated
// under this name, with ErrReplaced.
func Patch(ctx context.Context, api client.Client, pod, patched *corev1.Pod) error {
	before := pod.DeepCopy()
	before.ResourceVersion, before.UID, patched.ResourceVersion = "", "", ""
	err := api.Status().Patch(ctx, patched, client.StrategicMergeFrom(before))
	switch {
	case err == nil:
		patched.DeepCopyInto(pod)
		return nil
	case isOfAnother(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s: %w", client.ObjectKeyFromObject(pod), ErrReplaced)
	}
	return err
}

// isOfAnother reports whether the API server refuses a patch because the object has another UID.
func isOfAnother(err error) bool {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) || refused.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(refused.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
