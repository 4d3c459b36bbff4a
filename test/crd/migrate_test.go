package crd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weft-network/weft/test/lab/tools"
)

// TestMigratedManifestsAreAccepted checks that the API server accepts what "kubectl weft migrate inspect" writes for each
// network, without a field that it does not know.
func TestMigratedManifestsAreAccepted(t *testing.T) {
	module, err := tools.ModuleFolder(t.Context(), "policyapi", "go.mod", "sigs.k8s.io/network-policy-api")
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(module, "config", "crd", "standard", "policy.networking.k8s.io_clusternetworkpolicies.yaml")
	installed, err := envtest.InstallCRDs(restConfig, envtest.CRDInstallOptions{Paths: []string{crd}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(restConfig, envtest.CRDInstallOptions{CRDs: installed}); err != nil {
			t.Error(err)
		}
	})
	files, err := filepath.Glob("../../pkg/kubectl/migrate/testdata/*/manifests.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	accepted := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if o.GetNamespace() != "" {
				o.SetNamespace(metav1.NamespaceDefault) // the object's own may not exist
			}
			if err := api.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Errorf("%s: %s %s: %v", file, o.GetKind(), o.GetName(), err)
			}
			accepted++
		}
	}
	t.Logf("%d manifests", accepted)
}
