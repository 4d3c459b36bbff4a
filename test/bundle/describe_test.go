package bundle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	scorecardv1alpha3 "github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// leaves walks a schema in YAML form, and calls call with the path and description of each field.
func leaves(schema map[string]any, path string, call func(path, description string)) {
	if items, ok := schema["items"].(map[string]any); ok {
		leaves(items, path+"[0]", call)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		description, _ := p.(map[string]any)["description"].(string)
		call(at, description)
		leaves(p.(map[string]any), at, call)
	}
}

// ofKubernetes reports whether a field is within a type of Kubernetes, which is described as a whole.
func ofKubernetes(path string) bool {
	return strings.HasPrefix(path, "conditions[0].") || strings.Contains(path, "elector.match") || strings.HasPrefix(path, "namespaces.match")
}

// TestFieldsAreDescribed checks that exactly the fields of spec and status are described, by their docstrings.
func TestFieldsAreDescribed(t *testing.T) {
	b := loaded(t)
	for _, crd := range installed(t).of("CustomResourceDefinition") {
		described := map[string]string{} // spec.mtu -> its description
		for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
			if owned.Name != crd.GetName() {
				continue
			}
			for _, d := range owned.SpecDescriptors {
				described["spec."+d.Path] = d.Description
			}
			for _, d := range owned.StatusDescriptors {
				described["status."+d.Path] = d.Description
			}
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, part := range []string{"spec", "status"} {
			schema, found, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", part)
			if !found {
				t.Errorf("%s has no %s", crd.GetName(), part)
			}
			leaves(schema, "", func(path, description string) {
				if ofKubernetes(path) {
					return
				}
				have := strings.Join(strings.Fields(described[part+"."+path]), " ")
				if want := strings.Join(strings.Fields(description), " "); want == "" || have != want {
					t.Errorf("%s %s.%s is described as %q, want %q", crd.GetName(), part, path, have, want)
				}
				delete(described, part+"."+path)
			})
		}
		for path := range described {
			t.Errorf("%s: %s is described but does not exist", crd.GetName(), path)
		}
	}
}

func TestDisplayNames(t *testing.T) {
	for path, want := range map[string]string{
		"mtu":                           "MTU",
		"gateway.overrides[0].nextHops": "Gateway Overrides Next Hops",
		"egressIPs":                     "Egress IPs",
		"clusterNetwork[0].cidr":        "Cluster Network CIDR",
		"linkMTU":                       "Link MTU",
		"dnsName":                       "DNS Name",
		"DNSName":                       "DNS Name",
		"nodeID":                        "Node ID",
	} {
		if have := displayName(path); have != want {
			t.Errorf("%s is %q, want %q", path, have, want)
		}
	}
}

// TestScorecardWouldPass repeats the scorecard's own checks of a bundle. They are internal to operator-sdk, and
// their program reads /bundle in a pod that the scorecard starts in a cluster.
func TestScorecardWouldPass(t *testing.T) {
	b := loaded(t)
	var examples []unstructured.Unstructured
	if err := json.Unmarshal([]byte(b.CSV.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	examined := map[string]bool{}
	for _, example := range examples {
		spec, ok := example.Object["spec"].(map[string]any)
		if !ok || len(spec) == 0 {
			t.Errorf("example %s has no spec", example.GetKind())
		}
		examined[example.GetKind()] = true
		for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
			if owned.Kind != example.GetKind() {
				continue
			}
			for _, d := range owned.SpecDescriptors {
				delete(spec, d.Path)
			}
		}
		for name := range spec {
			t.Errorf("field %s of example %s has no descriptor", name, example.GetKind())
		}
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		if len(owned.Resources) == 0 || len(owned.StatusDescriptors) == 0 || !examined[owned.Kind] {
			t.Errorf("%s: resources %v, %d status descriptors, example: %t", owned.Kind, owned.Resources,
				len(owned.StatusDescriptors), examined[owned.Kind])
		}
	}
	for _, crd := range b.V1CRDs {
		if schema := crd.Spec.Versions[0].Schema; schema == nil || len(schema.OpenAPIV3Schema.Properties["spec"].Properties) == 0 {
			t.Errorf("%s has no validation", crd.Name)
		}
	}
}

// TestMetadataAgrees checks that the scorecard finds its configuration where the bundle's labels point, and that the
// image has these labels.
func TestMetadataAgrees(t *testing.T) {
	var annotations struct{ Annotations map[string]string }
	decode(t, "bundle/metadata/annotations.yaml", &annotations)
	dockerfile, err := os.ReadFile(filepath.Join(root, "bundle.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range annotations.Annotations {
		if !strings.Contains(string(dockerfile), "LABEL "+name+"="+value+"\n") {
			t.Errorf("bundle.Dockerfile has no label %s=%s", name, value)
		}
		if folder, isFolder := strings.CutSuffix(value, "/"); isFolder {
			if entries, err := os.ReadDir(filepath.Join(root, "bundle", folder)); err != nil || len(entries) == 0 {
				t.Errorf("%s is empty: %v", folder, err)
			}
			if !strings.Contains(string(dockerfile), "COPY bundle/"+folder+" /"+folder+"/\n") {
				t.Errorf("bundle.Dockerfile does not copy %s", folder)
			}
		}
	}
	var config scorecardv1alpha3.Configuration
	decode(t, "bundle/"+annotations.Annotations["operators.operatorframework.io.test.config.v1"]+"config.yaml", &config)
	if len(config.Stages) != 1 || len(config.Stages[0].Tests) != len(scorecardTests) {
		t.Errorf("%+v", config)
	}
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
