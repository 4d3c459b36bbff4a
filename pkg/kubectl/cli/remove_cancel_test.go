package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// A conflict with a writer of the status repeats the step, and the command says once where the manifest is.
func TestCancelSaysOnceWhereTheManifestIs(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "uid",
		Finalizers: []string{networkv1alpha1.OperandsFinalizer}, DeletionTimestamp: new(metav1.Now())}}
	conflicts := 1
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cn).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if conflicts--; conflicts >= 0 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "clusternetworks"}, "default", nil)
			}
			return c.Patch(ctx, o, p, options...)
		}}).Build()
	var out bytes.Buffer
	r := &cancelCommand{save: filepath.Join(t.TempDir(), "network.yaml")}
	if err := r.run(t.Context(), api, &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); conflicts >= 0 || strings.Count(text, "The manifest is saved in") != 1 ||
		!strings.HasSuffix(text, "The deletion was taken back.\n") {
		t.Errorf("after %d conflicts:\n%s", 1-conflicts, text)
	}
}
