package cli

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/weft-network/weft/pkg/manifest"
)

// fieldManager identifies this program to the API server.
const fieldManager = "kubectl-weft"

// dryRun lets the API server compute what it would store, as "kubectl apply" and "kubectl delete" do with
// --dry-run=server. So defaults, validation and error messages are the API server's.
type dryRun struct {
	objects   dynamic.Interface
	mapper    meta.RESTMapper
	namespace string // of objects that name none
	// creates are the namespaces that the manifests would create. In such a namespace the API server cannot dry-run
	// anything.
	creates map[string]bool
	notes   []string
}

func newDryRun(config *rest.Config, namespace string, documents []manifest.Document) (*dryRun, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	d := &dryRun{
		objects: objects, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)),
		namespace: namespace, creates: map[string]bool{},
	}
	for _, document := range documents {
		if document.Object.GetKind() == "Namespace" && document.Object.GroupVersionKind().Group == "" {
			d.creates[document.Object.GetName()] = true
		}
	}
	return d, nil
}

// resource returns the API of an object's kind. It sets the namespace of a namespaced object that has none.
func (d *dryRun) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := object.GroupVersionKind()
	mapping, err := d.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		object.SetNamespace("")
		return d.objects.Resource(mapping.Resource), nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(d.namespace)
	}
	return d.objects.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// apply returns the object as the API server would store it. Its errors name the document.
func (d *dryRun) apply(ctx context.Context, document manifest.Document) (*unstructured.Unstructured, error) {
	resource, err := d.resource(document.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	stored, err := d.store(ctx, resource, document.Object)
	if apierrors.IsNotFound(err) && d.creates[document.Object.GetNamespace()] {
		d.notes = append(d.notes, fmt.Sprintf("%s: not checked by the API server, because its namespace does not exist yet", document))
		return document.Object, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	return stored, nil
}

func (d *dryRun) store(
	ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	live, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return resource.Create(ctx, object, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict,
		})
	}
	if err != nil {
		return nil, err
	}
	kind, patch, err := applyPatch(live, object)
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, object.GetName(), kind, patch, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
}

// applyPatch returns the patch that "kubectl apply" would send. It sets the fields of the manifest, and removes
// fields that only the previously applied manifest had.
func applyPatch(live, wanted *unstructured.Unstructured) (types.PatchType, []byte, error) {
	original := []byte(live.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"])
	current, err := json.Marshal(live)
	if err != nil {
		return "", nil, err
	}
	modified, err := json.Marshal(wanted)
	if err != nil {
		return "", nil, err
	}
	lookup, err := patchMeta(wanted.GroupVersionKind())
	if err != nil {
		return "", nil, err
	}
	if lookup == nil { // not a built-in kind
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
		return types.MergePatchType, patch, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, lookup, true)
	return types.StrategicMergePatchType, patch, err
}

// patchMeta returns how the lists of a built-in kind are merged. It returns nil for other kinds.
func patchMeta(gvk schema.GroupVersionKind) (strategicpatch.LookupPatchMeta, error) {
	if !scheme.Scheme.Recognizes(gvk) {
		return nil, nil
	}
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return strategicpatch.NewPatchMetaFromStruct(object)
}

// remove dry-runs the deletion of the object. A missing object is not an error.
func (d *dryRun) remove(ctx context.Context, document manifest.Document) (*unstructured.Unstructured, error) {
	resource, err := d.resource(document.Object)
	if err == nil {
		err = resource.Delete(ctx, document.Object.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	return document.Object, nil
}
