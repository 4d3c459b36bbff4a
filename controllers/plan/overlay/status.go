package overlay

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusWriter writes statuses.
type statusWriter struct{ client *Client }

// Create implements client.SubResourceWriter.
func (*statusWriter) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return fmt.Errorf("%w: create a status", errUnsupported)
}

// Update implements client.SubResourceWriter.
func (s *statusWriter) Update(ctx context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.client.update(ctx, object, status)
}

// Patch implements client.SubResourceWriter.
func (s *statusWriter) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.client.patch(ctx, object, patch, status)
}

// Apply implements client.SubResourceWriter.
func (*statusWriter) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return fmt.Errorf("%w: apply a status", errUnsupported)
}

// unsupportedSubResource represents every subresource except the status.
type unsupportedSubResource struct{ name string }

func (u unsupportedSubResource) err() error {
	return fmt.Errorf("%w: subresource %s", errUnsupported, u.name)
}

// Get implements client.SubResourceReader.
func (u unsupportedSubResource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return u.err()
}

// Create implements client.SubResourceWriter.
func (u unsupportedSubResource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return u.err()
}

// Update implements client.SubResourceWriter.
func (u unsupportedSubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return u.err()
}

// Patch implements client.SubResourceWriter.
func (u unsupportedSubResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return u.err()
}

// Apply implements client.SubResourceWriter.
func (u unsupportedSubResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return u.err()
}
