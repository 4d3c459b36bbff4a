// Package overlay is a client of a cluster that does not exist: the objects of another client, some of which are
// replaced. Writes stay in memory. A plan runs the real reconcilers on it.
package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// UnknownUID is the UID of an object that does not exist yet, because the API server assigns it at creation.
const UnknownUID types.UID = "(known after apply)"

// errUnsupported means that a reconciler used a call that a plan cannot simulate.
var errUnsupported = errors.New("a plan cannot simulate this call")

// Client is a client.Client whose writes stay in memory. It is not safe for concurrent use.
type Client struct {
	base    client.Client // is only read
	changed func(before, after client.Object)
	over    map[id]client.Object // nil means deleted
	indexes map[string]func(client.Object) []string
}

var _ client.Client = &Client{}

// id identifies an object, whatever version it is read in.
type id struct {
	kind schema.GroupKind
	name types.NamespacedName
}

// New returns a client that reads from base, except for written objects. changed is called after each write that
// changed an object, with the object before and after it. before is nil for a new object, after is nil for a deleted
// one.
func New(base client.Client, changed func(before, after client.Object)) *Client {
	return &Client{base: base, changed: changed, over: map[id]client.Object{}, indexes: map[string]func(client.Object) []string{}}
}

// Index adds an index of the base, for all kinds, so that objects of the overlay are found by it too.
func (c *Client) Index(field string, values func(client.Object) []string) { c.indexes[field] = values }

func (c *Client) idOf(object client.Object) (id, error) {
	gvk, err := c.GroupVersionKindFor(object)
	return id{gvk.GroupKind(), client.ObjectKeyFromObject(object)}, err
}

// Put replaces or adds an object. An object that the base lacks is new, and has no UID yet.
func (c *Client) Put(ctx context.Context, object client.Object) error {
	key, err := c.idOf(object)
	if err != nil {
		return err
	}
	object = copyOf(object)
	have, err := c.newOf(object)
	if err != nil {
		return err
	}
	switch err := c.Get(ctx, key.name, have); {
	case apierrors.IsNotFound(err):
		object.SetUID(UnknownUID)
		have = nil
	case err != nil:
		return err
	case object.GetUID() != have.GetUID():
		return fmt.Errorf("%s %s exists with UID %s, not %q: the object must be as the API server would store it",
			key.kind.Kind, key.name, have.GetUID(), object.GetUID())
	}
	c.store(key, have, object)
	return nil
}

// store writes an object under its name. before is nil if none existed.
func (c *Client) store(key id, before, object client.Object) {
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as the cache returns objects
	if object.GetResourceVersion() == "" {                                // patches with an optimistic lock need a version
		object.SetResourceVersion(string(UnknownUID))
	}
	c.over[key] = object
	c.changed(before, object)
}

// Get implements client.Reader.
func (c *Client) Get(ctx context.Context, name types.NamespacedName, into client.Object, options ...client.GetOption) error {
	gvk, err := c.GroupVersionKindFor(into)
	if err != nil {
		return err
	}
	key := id{gvk.GroupKind(), name}
	object, laid := c.over[key]
	switch {
	case !laid:
		return c.base.Get(ctx, name, into, options...)
	case object == nil:
		return notFound(key)
	}
	if metadata, ok := into.(*metav1.PartialObjectMetadata); ok {
		metadata.ObjectMeta = *metadataOf(copyOf(object))
		return nil
	}
	return assign(into, object)
}

func metadataOf(object client.Object) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Generation: object.GetGeneration(), Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		OwnerReferences: object.GetOwnerReferences(), Finalizers: object.GetFinalizers(),
	}
}

func notFound(key id) error {
	resource := schema.GroupResource{Group: key.kind.Group, Resource: strings.ToLower(key.kind.Kind)}
	return apierrors.NewNotFound(resource, key.name.String())
}

// assign copies an object into another of its type.
func assign(into, object client.Object) error {
	to, from := reflect.ValueOf(into), reflect.ValueOf(copyOf(object))
	if to.Type() != from.Type() {
		return fmt.Errorf("%w: read %T as %T", errUnsupported, object, into)
	}
	to.Elem().Set(from.Elem())
	return nil
}

func copyOf(object client.Object) client.Object {
	copied, _ := object.DeepCopyObject().(client.Object) // the copy of a client.Object is a client.Object
	return copied
}

// newOf returns an empty object of the same type.
func (c *Client) newOf(object client.Object) (client.Object, error) {
	empty, ok := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", object)
	}
	return empty, nil
}

// List implements client.Reader.
func (c *Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	gvk, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	if err := c.base.List(ctx, list, options...); err != nil {
		return err
	}
	kind := schema.GroupKind{Group: gvk.Group, Kind: strings.TrimSuffix(gvk.Kind, "List")}
	return c.overlay(kind, list, options)
}

// overlay applies the overlay's replacements, deletions and additions to a list of the base.
func (c *Client) overlay(kind schema.GroupKind, list client.ObjectList, options []client.ListOption) error {
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	var found []runtime.Object
	laid := map[id]bool{}
	for key := range c.over {
		if key.kind == kind {
			laid[key] = true
		}
	}
	if len(laid) == 0 {
		return nil
	}
	indexed, ok := c.byIndex(wanted)
	if !ok {
		return fmt.Errorf("%w: list %s by %s", errUnsupported, kind.Kind, wanted.FieldSelector)
	}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if object, ok := o.(client.Object); ok && !laid[id{kind, client.ObjectKeyFromObject(object)}] {
			found = append(found, o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(laid), func(a, b id) int { return cmp.Compare(a.name.String(), b.name.String()) }) {
		if object := c.over[key]; object != nil && matches(object, wanted) && indexed(object) {
			found = append(found, copyOf(object))
		}
	}
	return meta.SetList(list, found)
}

// byIndex returns a function that reports whether an object has the wanted values of the indexes. ok is false if an
// index is unknown.
func (c *Client) byIndex(wanted client.ListOptions) (matches func(client.Object) bool, ok bool) {
	if wanted.FieldSelector == nil || wanted.FieldSelector.Empty() {
		return func(client.Object) bool { return true }, true
	}
	requirements := wanted.FieldSelector.Requirements()
	for _, r := range requirements {
		if c.indexes[r.Field] == nil {
			return nil, false
		}
	}
	return func(object client.Object) bool {
		return !slices.ContainsFunc(requirements, func(r fields.Requirement) bool {
			return !slices.Contains(c.indexes[r.Field](object), r.Value)
		})
	}, true
}

func matches(object client.Object, wanted client.ListOptions) bool {
	return (wanted.Namespace == "" || wanted.Namespace == object.GetNamespace()) &&
		(wanted.LabelSelector == nil || wanted.LabelSelector.Matches(labelsOf(object)))
}

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.base.Scheme() }

// RESTMapper implements client.Client.
func (c *Client) RESTMapper() meta.RESTMapper { return c.base.RESTMapper() }

// GroupVersionKindFor implements client.Client.
func (c *Client) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return c.base.GroupVersionKindFor(object)
}

// IsObjectNamespaced implements client.Client.
func (c *Client) IsObjectNamespaced(object runtime.Object) (bool, error) {
	return c.base.IsObjectNamespaced(object)
}

func same(a, b client.Object) bool { return equality.Semantic.DeepEqual(a, b) }
