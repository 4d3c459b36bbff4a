package overlay

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func labelsOf(object client.Object) labels.Set { return object.GetLabels() }

// Create implements client.Writer.
func (c *Client) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	key, have, err := c.current(ctx, object)
	if err == nil && have != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: key.kind.Group, Resource: key.kind.Kind}, key.name.String())
	}
	if err != nil {
		return err
	}
	object.SetUID(UnknownUID)
	object.SetResourceVersion(string(UnknownUID))
	c.store(key, nil, copyOf(object))
	return nil
}

// current returns the current object, or nil.
func (c *Client) current(ctx context.Context, object client.Object) (id, client.Object, error) {
	key, err := c.idOf(object)
	if err != nil {
		return key, nil, err
	}
	have, err := c.newOf(object)
	if err != nil {
		return key, nil, err
	}
	if err := c.Get(ctx, key.name, have); apierrors.IsNotFound(err) {
		return key, nil, nil
	} else if err != nil {
		return key, nil, err
	}
	return key, have, nil
}

// Delete implements client.Writer. It ignores finalizers and grace periods, because a plan computes the final state.
func (c *Client) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	key, have, err := c.current(ctx, object)
	if err != nil {
		return err
	}
	if have == nil {
		return notFound(key)
	}
	var wanted client.DeleteOptions
	wanted.ApplyOptions(options)
	if p := wanted.Preconditions; p != nil && p.UID != nil && *p.UID != have.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: key.kind.Group, Resource: key.kind.Kind},
			key.name.String(), fmt.Errorf("its UID is %s", have.GetUID()))
	}
	c.over[key] = nil
	c.changed(have, nil)
	return nil
}

// part is the part of an object that a write changes.
type part int

const (
	main part = iota
	status
)

// write applies change to the JSON of the current object, and returns the result in object.
func (c *Client) write(ctx context.Context, object client.Object, p part, change func(have map[string]any) (map[string]any, error)) error {
	key, have, err := c.current(ctx, object)
	if err != nil {
		return err
	}
	if have == nil {
		return notFound(key)
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	if err != nil {
		return err
	}
	after, err := change(runtime.DeepCopyJSON(before))
	if err != nil {
		return fmt.Errorf("%s %s: %w", key.kind.Kind, key.name, err)
	}
	result, err := c.newOf(object)
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(keep(before, after, p), result); err != nil {
		return fmt.Errorf("%s %s: %w", key.kind.Kind, key.name, err)
	}
	result.SetUID(have.GetUID())
	if !same(have, result) {
		c.store(key, have, copyOf(result))
	}
	return assign(object, result)
}

// keep restores from before everything that a write to a part must not change. The status is written separately.
func keep(before, after map[string]any, p part) map[string]any {
	if p == main {
		before, after = after, before
	}
	// after's status, everything else from before
	if value, ok := after["status"]; ok {
		before["status"] = value
	} else {
		delete(before, "status")
	}
	return before
}

func (c *Client) update(ctx context.Context, object client.Object, p part) error {
	return c.write(ctx, object, p, func(map[string]any) (map[string]any, error) {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	})
}

func (c *Client) patch(ctx context.Context, object client.Object, patch client.Patch, p part) error {
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	var with map[string]any
	if err := json.Unmarshal(text, &with); err != nil {
		return err
	}
	return c.write(ctx, object, p, func(have map[string]any) (map[string]any, error) {
		switch patch.Type() {
		case types.MergePatchType:
			return merge(have, with, false), nil
		case types.ApplyPatchType:
			return merge(have, with, true), nil
		case types.StrategicMergePatchType:
			return strategicpatch.StrategicMergeMapPatch(have, with, object)
		}
		return nil, fmt.Errorf("%w: patch of type %s", errUnsupported, patch.Type())
	})
}

// merge applies a JSON merge patch (RFC 7386) to an object. With apply, lists of objects that have a type, such as
// conditions, are merged by it, as in a server-side apply. Fields that an applier has given up stay.
func merge(have, with map[string]any, apply bool) map[string]any {
	if have == nil {
		have = map[string]any{}
	}
	for name, value := range with {
		switch v := value.(type) {
		case nil:
			delete(have, name)
		case map[string]any:
			below, _ := have[name].(map[string]any)
			have[name] = merge(below, v, apply)
		case []any:
			below, _ := have[name].([]any)
			if apply && typed(v) && typed(below) {
				have[name] = mergeByType(below, v)
			} else {
				have[name] = v
			}
		default:
			have[name] = v
		}
	}
	return have
}

func typed(list []any) bool {
	for _, item := range list {
		if m, ok := item.(map[string]any); !ok || m["type"] == nil {
			return false
		}
	}
	return true
}

func mergeByType(have, with []any) []any {
	for _, item := range with {
		i := 0
		for ; i < len(have) && field(have[i]) != field(item); i++ {
		}
		if i == len(have) {
			have = append(have, item)
		} else {
			have[i] = item
		}
	}
	return have
}

func field(item any) any {
	m, _ := item.(map[string]any)
	return m["type"]
}

// Update implements client.Writer.
func (c *Client) Update(ctx context.Context, object client.Object, _ ...client.UpdateOption) error {
	return c.update(ctx, object, main)
}

// Patch implements client.Writer.
func (c *Client) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, object, patch, main)
}

// Apply implements client.Writer.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return fmt.Errorf("%w: apply", errUnsupported)
}

// DeleteAllOf implements client.Writer.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return fmt.Errorf("%w: delete all", errUnsupported)
}

// Status implements client.StatusClient.
func (c *Client) Status() client.SubResourceWriter { return &statusWriter{c} }

// SubResource implements client.SubResourceClientConstructor. The status is the only supported subresource.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return unsupportedSubResource{name}
}
