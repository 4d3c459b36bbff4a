package policy

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weft-network/weft/controllers/kind"
)

// Definitions follows the CRDs of the kinds of policies.
type Definitions struct {
	// Live reads from the API server, past the cache, which has only the metadata of CRDs.
	Live  client.Reader
	Kinds []*Optional

	cache cache.Cache
}

var customResourceDefinition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func (r *Definitions) kind() *kind.Kind {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(customResourceDefinition)
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return r.of(o.GetName()) != nil })
	return &kind.Kind{
		Name: "policy-kinds", Reconciler: r, SkipInPlan: true,
		Watches: []kind.Watch{kind.Of(crd, ours).MetadataOnly()},
		Built: func(mgr ctrl.Manager, _ controller.Controller) error {
			r.cache = mgr.GetCache()
			return nil
		},
	}
}

// Reconcile implements reconcile.Reconciler.
func (r *Definitions) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	optional := r.of(req.Name)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(customResourceDefinition)
	switch err := r.Live.Get(ctx, req.NamespacedName, crd); {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, optional.end(ctx, r.cache)
	case err != nil:
		return ctrl.Result{}, err
	case !serves(crd, optional.Kind.Version): // when it serves the version, the CRD changes
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, optional.begin(ctx, r.cache)
}

func (r *Definitions) of(crd string) *Optional {
	for _, o := range r.Kinds {
		if o.Kind.Definition == crd {
			return o
		}
	}
	return nil
}

// serves reports whether the API server serves a version of a CRD.
func serves(crd *unstructured.Unstructured, version string) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return has(conditions, map[string]any{"type": "Established", "status": "True"}) &&
		has(versions, map[string]any{"name": version, "served": true})
}

// has reports whether one of a list's objects has all these fields.
func has(list []any, fields map[string]any) bool {
	for _, one := range list {
		object, _ := one.(map[string]any)
		all := object != nil
		for name, value := range fields {
			all = all && object[name] == value
		}
		if all {
			return true
		}
	}
	return false
}
