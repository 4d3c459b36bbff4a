package crd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestExamplesAreAccepted checks that the examples shown by OLM, which are those in config/samples, are accepted,
// and that there is one of each kind. An unknown field is refused.
func TestExamplesAreAccepted(t *testing.T) {
	text, err := os.ReadFile("../../bundle/manifests/weft.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var csv metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(text, &csv); err != nil {
		t.Fatal(err)
	}
	var examples []unstructured.Unstructured
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for i := range examples {
		example := &examples[i]
		kinds[example.GroupVersionKind()] = true
		if example.GetNamespace() != "" {
			example.SetNamespace(metav1.NamespaceDefault) // the sample's namespace may not exist
		}
		if err := api.Create(t.Context(), example, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s: %v", example.GetKind(), err)
		}
	}
	crds, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(kinds) != len(crds) || len(examples) != len(crds) {
		t.Errorf("%d examples of %d kinds, want one of each of %d: %v", len(examples), len(kinds), len(crds), err)
	}
}
