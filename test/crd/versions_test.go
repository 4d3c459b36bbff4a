package crd

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// definitionsClient returns a client that reads and writes CustomResourceDefinitions.
func definitionsClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	definitions, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return definitions
}

// TestEachDefinitionStoresOneVersion covers failure mode O4. Each definition serves and stores one version without a
// converter: an older and a newer product read the same objects, and a deleted definition waits for no finalizer.
func TestEachDefinitionStoresOneVersion(t *testing.T) {
	definitions := definitionsClient(t)
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := definitions.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	ours := 0
	for i := range list.Items {
		d := &list.Items[i]
		if d.Spec.Group != v1alpha1.GroupName {
			continue
		}
		ours++
		if len(d.Spec.Versions) != 1 || len(d.Status.StoredVersions) != 1 || d.Status.StoredVersions[0] != v1alpha1.GroupVersion.Version {
			t.Errorf("%s has %d versions and stores %v", d.Name, len(d.Spec.Versions), d.Status.StoredVersions)
		}
		if c := d.Spec.Conversion; c != nil && c.Strategy != apiextensionsv1.NoneConverter {
			t.Errorf("%s is converted by %s", d.Name, c.Strategy)
		}
		for _, finalizer := range d.Finalizers {
			if finalizer != apiextensionsv1.CustomResourceCleanupFinalizer {
				t.Errorf("%s has the finalizer %s", d.Name, finalizer)
			}
		}
	}
	if ours != 12 {
		t.Errorf("%d definitions, want 12", ours)
	}
}
