package network

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	requests "github.com/weft-network/weft/pkg/networks"
)

// define makes the Network's definition in each selected namespace, and removes it from the others. It returns the namespaces whose
// definition of that name is another author's, sorted.
func (r *Reconciler) define(ctx context.Context, n *networkv1alpha1.Network) (foreign []string, err error) {
	selector, err := metav1.LabelSelectorAsSelector(n.Spec.Namespaces)
	if err != nil {
		return nil, invalidNetwork{fmt.Errorf("spec.namespaces: %w", err)} // the definitions stay
	}
	selected, err := r.namespaces(ctx, selector)
	if err != nil {
		return nil, err
	}
	var have nadv1.NetworkAttachmentDefinitionList
	if err := r.Client.List(ctx, &have, client.MatchingLabels{networkv1alpha1.NetworkLabel: n.Name}); err != nil {
		return nil, err
	}
	var failures []error
	for i := range have.Items {
		if nad := &have.Items[i]; !slices.Contains(selected, nad.Namespace) || nad.Name != n.Name {
			failures = append(failures, client.IgnoreNotFound(r.Client.Delete(ctx, nad, client.Preconditions{UID: &nad.UID})))
		}
	}
	for _, namespace := range selected {
		ours, err := r.ensureDefinition(ctx, n, namespace)
		failures = append(failures, err)
		if !ours {
			foreign = append(foreign, namespace)
		}
	}
	return foreign, errors.Join(failures...)
}

// namespaces returns the names of the namespaces that a selector selects and that are not being deleted, sorted.
func (r *Reconciler) namespaces(ctx context.Context, selector labels.Selector) (names []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := r.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// ensureDefinition makes the definition of a namespace, or puts it right. ours is false if another author's has its name.
func (r *Reconciler) ensureDefinition(ctx context.Context, n *networkv1alpha1.Network, namespace string) (ours bool, err error) {
	var have nadv1.NetworkAttachmentDefinition
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: n.Name}, &have)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, definitionOf(n, namespace))
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, "NamespaceTerminating") || apierrors.IsNotFound(err) {
			return true, nil // the cache is behind, and its next event enqueues the Network
		}
		return true, wrap(err, namespace, n.Name)
	case err != nil:
		return true, err
	case have.Labels[networkv1alpha1.NetworkLabel] != n.Name:
		return false, nil
	}
	want := definitionOf(n, namespace)
	if have.Spec == want.Spec && metav1.IsControlledBy(&have, n) {
		return true, nil
	}
	before := kind.Detach(&have)
	have.Spec, have.OwnerReferences = want.Spec, want.OwnerReferences
	return true, wrap(client.IgnoreNotFound(r.Client.Patch(ctx, &have, client.MergeFrom(before))), namespace, n.Name)
}

func wrap(err error, namespace, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("NetworkAttachmentDefinition %s/%s: %w", namespace, name, err)
}

// definitionOf returns the definition that attaches to a Network. The Network owns it, so that it goes with the Network.
func definitionOf(n *networkv1alpha1.Network, namespace string) *nadv1.NetworkAttachmentDefinition {
	nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: requests.ConfigOf(n.Name)}}
	nad.Namespace, nad.Name, nad.Labels = namespace, n.Name, map[string]string{networkv1alpha1.NetworkLabel: n.Name}
	nad.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(n, networkv1alpha1.GroupVersion.WithKind("Network"))}
	nad.OwnerReferences[0].BlockOwnerDeletion = nil // it would need the right to update the Network's finalizers
	return nad
}
