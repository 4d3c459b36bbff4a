package cli

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// removalPatience is how long the removal of the namespace is awaited.
const removalPatience = time.Minute

// removeEarlier removes what an earlier check has left, because it was killed. The namespace of a check that may still
// run, of another user, is named and stays.
func (b *bed) removeEarlier(ctx context.Context) error {
	var all corev1.NamespaceList
	if err := b.api.List(ctx, &all, client.HasLabels{connectivity.NamespaceLabel}); err != nil {
		return err
	}
	for i := range all.Items {
		n := &all.Items[i]
		switch {
		case n.DeletionTimestamp != nil:
			b.notes = append(b.notes, "namespace "+n.Name+" of an earlier check is still being removed")
		case connectivity.Ended(n, time.Now()):
			if err := b.api.Delete(ctx, n); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("remove namespace %s of an earlier check: %w", n.Name, err)
			}
			b.say("removing namespace %s, which an earlier check has left", n.Name)
		default:
			b.notes = append(b.notes, fmt.Sprintf("namespace %s belongs to another check that may run until %s, or was kept",
				n.Name, n.Annotations[connectivity.UntilAnnotation]))
		}
	}
	return nil
}

// remove removes the namespace and waits until it is gone.
func (b *bed) remove(ctx context.Context) error {
	if !b.made || b.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removalPatience)
	defer cancel()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Namespace}}
	if err := b.api.Delete(ctx, n); client.IgnoreNotFound(err) != nil {
		return err
	}
	b.now("removing namespace %s", b.Namespace)
	gone := false
	err := b.until(ctx, func() (bool, error) {
		err := b.api.Get(ctx, client.ObjectKeyFromObject(n), n)
		gone = apierrors.IsNotFound(err)
		return gone, client.IgnoreNotFound(err)
	})
	switch {
	case err != nil:
		return err
	case gone:
		b.say("removed namespace %s", b.Namespace)
	default:
		b.say("namespace %s is still being removed; its pods end when their nodes respond", b.Namespace)
	}
	return nil
}
