package program

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/config"
)

// establishTimeout bounds how long a new CustomResourceDefinition may take until the API server serves its kind.
const establishTimeout = 30 * time.Second

// ensureDefinitions creates the CustomResourceDefinitions of NetworkAttachmentDefinitions and of MultiNetworkPolicies
// where they are absent, and waits until the API server serves them. A definition that another program brought stays
// as it is.
func ensureDefinitions(ctx context.Context, to *rest.Config) error {
	c, err := client.NewWithWatch(to, client.Options{})
	if err != nil {
		return err
	}
	for _, manifest := range [][]byte{config.AttachmentDefinitions, config.MultiNetworkPolicies} {
		if err := ensureDefinition(ctx, c, manifest); err != nil {
			return err
		}
	}
	return nil
}

func ensureDefinition(ctx context.Context, c client.WithWatch, manifest []byte) error {
	want := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &want.Object); err != nil {
		return err
	}
	name := client.ObjectKeyFromObject(want)
	have := want.DeepCopy()
	if err := c.Get(ctx, name, have); err == nil {
		return nil
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("CustomResourceDefinition %s: %w", name.Name, err)
	}
	if err := c.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("CustomResourceDefinition %s: %w", name.Name, err)
	}
	return awaitEstablished(ctx, c, name.Name)
}

// awaitEstablished waits until the API server serves the kind of a CustomResourceDefinition.
func awaitEstablished(ctx context.Context, c client.WithWatch, name string) error {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	changes, err := c.Watch(ctx, list, client.MatchingFields{"metadata.name": name}) // the first event is the object as it is
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: %w", name, err)
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		if crd, ok := change.Object.(*unstructured.Unstructured); ok && isEstablished(crd) {
			return nil
		}
	}
	return fmt.Errorf("CustomResourceDefinition %s is not served after %s", name, establishTimeout)
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}
