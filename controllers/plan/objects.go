package plan

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/manifest"
	"github.com/weft-network/weft/pkg/process/admin"
)

// lay adds the objects of a request to the overlay, or deletes them.
func (s *simulation) lay(ctx context.Context, question admin.PlanRequest) error {
	for _, document := range question.Objects {
		object, err := s.decode(document)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", admin.ErrInvalid, document, err)
		}
		switch {
		case object == nil:
			s.notes.add("%s: Weft creates no rows for this kind", nameIn(document))
			continue
		case !s.has(document):
			s.notes.add("%s: the API server does not have this kind", nameIn(document))
			continue
		case question.Delete:
			err = s.remove(ctx, object, document)
		default:
			s.laid[client.ObjectKeyFromObject(object)] = true
			err = s.objects.Put(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", admin.ErrInvalid, document, err)
		}
	}
	return nil
}

// has reports whether the API server serves the kind of an object. It may lack the optional kinds.
func (s *simulation) has(document manifest.Document) bool {
	name := strings.ToLower(document.Object.GetKind())
	optional := slices.ContainsFunc(s.kinds, func(k *kind.Kind) bool { return k.Optional && k.Name == name })
	return !optional || s.env.Served.Has(name)
}

// nameIn names a document's object with its kind: "Pod demo/web-0".
func nameIn(document manifest.Document) string {
	return document.Object.GetKind() + " " + shortName(client.ObjectKeyFromObject(document.Object))
}

// decode returns the typed object, or nil for a type that no reconciler watches.
func (s *simulation) decode(document manifest.Document) (client.Object, error) {
	made, err := s.objects.Scheme().New(document.Object.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	object, ok := made.(client.Object)
	if !ok || !slices.ContainsFunc(s.watched(), func(o client.Object) bool { return reflect.TypeOf(o) == reflect.TypeOf(object) }) {
		return nil, nil
	}
	text, err := document.Object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(text, object)
}

// watched lists an object of each type that a reconciler watches.
func (s *simulation) watched() (objects []client.Object) {
	seen := map[reflect.Type]bool{}
	for _, k := range s.kinds {
		for _, w := range k.Watches {
			if of := reflect.TypeOf(w.Object); !seen[of] {
				seen[of] = true
				objects = append(objects, w.Object)
			}
		}
	}
	return objects
}

// remove deletes an object. For a namespace it also deletes the watched objects in it.
func (s *simulation) remove(ctx context.Context, object client.Object, document manifest.Document) error {
	if err := s.objects.Delete(ctx, object); apierrors.IsNotFound(err) {
		s.notes.add("%s: no such object exists", nameIn(document))
		return nil
	} else if err != nil {
		return err
	}
	if _, ok := object.(*corev1.Namespace); !ok {
		return nil
	}
	for _, watched := range s.watched() {
		if err := s.removeFrom(ctx, object.GetName(), watched); err != nil {
			return err
		}
	}
	return nil
}

// removeFrom deletes the objects of a type that are in a namespace.
func (s *simulation) removeFrom(ctx context.Context, namespace string, of client.Object) error {
	if namespaced, err := s.objects.IsObjectNamespaced(of); err != nil || !namespaced {
		return client.IgnoreNotFound(ignoreNoMatch(err))
	}
	gvk, err := s.objects.GroupVersionKindFor(of)
	if err != nil {
		return err
	}
	list, err := s.objects.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return err
	}
	objects := list.(client.ObjectList)
	if err := s.objects.List(ctx, objects, client.InNamespace(namespace)); err != nil {
		return err
	}
	return meta.EachListItem(objects, func(o runtime.Object) error { return s.objects.Delete(ctx, o.(client.Object)) })
}

// ignoreNoMatch drops the error for a type that the API server does not serve, because no such objects exist.
func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

func (s *simulation) pod(ctx context.Context, name types.NamespacedName) (corev1.Pod, error) {
	var pod corev1.Pod
	err := s.objects.Get(ctx, name, &pod)
	return pod, err
}
